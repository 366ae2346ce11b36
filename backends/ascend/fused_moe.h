/* fused_moe.h - what both directions of fused_moe share. */
#ifndef ASCEND_FUSED_MOE_H
#define ASCEND_FUSED_MOE_H

#include "grouped_gemm.h"
#include "moe_gather.h"

typedef struct moe_problem {
    int64_t tokens, hidden, inner, experts, top_k, slots, transposed;
    int type;
    tg_device device;
} moe_problem;
moe_problem moe_problem_of(const tg_tensor *x, const tg_tensor *down, const tg_tensor *weights,
                           int64_t transposed);

typedef struct moe_gate {
    int64_t activation, interleaved;
    double limit, alpha, up_offset;
} moe_gate;
#define MOE_GATE_OF(args)                                                              \
    ((moe_gate){(args)->activation, (args)->interleaved, (args)->limit, (args)->alpha, \
                (args)->up_offset})

/* Memory between launches as rows. */
typedef struct moe_tensor {
    tg_tensor tensor;
    int64_t shape[2];
} moe_tensor;
tg_status moe_memory(tg_ctx *ctx, const moe_problem *p, int type, int64_t rows, int64_t columns,
                     moe_tensor *to);

/* Weights as f32, which is what sums of tokens take; see ascend_moe_collect(). */
tg_status moe_wide(tg_ctx *ctx, const moe_problem *p, const tg_tensor *weights, moe_tensor *to);

typedef struct moe_routing {
    tg_tensor slot, offset, place;
    int64_t shapes[3][2];
} moe_routing;

/* Rows of x in the order of slots, times their weights: what the first product takes with
 * scale_input. */
tg_status moe_scaled(tg_ctx *ctx, const moe_problem *p, const tg_tensor *x,
                     const tg_tensor *weights, const moe_routing *r, moe_tensor *memory);

/* The first product, [slots, 2 inner], with the gate behind it. x: rows of tokens with gather, else
 * of slots. pre or act may be NULL. */
typedef struct moe_projection {
    const tg_tensor *x, *gate_up, *bias, *offset, *gather, *pre, *act;
    const moe_gate *gate;
} moe_projection;
tg_status moe_project(tg_ctx *ctx, const moe_problem *p, const moe_projection *args);

#endif
