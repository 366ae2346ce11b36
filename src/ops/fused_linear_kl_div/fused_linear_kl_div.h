/* What the files of fused_linear_kl_div share: one view of both directions' arguments. */
#ifndef TG_FUSED_LINEAR_KL_DIV_H
#define TG_FUSED_LINEAR_KL_DIV_H

#include "core/view.h"
#include "rows/counts.h"

/* The arguments; NULL for what is not given or not of this direction. */
typedef struct flkl {
    const tg_tensor *x, *weight, *target, *bias, *labels, *dloss, *logits;
    int known; /* logits are given, and not asked for */
    tg_tensor *loss, *dx, *dweight, *dbias;
    int64_t reduction, ignore_index, accumulate, chunk_bytes;
    double temperature, eps;
} flkl;

#define FLKL_COMMON(a)                                                                   \
    .x = (a)->x, .weight = (a)->weight, .target = (a)->target, .bias = (a)->bias,        \
    .labels = (a)->labels, .dloss = (a)->dloss, .dx = (a)->dx, .dweight = (a)->dweight,  \
    .dbias = (a)->dbias, .reduction = (a)->reduction, .ignore_index = (a)->ignore_index, \
    .accumulate = (a)->accumulate, .chunk_bytes = (a)->chunk_bytes,                      \
    .temperature = (a)->temperature, .logits = (a)->logits

static inline flkl flkl_forward(const tg_fused_linear_kl_div_forward_args *a)
{
    return (flkl){FLKL_COMMON(a), .loss = a->loss, .eps = a->eps};
}

static inline flkl flkl_backward(const tg_fused_linear_kl_div_backward_args *a)
{
    return (flkl){FLKL_COMMON(a), .known = a->logits != NULL};
}

/* What the reduction gives to each row, of so many. */
static inline double flkl_scale(const flkl *f, int64_t rows)
{
    return reduction_scale(row_labels_of(f->labels, f->ignore_index), f->reduction, rows,
                           f->weight->shape[0]);
}

#endif
