/* flash_attention: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status check_heads(const char *op, const tg_tensor *q, const tg_tensor *k)
{
    const int64_t heads = q->shape[2], key_heads = k->shape[2];
    if (key_heads == 0 ? heads != 0 : heads % key_heads != 0)
        return tg_fail(TG_EINVAL, "%s: k has %lld heads, expected a divisor of the %lld heads of q",
                       op, (long long)key_heads, (long long)heads);
    return TG_OK;
}

tg_status tg_check_flash_attention_forward(const tg_flash_attention_forward_args *args)
{
    return check_heads("flash_attention_forward", args->q, args->k);
}

tg_status tg_check_flash_attention_backward(const tg_flash_attention_backward_args *args)
{
    return check_heads("flash_attention_backward", args->q, args->k);
}
