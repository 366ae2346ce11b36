/* fused_neighborhood_attention: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status check_options(const char *op, int64_t kernel_size, int64_t dilation)
{
    TG_TRY(tg_expect_i64(op, "kernel_size", kernel_size, 1, INT64_MAX));
    return tg_expect_i64(op, "dilation", dilation, 1, INT64_MAX);
}

tg_status
tg_check_fused_neighborhood_attention_forward(const tg_fused_neighborhood_attention_forward_args *a)
{
    return check_options("fused_neighborhood_attention_forward", a->kernel_size, a->dilation);
}

tg_status tg_check_fused_neighborhood_attention_backward(
    const tg_fused_neighborhood_attention_backward_args *a)
{
    return check_options("fused_neighborhood_attention_backward", a->kernel_size, a->dilation);
}
