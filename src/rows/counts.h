/* src/rows/counts.h - which rows a loss counts, and what a reduction divides by. Plain C: the
 * definitions stand on it as well. */
#ifndef TG_ROWS_COUNTS_H
#define TG_ROWS_COUNTS_H

#include "core/services.h"

/* A label for each row; rows whose label is `ignored` do not count. Without labels all do. */
typedef struct row_labels {
    const int64_t *of; /* NULL: no labels */
    int64_t ignored;
} row_labels;

static inline row_labels row_labels_of(const tg_tensor *labels, int64_t ignore_index)
{
    return (row_labels){tg_data(labels), ignore_index};
}

static inline int row_ignored(row_labels l, int64_t row)
{
    return l.of && l.of[row] == l.ignored;
}

static inline int64_t rows_counted(row_labels l, int64_t rows)
{
    int64_t count = l.of ? 0 : rows; /* of a batch these may be any number */
    for (int64_t r = 0; l.of && r < rows; r++)
        count += !row_ignored(l, r);
    return count;
}

/* 1 / x; 0 for 0, where nothing counts: losses and gradients are 0 then. */
static inline double count_share(double x)
{
    return x != 0 ? 1 / x : 0;
}

/* The part that a row has in a mean over the rows that count. */
static inline double rows_share(row_labels l, int64_t rows)
{
    return count_share((double)rows_counted(l, rows));
}

/* The factor that a reduction gives to each element's term: TG_MEAN is over the elements of the
 * rows that count, TG_BATCHMEAN over those rows. */
static inline double reduction_scale(row_labels l, int64_t reduction, int64_t rows, int64_t n)
{
    if (reduction == TG_SUM || reduction == TG_NONE)
        return 1;
    const double counted = (double)rows_counted(l, rows);
    return count_share(counted * (reduction == TG_MEAN ? (double)n : 1));
}

#endif
