/* kl_div: what its shapes do not say of the arguments. */
#include "core/services.h"

tg_status tg_check_kl_div_forward(const tg_kl_div_forward_args *args)
{
    return tg_expect_f64("kl_div_forward", "eps", args->eps, 0, FLT_MAX);
}
