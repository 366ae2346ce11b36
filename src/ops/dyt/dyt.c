/* dyt: what the arguments must be. */
#include "core/services.h"

/* A vector over the columns of x, or its gradient. */
static tg_status check_vector(const char *op, const char *name, const tg_tensor *t,
                              const tg_tensor *x)
{
    return tg_expect_vector(op, name, t, x->shape[x->ndim - 1], "the last dimension of x");
}

static tg_status check_alpha(const char *op, const char *name, const tg_tensor *t)
{
    return tg_expect_numel(op, name, t, 1, "one for all of x");
}

static tg_status check_x(const char *op, const tg_tensor *x)
{
    return tg_expect_rows(op, "x", x);
}

static tg_status check_like_x(const char *op, const char *name, const tg_tensor *t,
                              const tg_tensor *x)
{
    return tg_expect_same_shape(op, name, t, "x", x);
}

tg_status tg_check_dyt_forward(const tg_dyt_forward_args *args)
{
    static const char op[] = "dyt_forward";
    TG_TRY(check_x(op, args->x));
    TG_TRY(check_alpha(op, "alpha", args->alpha));
    TG_TRY(check_vector(op, "gamma", args->gamma, args->x));
    TG_TRY(check_vector(op, "beta", args->beta, args->x));
    return check_like_x(op, "y", args->y, args->x);
}

tg_status tg_check_dyt_backward(const tg_dyt_backward_args *args)
{
    static const char op[] = "dyt_backward";
    TG_TRY(check_x(op, args->x));
    TG_TRY(check_like_x(op, "dy", args->dy, args->x));
    TG_TRY(check_alpha(op, "alpha", args->alpha));
    TG_TRY(check_vector(op, "gamma", args->gamma, args->x));
    TG_TRY(check_like_x(op, "dx", args->dx, args->x));
    TG_TRY(check_alpha(op, "dalpha", args->dalpha));
    TG_TRY(check_vector(op, "dgamma", args->dgamma, args->x));
    return check_vector(op, "dbeta", args->dbeta, args->x);
}
