/* What the files of fused_linear_jsd share: one view of both directions' arguments. */
#ifndef TG_FUSED_LINEAR_JSD_H
#define TG_FUSED_LINEAR_JSD_H

#include "core/view.h"
#include "rows/counts.h"

/* The arguments; NULL for what is not given or not of this direction. */
typedef struct fljsd {
    const tg_tensor *x, *weight, *teacher_x, *teacher_weight, *labels, *dloss;
    const tg_tensor *logits, *teacher_logits;
    int known; /* these are given, and not asked for */
    tg_tensor *loss, *dx, *dweight;
    int64_t ignore_index, accumulate, chunk_bytes;
    double beta, temperature;
} fljsd;

#define FLJSD_COMMON(a)                                                                            \
    .x = (a)->x, .weight = (a)->weight, .teacher_x = (a)->teacher_x,                               \
    .teacher_weight = (a)->teacher_weight, .labels = (a)->labels,                                  \
    .ignore_index = (a)->ignore_index, .dloss = (a)->dloss, .dx = (a)->dx,                         \
    .dweight = (a)->dweight, .accumulate = (a)->accumulate, .chunk_bytes = (a)->chunk_bytes,       \
    .logits = (a)->logits, .teacher_logits = (a)->teacher_logits, .temperature = (a)->temperature, \
    .beta = (a)->beta

static inline fljsd fljsd_forward(const tg_fused_linear_jsd_forward_args *a)
{
    return (fljsd){FLJSD_COMMON(a), .loss = a->loss};
}

static inline fljsd fljsd_backward(const tg_fused_linear_jsd_backward_args *a)
{
    return (fljsd){FLJSD_COMMON(a), .known = 1};
}

#endif
