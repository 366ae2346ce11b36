/* softmax: what the arguments must be. */
#include "core/services.h"

static tg_status expect_rows_like(const char *op, const char *name, const tg_tensor *t,
                                  const char *like_name, const tg_tensor *like)
{
    return tg_expect_same_shape(op, name, t, like_name, like);
}

tg_status tg_check_softmax_forward(const tg_softmax_forward_args *args)
{
    static const char op[] = "softmax_forward";
    TG_TRY(tg_expect_rows(op, "x", args->x));
    return expect_rows_like(op, "y", args->y, "x", args->x);
}

tg_status tg_check_softmax_backward(const tg_softmax_backward_args *args)
{
    static const char op[] = "softmax_backward";
    TG_TRY(tg_expect_rows(op, "dy", args->dy));
    TG_TRY(expect_rows_like(op, "y", args->y, "dy", args->dy));
    return expect_rows_like(op, "dx", args->dx, "dy", args->dy);
}
