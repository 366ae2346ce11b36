/* What the files of fused_linear_jsd share: one view of both directions' arguments. */
#ifndef TG_FUSED_LINEAR_JSD_H
#define TG_FUSED_LINEAR_JSD_H

#include "core/view.h"

/* The arguments; NULL for what is not given or not of this direction. */
typedef struct fljsd {
    const tg_tensor *x, *weight, *teacher_x, *teacher_weight, *labels, *dloss;
    tg_tensor *loss, *dx, *dweight;
    int64_t ignored, accumulate, chunk_bytes;
    double beta, temperature;
} fljsd;

#define FLJSD_COMMON(a)                                                                \
    .x = (a)->x, .weight = (a)->weight, .teacher_x = (a)->teacher_x,                   \
    .teacher_weight = (a)->teacher_weight, .labels = (a)->labels, .dloss = (a)->dloss, \
    .dx = (a)->dx, .dweight = (a)->dweight, .accumulate = (a)->accumulate,             \
    .chunk_bytes = (a)->chunk_bytes, .temperature = (a)->temperature,                  \
    .ignored = (a)->ignore_index, .beta = (a)->beta

static inline fljsd fljsd_forward(const tg_fused_linear_jsd_forward_args *a)
{
    return (fljsd){FLJSD_COMMON(a), .loss = a->loss};
}

static inline fljsd fljsd_backward(const tg_fused_linear_jsd_backward_args *a)
{
    return (fljsd){FLJSD_COMMON(a)};
}

static inline int fljsd_ignores(const fljsd *f, int64_t row)
{
    return f->labels && ((const int64_t *)tg_data(f->labels))[row] == f->ignored;
}

/* 1 / n, n the number of rows that count, or 0 if there are none. */
static inline double fljsd_per_row(const fljsd *f, int64_t rows)
{
    int64_t kept = 0;
    for (int64_t r = 0; r < rows; r++)
        kept += !fljsd_ignores(f, r);
    return kept ? 1 / (double)kept : 0;
}

#endif
