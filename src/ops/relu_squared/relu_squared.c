/* relu_squared: what the arguments must be. */
#include "core/services.h"

tg_status tg_check_relu_squared_forward(const tg_relu_squared_forward_args *args)
{
    static const char op[] = "relu_squared_forward";
    TG_TRY(tg_expect_rows(op, "x", args->x));
    return tg_expect_same_shape(op, "y", args->y, "x", args->x);
}

tg_status tg_check_relu_squared_backward(const tg_relu_squared_backward_args *args)
{
    static const char op[] = "relu_squared_backward";
    TG_TRY(tg_expect_rows(op, "dy", args->dy));
    TG_TRY(tg_expect_same_shape(op, "x", args->x, "dy", args->dy));
    return tg_expect_same_shape(op, "dx", args->dx, "dy", args->dy);
}
