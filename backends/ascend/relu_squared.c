/* relu_squared.c - host of kernels/maps/relu_squared.asc.c. */
#include "ascend.h"
#include "kernels/maps/relu_squared.args.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL(relu_squared_forward, RELU_SQUARED_FORWARD);
ASCEND_KERNEL(relu_squared_backward, RELU_SQUARED_BACKWARD);

ASCEND_KERNELS(relu_squared) = {
    [FORWARD] = ASCEND_FLAT(relu_squared_forward),
    [BACKWARD] = ASCEND_FLAT(relu_squared_backward),
    {0},
};

ASCEND_OPERATOR(relu_squared_forward, TG_TAKES_FLOATS);
ASCEND_FLAT_OPERATOR(relu_squared_forward, &ascend_ub_relu_squared[FORWARD], .x = args->x,
                     .y = args->y)

ASCEND_OPERATOR(relu_squared_backward, TG_TAKES_FLOATS);
ASCEND_FLAT_OPERATOR(relu_squared_backward, &ascend_ub_relu_squared[BACKWARD], .dy = args->dy,
                     .x = args->x, .dx = args->dx)
