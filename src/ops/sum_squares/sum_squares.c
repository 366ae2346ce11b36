/* sum_squares: what the arguments must be. */
#include "core/services.h"

tg_status tg_check_sum_squares_forward(const tg_sum_squares_forward_args *args)
{
    static const char op[] = "sum_squares_forward";
    TG_TRY(tg_expect_rows(op, "x", args->x));
    return tg_expect_numel(op, "y", args->y, 1, "one, the sum");
}

tg_status tg_check_sum_squares_backward(const tg_sum_squares_backward_args *args)
{
    static const char op[] = "sum_squares_backward";
    TG_TRY(tg_expect_rows(op, "x", args->x));
    TG_TRY(tg_expect_numel(op, "dy", args->dy, 1, "one, as the sum has"));
    return tg_expect_same_shape(op, "dx", args->dx, "x", args->x);
}
