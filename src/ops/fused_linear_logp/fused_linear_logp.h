/* What the files of fused_linear_logp share: one view of both directions' arguments. */
#ifndef TG_FUSED_LINEAR_LOGP_H
#define TG_FUSED_LINEAR_LOGP_H

#include "core/view.h"
#include "rows/logp.h"

/* The arguments; NULL for what is not given or not of this direction. */
typedef struct fllogp {
    logp_call c;
    const tg_tensor *x, *weight, *bias, *logits;
    int known; /* logits are given, and not asked for */
    tg_tensor *dx, *dweight, *dbias;
    double logit_scale;
    int64_t accumulate, chunk_bytes;
} fllogp;

#define FLLOGP_COMMON(a)                                                          \
    .x = (a)->x, .weight = (a)->weight, .bias = (a)->bias, .logits = (a)->logits, \
    .logit_scale = (a)->logit_scale, .chunk_bytes = (a)->chunk_bytes

static inline fllogp fllogp_forward(const tg_fused_linear_logp_forward_args *a)
{
    return (fllogp){FLLOGP_COMMON(a), .c = LOGP_FORWARD(a)};
}

static inline fllogp fllogp_backward(const tg_fused_linear_logp_backward_args *a)
{
    return (fllogp){
        FLLOGP_COMMON(a),      .c = LOGP_BACKWARD(a), .known = a->logits != NULL, .dx = a->dx,
        .dweight = a->dweight, .dbias = a->dbias,     .accumulate = a->accumulate};
}

#endif
