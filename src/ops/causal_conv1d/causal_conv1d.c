/* causal_conv1d: what its shapes do not say of a valid problem. */
#include "causal_conv1d.h"

static tg_status check_width(const char *op, const tg_tensor *weight)
{
    const int64_t width = weight->shape[weight->ndim - 1];
    if (TG_LIKELY(width >= 1 && width <= CONV_MOST))
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: weight has %lld columns, expected 1 to %d", op, (long long)width,
                   CONV_MOST);
}

tg_status tg_check_causal_conv1d_forward(const tg_causal_conv1d_forward_args *args)
{
    return check_width("causal_conv1d_forward", args->weight);
}

tg_status tg_check_causal_conv1d_backward(const tg_causal_conv1d_backward_args *args)
{
    const char *op = "causal_conv1d_backward";
    TG_TRY(tg_expect_with(op, "dbias", args->dbias, "bias", args->bias));
    TG_TRY(tg_expect_with(op, "din_gate", args->din_gate, "in_gate", args->in_gate));
    TG_TRY(tg_expect_with(op, "dout_gate", args->dout_gate, "out_gate", args->out_gate));
    return check_width(op, args->weight);
}
