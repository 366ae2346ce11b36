/* fused_ce_tvd: what its shapes do not say of the arguments. */
#include "core/services.h"

tg_status tg_check_fused_ce_tvd_forward(const tg_fused_ce_tvd_forward_args *args)
{
    return tg_expect_indices("fused_ce_tvd_forward", "target", args->target,
                             args->student->shape[args->student->ndim - 1], &args->ignore_index);
}

tg_status tg_check_fused_ce_tvd_backward(const tg_fused_ce_tvd_backward_args *args)
{
    return tg_expect_indices("fused_ce_tvd_backward", "target", args->target,
                             args->student->shape[args->student->ndim - 1], &args->ignore_index);
}
