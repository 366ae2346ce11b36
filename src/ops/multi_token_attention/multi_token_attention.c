/* multi_token_attention: what its shapes do not say of a valid problem. */
#include "core/services.h"

enum { FAR = 1 << 12 /* what padding and a kernel's span may be at most */ };

static tg_status check_channels(const char *op, const tg_tensor *probs, const tg_tensor *weight,
                                int64_t groups)
{
    const int64_t in = probs->shape[1], out = weight->shape[0], each = weight->shape[1];
    TG_TRY(tg_expect_i64(op, "groups", groups, 1, INT32_MAX));
    if (TG_LIKELY(each * groups == in && out % groups == 0))
        return TG_OK;
    return tg_fail(TG_EINVAL,
                   "%s: weight is [%lld,%lld,..] and groups %lld, expected a multiple of the "
                   "groups and a part of the %lld channels of scores",
                   op, (long long)out, (long long)each, (long long)groups, (long long)in);
}

static tg_status check_kernel(const char *op, const tg_tensor *weight, int64_t padding,
                              int64_t dilation)
{
    TG_TRY(tg_expect_i64(op, "padding", padding, 0, FAR));
    TG_TRY(tg_expect_i64(op, "dilation", dilation, 1, FAR));
    if (TG_LIKELY(weight->shape[3] >= 1 && weight->shape[3] * dilation <= FAR))
        return TG_OK;
    return tg_fail(TG_EINVAL, "%s: weight has %lld columns, expected 1 to %lld", op,
                   (long long)weight->shape[3], (long long)(FAR / dilation));
}

tg_status tg_check_multi_token_attention_forward(const tg_multi_token_attention_forward_args *args)
{
    const char *op = "multi_token_attention_forward";
    TG_TRY(check_channels(op, args->scores, args->weight, args->groups));
    return check_kernel(op, args->weight, args->padding, args->dilation);
}

tg_status
tg_check_multi_token_attention_backward(const tg_multi_token_attention_backward_args *args)
{
    const char *op = "multi_token_attention_backward";
    TG_TRY(check_channels(op, args->probs, args->weight, args->groups));
    return check_kernel(op, args->weight, args->padding, args->dilation);
}
