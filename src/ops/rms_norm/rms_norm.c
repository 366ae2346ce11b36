/* rms_norm and fused_add_rms_norm: what is a valid problem. */
#include "core/services.h"

static tg_status check_weight(const char *op, const tg_tensor *weight, const char *name,
                              const tg_tensor *x)
{
    return tg_expect_vector(op, name, weight, x->shape[x->ndim - 1], "the last dimension of x");
}

static tg_status check_rstd(const char *op, const tg_tensor *rstd, const tg_tensor *x)
{
    return tg_expect_numel(op, "rstd", rstd, tg_rows_of(x).rows, "one for each row");
}

/* A tensor of rows like x. */
static tg_status check_like(const char *op, const char *name, const tg_tensor *t,
                            const char *x_name, const tg_tensor *x)
{
    return tg_expect_same_shape(op, name, t, x_name, x);
}

static tg_status check_x(const char *op, const char *name, const tg_tensor *x)
{
    return tg_expect_rows(op, name, x);
}

tg_status tg_check_rms_norm_forward(const tg_rms_norm_forward_args *a)
{
    static const char op[] = "rms_norm_forward";
    TG_TRY(check_x(op, "x", a->x));
    TG_TRY(check_weight(op, a->weight, "weight", a->x));
    TG_TRY(check_like(op, "y", a->y, "x", a->x));
    TG_TRY(check_rstd(op, a->rstd, a->x));
    return tg_expect_f64(op, "eps", a->eps, 0, FLT_MAX);
}

tg_status tg_check_rms_norm_backward(const tg_rms_norm_backward_args *a)
{
    static const char op[] = "rms_norm_backward";
    TG_TRY(check_x(op, "x", a->x));
    TG_TRY(check_like(op, "dy", a->dy, "x", a->x));
    TG_TRY(check_weight(op, a->weight, "weight", a->x));
    TG_TRY(check_rstd(op, a->rstd, a->x));
    TG_TRY(check_like(op, "dx", a->dx, "x", a->x));
    if (a->dweight && !a->weight)
        return tg_fail(TG_EINVAL,
                       "%s: dweight is given but weight is NULL, expected both or neither", op);
    return check_weight(op, a->dweight, "dweight", a->x);
}

tg_status tg_check_fused_add_rms_norm_forward(const tg_fused_add_rms_norm_forward_args *a)
{
    static const char op[] = "fused_add_rms_norm_forward";
    TG_TRY(check_x(op, "x", a->x));
    TG_TRY(check_like(op, "residual", a->residual, "x", a->x));
    TG_TRY(check_weight(op, a->weight, "weight", a->x));
    TG_TRY(check_like(op, "y", a->y, "x", a->x));
    TG_TRY(check_like(op, "s", a->s, "x", a->x));
    TG_TRY(check_rstd(op, a->rstd, a->x));
    return tg_expect_f64(op, "eps", a->eps, 0, FLT_MAX);
}

tg_status tg_check_fused_add_rms_norm_backward(const tg_fused_add_rms_norm_backward_args *a)
{
    static const char op[] = "fused_add_rms_norm_backward";
    TG_TRY(check_x(op, "s", a->s));
    TG_TRY(check_like(op, "dy", a->dy, "s", a->s));
    TG_TRY(check_like(op, "ds", a->ds, "s", a->s));
    TG_TRY(check_weight(op, a->weight, "weight", a->s));
    TG_TRY(check_rstd(op, a->rstd, a->s));
    TG_TRY(check_like(op, "dx", a->dx, "s", a->s));
    return check_weight(op, a->dweight, "dweight", a->s);
}
