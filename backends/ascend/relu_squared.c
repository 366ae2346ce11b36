/* relu_squared.c - host of kernels/maps/relu_squared.asc.c. */
#include "ascend.h"
#include "kernels/maps/relu_squared.args.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(relu_squared_forward, RELU_SQUARED_FORWARD);
ASCEND_KERNEL(relu_squared_backward, RELU_SQUARED_BACKWARD);

ASCEND_KERNELS(relu_squared) = {
    [FORWARD] = {.name = "relu_squared_forward.flat",
                 ASCEND_BUFFERS(relu_squared_forward),
                 .flat = 1},
    [BACKWARD] = {.name = "relu_squared_backward.flat",
                  ASCEND_BUFFERS(relu_squared_backward),
                  .flat = 1},
    {0},
};

ASCEND_OPERATOR(relu_squared_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(relu_squared_backward, TG_TAKES_FLOATS);

tg_status ascend_relu_squared_forward(tg_ctx *ctx, const tg_relu_squared_forward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_relu_squared[FORWARD], 0, relu_squared_forward,
                           .x = args->x, .y = args->y);
}

tg_status ascend_relu_squared_backward(tg_ctx *ctx, const tg_relu_squared_backward_args *args)
{
    return ASCEND_RUN_FLAT(ctx, &ascend_ub_relu_squared[BACKWARD], 0, relu_squared_backward,
                           .dy = args->dy, .x = args->x, .dx = args->dx);
}
