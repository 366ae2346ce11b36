/* muon and its parts: what their shapes do not say of the arguments. */
#include "core/services.h"

static tg_status expect_clipping(const char *op, const tg_tensor *grad_squares, double max_norm)
{
    TG_TRY(tg_expect_f64(op, "max_norm", max_norm, 0, FLT_MAX));
    if (max_norm > 0 && !grad_squares)
        return tg_fail(TG_EINVAL,
                       "%s: max_norm is %g but grad_squares is NULL, expected the sum of all "
                       "squared gradients",
                       op, max_norm);
    return TG_OK;
}

static tg_status expect_iteration(const char *op, double eps, int64_t steps)
{
    enum { MOST = 100 };
    /* its square is added to the mean square of a matrix */
    TG_TRY(tg_expect_f64(op, "eps", eps, 0x1p-40, FLT_MAX));
    return tg_expect_i64(op, "steps", steps, 1, MOST);
}

tg_status tg_check_muon_momentum(const tg_muon_momentum_args *a)
{
    TG_TRY(expect_clipping("muon_momentum", a->grad_squares, a->max_norm));
    return tg_expect_f64("muon_momentum", "momentum", a->momentum, 0, 1);
}

tg_status tg_check_newton_schulz(const tg_newton_schulz_args *a)
{
    return expect_iteration("newton_schulz", a->eps, a->steps);
}

tg_status tg_check_muon(const tg_muon_args *a)
{
    TG_TRY(expect_clipping("muon", a->grad_squares, a->max_norm));
    TG_TRY(tg_expect_f64("muon", "momentum", a->momentum, 0, 1));
    return expect_iteration("muon", a->eps, a->steps);
}
