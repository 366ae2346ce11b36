/* group_norm: what is a valid problem. */
#include "core/services.h"

static tg_status check_x(const char *op, const tg_tensor *x, int64_t num_groups)
{
    char found[96];
    if (x->ndim < 2)
        return tg_fail(TG_EINVAL,
                       "%s: x is %s, expected at least two dimensions, [batch, channels]", op,
                       tg_describe(x, found, sizeof found));
    TG_TRY(tg_expect_rows(op, "x", x));
    TG_TRY(tg_expect_i64(op, "num_groups", num_groups, 1, INT64_MAX));
    if (num_groups > 1 && (x->shape[1] < num_groups || x->shape[1] % num_groups))
        return tg_fail(TG_EINVAL,
                       "%s: num_groups is %lld, expected a divisor of %lld, the channels of x", op,
                       (long long)num_groups, (long long)x->shape[1]);
    return TG_OK;
}

/* A tensor like x. */
static tg_status check_like(const char *op, const char *name, const tg_tensor *t,
                            const tg_tensor *x)
{
    return tg_expect_same_shape(op, name, t, "x", x);
}

static tg_status check_channels(const char *op, const char *name, const tg_tensor *t,
                                const tg_tensor *x)
{
    return tg_expect_vector(op, name, t, x->shape[1], "the channels of x");
}

static tg_status check_statistic(const char *op, const char *name, const tg_tensor *t,
                                 const tg_tensor *x, int64_t num_groups)
{
    return tg_expect_numel(op, name, t, x->shape[0] * num_groups,
                           "one for each group of each batch entry");
}

tg_status tg_check_group_norm_forward(const tg_group_norm_forward_args *a)
{
    static const char op[] = "group_norm_forward";
    TG_TRY(check_x(op, a->x, a->num_groups));
    TG_TRY(check_channels(op, "weight", a->weight, a->x));
    TG_TRY(check_channels(op, "bias", a->bias, a->x));
    TG_TRY(check_like(op, "y", a->y, a->x));
    TG_TRY(check_statistic(op, "mean", a->mean, a->x, a->num_groups));
    TG_TRY(check_statistic(op, "rstd", a->rstd, a->x, a->num_groups));
    return tg_expect_f64(op, "eps", a->eps, 0, FLT_MAX);
}

tg_status tg_check_group_norm_backward(const tg_group_norm_backward_args *a)
{
    static const char op[] = "group_norm_backward";
    TG_TRY(check_x(op, a->x, a->num_groups));
    TG_TRY(check_like(op, "dy", a->dy, a->x));
    TG_TRY(check_channels(op, "weight", a->weight, a->x));
    TG_TRY(check_statistic(op, "mean", a->mean, a->x, a->num_groups));
    TG_TRY(check_statistic(op, "rstd", a->rstd, a->x, a->num_groups));
    TG_TRY(check_like(op, "dx", a->dx, a->x));
    if (a->dweight && !a->weight)
        return tg_fail(TG_EINVAL,
                       "%s: dweight is given but weight is NULL, expected both or neither", op);
    TG_TRY(check_channels(op, "dweight", a->dweight, a->x));
    return check_channels(op, "dbias", a->dbias, a->x);
}
