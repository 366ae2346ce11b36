/* mhc_coeffs: what its shapes do not say of a valid problem. */
#include "rows/streams.h"

static tg_status check_iterations(const char *op, int64_t iterations, double sinkhorn_eps)
{
    TG_TRY(tg_expect_i64(op, "iterations", iterations, 1, INT32_MAX));
    return tg_expect_f64(op, "sinkhorn_eps", sinkhorn_eps, 0, FLT_MAX);
}

tg_status tg_check_mhc_coeffs_forward(const tg_mhc_coeffs_forward_args *args)
{
    const char *op = "mhc_coeffs_forward";
    TG_TRY(streams_check(op, args->x));
    TG_TRY(tg_expect_f64(op, "rms_eps", args->rms_eps, 0, FLT_MAX));
    return check_iterations(op, args->iterations, args->sinkhorn_eps);
}

tg_status tg_check_mhc_coeffs_backward(const tg_mhc_coeffs_backward_args *args)
{
    const char *op = "mhc_coeffs_backward";
    TG_TRY(streams_check(op, args->x));
    return check_iterations(op, args->iterations, args->sinkhorn_eps);
}
