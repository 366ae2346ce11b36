/* group_norm: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status check_groups(const char *op, const tg_tensor *x, int64_t num_groups)
{
    TG_TRY(tg_expect_i64(op, "num_groups", num_groups, 1, INT64_MAX));
    if (num_groups > 1 && (x->shape[1] < num_groups || x->shape[1] % num_groups))
        return tg_fail(TG_EINVAL,
                       "%s: num_groups is %lld, expected a divisor of %lld, the channels of x", op,
                       (long long)num_groups, (long long)x->shape[1]);
    return TG_OK;
}

tg_status tg_check_group_norm_forward(const tg_group_norm_forward_args *args)
{
    static const char op[] = "group_norm_forward";
    TG_TRY(check_groups(op, args->x, args->num_groups));
    return tg_expect_f64(op, "eps", args->eps, 0, FLT_MAX);
}

tg_status tg_check_group_norm_backward(const tg_group_norm_backward_args *args)
{
    static const char op[] = "group_norm_backward";
    TG_TRY(check_groups(op, args->x, args->num_groups));
    return tg_expect_with(op, "dweight", args->dweight, "weight", args->weight);
}
