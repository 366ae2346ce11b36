/* poly_norm: what the arguments must be. */
#include "core/services.h"

static tg_status check_weight(const char *op, const char *name, const tg_tensor *t)
{
    return tg_expect_vector(op, name, t, 3, "one for each power");
}

static tg_status check_bias(const char *op, const char *name, const tg_tensor *t)
{
    return tg_expect_numel(op, name, t, 1, "one for all of x");
}

static tg_status check_rstd(const char *op, const tg_tensor *rstd, const tg_tensor *x)
{
    int64_t n;
    if (__builtin_mul_overflow(tg_rows_of(x).rows, 3, &n))
        n = INT64_MAX;
    return tg_expect_numel(op, "rstd", rstd, n, "three for each row");
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

tg_status tg_check_poly_norm_forward(const tg_poly_norm_forward_args *args)
{
    static const char op[] = "poly_norm_forward";
    TG_TRY(check_x(op, args->x));
    TG_TRY(check_weight(op, "weight", args->weight));
    TG_TRY(check_bias(op, "bias", args->bias));
    TG_TRY(check_like_x(op, "y", args->y, args->x));
    TG_TRY(check_rstd(op, args->rstd, args->x));
    return tg_expect_f64(op, "eps", args->eps, 0, FLT_MAX);
}

tg_status tg_check_poly_norm_backward(const tg_poly_norm_backward_args *args)
{
    static const char op[] = "poly_norm_backward";
    TG_TRY(check_x(op, args->x));
    TG_TRY(check_like_x(op, "dy", args->dy, args->x));
    TG_TRY(check_weight(op, "weight", args->weight));
    TG_TRY(check_rstd(op, args->rstd, args->x));
    TG_TRY(check_like_x(op, "dx", args->dx, args->x));
    TG_TRY(check_weight(op, "dweight", args->dweight));
    return check_bias(op, "dbias", args->dbias);
}
