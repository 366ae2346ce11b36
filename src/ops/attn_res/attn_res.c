/* attn_res: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status check_blocks(const char *op, const tg_tensor *v)
{
    return TG_LIKELY(v->shape[0] > 0)
               ? TG_OK
               : tg_fail(TG_EINVAL, "%s: v has no blocks, expected one at least", op);
}

tg_status tg_check_attn_res_forward(const tg_attn_res_forward_args *args)
{
    TG_TRY(check_blocks("attn_res_forward", args->v));
    return tg_expect_f64("attn_res_forward", "eps", args->eps, 0, FLT_MAX);
}

tg_status tg_check_attn_res_backward(const tg_attn_res_backward_args *args)
{
    return check_blocks("attn_res_backward", args->v);
}
