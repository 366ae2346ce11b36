/* swiglu.c - host of kernels/swiglu.asc.c. */
#include "ascend.h"
#include "kernels/swiglu.args.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(swiglu_forward, SWIGLU_FORWARD);
ASCEND_KERNEL(swiglu_backward, SWIGLU_BACKWARD);

const tg_ub_kernel ascend_ub_swiglu[] = {
    [FORWARD] = {.name = "swiglu_forward.flat", ASCEND_BUFFERS(swiglu_forward), .flat = 1},
    [BACKWARD] = {.name = "swiglu_backward.flat", ASCEND_BUFFERS(swiglu_backward), .flat = 1},
    {0},
};

tg_status ascend_swiglu_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[FORWARD], 0, swiglu_forward, .gate = args->gate,
                           .up = args->up, .y = args->y, .gate_multiplier = args->gate_multiplier,
                           .down_multiplier = args->down_multiplier);
}

tg_status ascend_swiglu_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_swiglu[BACKWARD], 0, swiglu_backward, .dy = args->dy,
                           .gate = args->gate, .up = args->up, .dgate = args->dgate,
                           .dup = args->dup, .gate_multiplier = args->gate_multiplier,
                           .down_multiplier = args->down_multiplier);
}
