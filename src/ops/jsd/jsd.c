/* jsd: what its shapes do not say of the arguments. */
#include "core/services.h"

tg_status tg_check_jsd_forward(const tg_jsd_forward_args *args)
{
    return tg_expect_f64("jsd_forward", "beta", args->beta, 0, 1);
}

tg_status tg_check_jsd_backward(const tg_jsd_backward_args *args)
{
    return tg_expect_f64("jsd_backward", "beta", args->beta, 0, 1);
}
