/* fused_moe: what its shapes do not say of a valid problem. */
#include <math.h>

#include "fused_moe.h"

static tg_status check_gate(const char *op, int64_t activation, double limit, double alpha,
                            double up_offset)
{
    if (!(limit >= 0))
        return tg_fail(TG_EINVAL, "%s: limit is %g, expected a number from 0 on", op, limit);
    if (activation != TG_MOE_SWIGLU && (limit < HUGE_VAL || alpha != 1 || up_offset != 0))
        return tg_fail(TG_EINVAL,
                       "%s: limit, alpha and up_offset are %g, %g and %g, expected none "
                       "with an activation other than swiglu",
                       op, limit, alpha, up_offset);
    return TG_OK;
}

static tg_status check_experts(const char *op, const tg_tensor *down)
{
    if (down->shape[0] < 1)
        return tg_fail(TG_EINVAL, "%s: down is of 0 experts, expected 1 at least", op);
    return TG_OK;
}

tg_status tg_check_fused_moe_forward(const tg_fused_moe_forward_args *args)
{
    const char *op = "fused_moe_forward";
    TG_TRY(check_gate(op, args->activation, args->limit, args->alpha, args->up_offset));
    TG_TRY(tg_expect_i64(op, "capacity", args->capacity, 0, INT64_MAX));
    TG_TRY(check_experts(op, args->down));
    return tg_expect_indices(op, "index", args->index, args->down->shape[0] + 1, NULL);
}

tg_status tg_check_fused_moe_backward(const tg_fused_moe_backward_args *args)
{
    const char *op = "fused_moe_backward";
    static const int64_t none = -1;
    const int64_t slots = tg_numel(args->slot);
    TG_TRY(check_gate(op, args->activation, args->limit, args->alpha, args->up_offset));
    TG_TRY(tg_expect_with(op, "dgate_up_bias", args->dgate_up_bias, "gate_up_bias",
                          args->gate_up_bias));
    TG_TRY(tg_expect_with(op, "ddown_bias", args->ddown_bias, "down_bias", args->down_bias));
    TG_TRY(check_experts(op, args->down));
    TG_TRY(tg_expect_indices(op, "place", args->place, slots, &none));
    TG_TRY(grouped_check_offset(op, args->offset, slots));
    return grouped_check_numbers(op, "slot", args->slot, args->offset, slots);
}
