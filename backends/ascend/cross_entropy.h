/* cross_entropy.h - rows of logits and targets: what cross_entropy and
 * selective_log_softmax share. */
#ifndef CROSS_ENTROPY_H
#define CROSS_ENTROPY_H

#include <math.h>

#include "ascend.h"
#include "kernels/losses/cross_entropy.args.h"

/* A call of either direction. */
typedef struct ce_call {
    const tg_tensor *logits, *dlogits, *target, *class_weight, *dloss, *lse, *loss, *z_loss,
        *accuracy, *predicted;
    const tg_tensor *counted; /* the targets that a mean counts */
    int64_t rows, classes, ignore_index, flags;
    double smoothing, z, softcap, grad_scale;
    double scale, unit;                             /* of logits; of losses */
    ascend_memory counts, losses, z_losses, rights; /* between the launches */
    ascend_memory loss_to, z_loss_to, accuracy_to;  /* one of those, or the result itself */
    int64_t count_blocks;
    int once; /* with CE_TRIED: a row that would have to be read twice takes lse as it was saved */
    int64_t summands; /* losses, z_losses: one a row, or one a block */
    ascend_plan sums;
} ce_call;

/* Roundings of f32 that a target's 1 - p may be off by through a saved lse of n classes, as
 * src/rows/exponentials.h has it: what a sum of n terms may be off by. */
static inline double cross_entropy_roundings(int64_t n)
{
    return fmin(8 + 0.75 * sqrt((double)n), 512);
}

/* What the gradient of logits becomes when it is written: they have its type, or f32. */
static inline int64_t cross_entropy_out(const tg_tensor *dlogits, const tg_tensor *logits)
{
    if (!dlogits || tg_type_of(dlogits) == tg_type_of(logits))
        return CE_OUT_SAME;
    return tg_type_of(dlogits) == TG_BF16 ? CE_OUT_BF16 : CE_OUT_F16;
}

/* What the launches before and behind that of the rows keep in UB. */
tg_status ascend_cross_entropy_plan_sums(ce_call *c);

/* n, D, W, where they are needed. */
tg_status ascend_cross_entropy_count(tg_ctx *ctx, ce_call *c);

/* The launch of the rows of such a call. */
tg_status ascend_cross_entropy_rows(tg_ctx *ctx, ce_call *c);

/* The reduced losses, of what the rows have left. */
tg_status ascend_cross_entropy_finish(tg_ctx *ctx, ce_call *c);

#endif
