/* rms_norm and fused_add_rms_norm: what their shapes do not say of a valid problem. */
#include "core/services.h"

tg_status tg_check_rms_norm_forward(const tg_rms_norm_forward_args *args)
{
    return tg_expect_f64("rms_norm_forward", "eps", args->eps, 0, FLT_MAX);
}

tg_status tg_check_rms_norm_backward(const tg_rms_norm_backward_args *args)
{
    return tg_expect_with("rms_norm_backward", "dweight", args->dweight, "weight", args->weight);
}

tg_status tg_check_fused_add_rms_norm_forward(const tg_fused_add_rms_norm_forward_args *args)
{
    return tg_expect_f64("fused_add_rms_norm_forward", "eps", args->eps, 0, FLT_MAX);
}
