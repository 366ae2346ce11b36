/* fused_linear_logp: what its shapes do not say of a valid problem. */
#include "fused_linear_logp.h"

static tg_status check(const char *op, const fllogp *f)
{
    TG_TRY(tg_expect_f64(op, "logit_scale", f->logit_scale, 0x1p-60, 0x1p60));
    TG_TRY(tg_expect_i64(op, "chunk_bytes", f->chunk_bytes, 0, INT64_MAX));
    TG_TRY(tg_expect_with(op, "dbias", f->dbias, "bias", f->bias));
    return logp_expect(op, &f->c, f->weight->shape[0]);
}

tg_status tg_check_fused_linear_logp_forward(const tg_fused_linear_logp_forward_args *args)
{
    const fllogp f = fllogp_forward(args);
    return check("fused_linear_logp_forward", &f);
}

tg_status tg_check_fused_linear_logp_backward(const tg_fused_linear_logp_backward_args *args)
{
    const fllogp f = fllogp_backward(args);
    return check("fused_linear_logp_backward", &f);
}
