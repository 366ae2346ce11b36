/* rms_norm and fused_add_rms_norm: what their shapes do not say of a valid problem. */
#include "core/services.h"

/* Each row of scale goes with equally many rows of x; a gate goes with no scale. */
static tg_status check_scale(const char *op, const tg_tensor *x, const tg_tensor *gate,
                             const tg_tensor *scale)
{
    if (TG_LIKELY(!scale))
        return TG_OK;
    const int64_t rows = tg_rows_of(x).rows, groups = tg_rows_of(scale).rows;
    if (gate)
        return tg_fail(TG_EINVAL, "%s: gate and scale are given, expected one of them", op);
    if (groups ? rows % groups : rows)
        return tg_fail(TG_EINVAL, "%s: scale has %lld rows, expected a divisor of x's, %lld", op,
                       (long long)groups, (long long)rows);
    return TG_OK;
}

tg_status tg_check_rms_norm_forward(const tg_rms_norm_forward_args *args)
{
    const char *op = "rms_norm_forward";
    TG_TRY(tg_expect_with(op, "shift", args->shift, "scale", args->scale));
    TG_TRY(check_scale(op, args->x, args->gate, args->scale));
    return tg_expect_f64(op, "eps", args->eps, 0, FLT_MAX);
}

tg_status tg_check_rms_norm_backward(const tg_rms_norm_backward_args *args)
{
    const char *op = "rms_norm_backward";
    TG_TRY(tg_expect_with(op, "dweight", args->dweight, "weight", args->weight));
    TG_TRY(tg_expect_with(op, "dgate", args->dgate, "gate", args->gate));
    TG_TRY(tg_expect_with(op, "dscale", args->dscale, "scale", args->scale));
    TG_TRY(tg_expect_with(op, "dshift", args->dshift, "scale", args->scale));
    return check_scale(op, args->x, args->gate, args->scale);
}

tg_status tg_check_fused_add_rms_norm_forward(const tg_fused_add_rms_norm_forward_args *args)
{
    return tg_expect_f64("fused_add_rms_norm_forward", "eps", args->eps, 0, FLT_MAX);
}
