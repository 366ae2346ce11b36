/* moe_gather.h - what fused_moe takes of moe_gather and moe_scatter. */
#ifndef ASCEND_MOE_GATHER_H
#define ASCEND_MOE_GATHER_H

#include "ascend.h"

/* out of each token = addend + the sum of its slots' rows, weighed, in the order of k. addend and
 * weights, f32, may be NULL. */
tg_status ascend_moe_collect(tg_ctx *ctx, const tg_tensor *rows, const tg_tensor *place,
                             const tg_tensor *weights, const tg_tensor *addend,
                             const tg_tensor *out);
/* dweights, f32: of each slot its row times its token's of dy. */
tg_status ascend_moe_dots(tg_ctx *ctx, const tg_tensor *rows, const tg_tensor *dy,
                          const tg_tensor *place, const tg_tensor *dweights);
/* out of each slot = x of its token; the second one: times the weight of the slot, f32, if there
 * are weights. */
tg_status ascend_moe_spread(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *slot, int64_t top_k,
                            const tg_tensor *out);
tg_status ascend_moe_weigh(tg_ctx *ctx, const tg_tensor *x, const tg_tensor *slot,
                           const tg_tensor *weights, int64_t top_k, const tg_tensor *out);

#endif
