/* layer_norm: what its shapes do not say of a valid problem. */
#include "core/services.h"

tg_status tg_check_layer_norm_forward(const tg_layer_norm_forward_args *args)
{
    return tg_expect_f64("layer_norm_forward", "eps", args->eps, 0, FLT_MAX);
}

tg_status tg_check_layer_norm_backward(const tg_layer_norm_backward_args *args)
{
    return tg_expect_with("layer_norm_backward", "dweight", args->dweight, "weight", args->weight);
}
