/* What the rows of jsd share: options, and which rows count. */
#ifndef TG_JSD_H
#define TG_JSD_H

#include "core/services.h"

typedef struct jsd_options {
    double beta;
    const int64_t *labels; /* of each row, or NULL */
    int64_t ignored;
} jsd_options;

/* Of the argument struct of either direction. */
#define JSD_OPTIONS(args)                                                                        \
    (jsd_options)                                                                                \
    {                                                                                            \
        .beta = (args)->beta, .labels = tg_data((args)->labels), .ignored = (args)->ignore_index \
    }

static inline int jsd_ignores(const jsd_options *o, int64_t row)
{
    return o->labels && o->labels[row] == o->ignored;
}

/* 1 / n, or 0 if no row counts. */
static inline double jsd_scale(const jsd_options *o, int64_t rows)
{
    int64_t kept = 0;
    for (int64_t r = 0; r < rows; r++)
        kept += !jsd_ignores(o, r);
    return kept ? 1 / (double)kept : 0;
}

#endif
