/* adamw: what its shapes do not say of the arguments. */
#include "core/services.h"

tg_status tg_check_adamw(const tg_adamw_args *a)
{
    static const char op[] = "adamw";
    TG_TRY(tg_expect_f64(op, "max_norm", a->max_norm, 0, FLT_MAX));
    if (a->max_norm > 0 && !a->grad_squares)
        return tg_fail(TG_EINVAL,
                       "%s: max_norm is %g but grad_squares is NULL, expected the sum of all "
                       "squared gradients",
                       op, a->max_norm);
    TG_TRY(tg_expect_below(op, "beta1", a->beta1, 0, 1));
    TG_TRY(tg_expect_below(op, "beta2", a->beta2, 0, 1));
    TG_TRY(tg_expect_f64(op, "eps", a->eps, 0, FLT_MAX));
    return tg_expect_i64(op, "step", a->step, 1, INT64_MAX);
}
