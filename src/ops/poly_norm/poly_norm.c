/* poly_norm: what its shapes do not say of the arguments. */
#include "core/services.h"

tg_status tg_check_poly_norm_forward(const tg_poly_norm_forward_args *args)
{
    return tg_expect_f64("poly_norm_forward", "eps", args->eps, 0, FLT_MAX);
}
