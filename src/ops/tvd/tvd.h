/* What the rows of tvd share: which rows count, and the factor of each term. */
#ifndef TG_TVD_H
#define TG_TVD_H

#include "core/services.h"

typedef struct tvd_labels {
    const int64_t *of; /* of each row, or NULL */
    int64_t ignored;
} tvd_labels;

static inline tvd_labels tvd_labels_of(const tg_tensor *labels, int64_t ignore_index)
{
    return (tvd_labels){tg_data(labels), ignore_index};
}

static inline int tvd_ignores(tvd_labels l, int64_t row)
{
    return l.of && l.of[row] == l.ignored;
}

/* The factor that a reduction gives to each element's term. */
static inline double tvd_scale(tvd_labels l, int64_t reduction, int64_t rows, int64_t n)
{
    if (reduction == TG_SUM || reduction == TG_NONE)
        return 1;
    int64_t kept = 0;
    for (int64_t r = 0; r < rows; r++)
        kept += !tvd_ignores(l, r);
    const double count = (double)kept * (reduction == TG_MEAN ? (double)n : 1);
    return count > 0 ? 1 / count : 0;
}

#endif
