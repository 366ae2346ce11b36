/* adamw: what the arguments must be. */
#include "core/services.h"

tg_status tg_check_adamw(const tg_adamw_args *a)
{
    static const char op[] = "adamw";
    const struct {
        const char *name;
        const tg_tensor *t;
    } others[] = {{"master", a->master}, {"grad", a->grad}, {"m", a->m}, {"v", a->v}};
    for (int i = 0; i < 4; i++)
        TG_TRY(tg_expect_same_shape(op, others[i].name, others[i].t, "param", a->param));
    TG_TRY(tg_expect_numel(op, "grad_squares", a->grad_squares, 1, "one, the sum of all"));
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
