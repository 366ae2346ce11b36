/* fused_linear_kl_div: what its shapes do not say of a valid problem. */
#include "fused_linear_kl_div.h"

static tg_status check(const char *op, const flkl *f)
{
    TG_TRY(tg_expect_f64(op, "temperature", f->temperature, 0x1p-60, 0x1p60));
    TG_TRY(tg_expect_f64(op, "eps", f->eps, 0, FLT_MAX));
    TG_TRY(tg_expect_with(op, "dbias", f->dbias, "bias", f->bias));
    return tg_expect_i64(op, "chunk_bytes", f->chunk_bytes, 0, INT64_MAX);
}

tg_status tg_check_fused_linear_kl_div_forward(const tg_fused_linear_kl_div_forward_args *args)
{
    const flkl f = flkl_forward(args);
    return check("fused_linear_kl_div_forward", &f);
}

tg_status tg_check_fused_linear_kl_div_backward(const tg_fused_linear_kl_div_backward_args *args)
{
    const flkl f = flkl_backward(args);
    return check("fused_linear_kl_div_backward", &f);
}
