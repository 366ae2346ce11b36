/* What the files of fused_linear_cross_entropy share: one view of both directions' arguments. */
#ifndef TG_FUSED_LINEAR_CROSS_ENTROPY_H
#define TG_FUSED_LINEAR_CROSS_ENTROPY_H

#include "core/view.h"
#include "rows/slice.h"

/* The arguments; NULL for what is not given or not of this direction. */
typedef struct flce {
    const tg_tensor *x, *weight, *target, *bias, *class_weight, *dloss;
    const tg_tensor *saved; /* backward: lse */
    const tg_tensor *logits;
    int known; /* logits are given, and not asked for */
    tg_tensor *loss, *z_loss, *lse, *accuracy, *predicted;
    tg_tensor *dx, *dweight, *dbias;
    int64_t ignore_index, reduction, token_scaling, accumulate, chunk_bytes;
    double smoothing, z, softcap, temperature;
    vocab_slice slice;
} flce;

#define FLCE_COMMON(a)                                                                       \
    .x = (a)->x, .weight = (a)->weight, .target = (a)->target, .bias = (a)->bias,            \
    .class_weight = (a)->class_weight, .dloss = (a)->dloss, .dx = (a)->dx,                   \
    .dweight = (a)->dweight, .dbias = (a)->dbias, .ignore_index = (a)->ignore_index,         \
    .logits = (a)->logits, .reduction = (a)->reduction, .token_scaling = (a)->token_scaling, \
    .accumulate = (a)->accumulate, .chunk_bytes = (a)->chunk_bytes,                          \
    .smoothing = (a)->label_smoothing, .z = (a)->lse_square_scale, .softcap = (a)->softcap,  \
    .temperature = (a)->temperature, .slice = {(a)->vocab_start, (a)->vocab_size}

static inline flce flce_forward(const tg_fused_linear_cross_entropy_forward_args *a)
{
    return (flce){FLCE_COMMON(a), .loss = a->loss,         .z_loss = a->z_loss,
                  .lse = a->lse,  .accuracy = a->accuracy, .predicted = a->predicted};
}

static inline flce flce_backward(const tg_fused_linear_cross_entropy_backward_args *a)
{
    return (flce){FLCE_COMMON(a), .saved = a->lse, .known = a->logits != NULL};
}

#endif
