/* layer_norm: what is a valid problem. */
#include "core/services.h"

/* x, or a tensor of rows like it. */
static tg_status check_rows(const char *op, const char *name, const tg_tensor *t,
                            const tg_tensor *x)
{
    return tg_expect_same_shape(op, name, t, "x", x);
}

static tg_status check_columns(const char *op, const char *name, const tg_tensor *t,
                               const tg_tensor *x)
{
    return tg_expect_vector(op, name, t, x->shape[x->ndim - 1], "the last dimension of x");
}

static tg_status check_statistic(const char *op, const char *name, const tg_tensor *t,
                                 const tg_tensor *x)
{
    return tg_expect_numel(op, name, t, tg_rows_of(x).rows, "one for each row");
}

tg_status tg_check_layer_norm_forward(const tg_layer_norm_forward_args *a)
{
    static const char op[] = "layer_norm_forward";
    TG_TRY(tg_expect_rows(op, "x", a->x));
    TG_TRY(check_columns(op, "weight", a->weight, a->x));
    TG_TRY(check_columns(op, "bias", a->bias, a->x));
    TG_TRY(check_rows(op, "y", a->y, a->x));
    TG_TRY(check_statistic(op, "mean", a->mean, a->x));
    TG_TRY(check_statistic(op, "rstd", a->rstd, a->x));
    return tg_expect_f64(op, "eps", a->eps, 0, FLT_MAX);
}

tg_status tg_check_layer_norm_backward(const tg_layer_norm_backward_args *a)
{
    static const char op[] = "layer_norm_backward";
    TG_TRY(tg_expect_rows(op, "x", a->x));
    TG_TRY(check_rows(op, "dy", a->dy, a->x));
    TG_TRY(check_columns(op, "weight", a->weight, a->x));
    TG_TRY(check_statistic(op, "mean", a->mean, a->x));
    TG_TRY(check_statistic(op, "rstd", a->rstd, a->x));
    TG_TRY(check_rows(op, "dx", a->dx, a->x));
    if (a->dweight && !a->weight)
        return tg_fail(TG_EINVAL,
                       "%s: dweight is given but weight is NULL, expected both or neither", op);
    TG_TRY(check_columns(op, "dweight", a->dweight, a->x));
    return check_columns(op, "dbias", a->dbias, a->x);
}
