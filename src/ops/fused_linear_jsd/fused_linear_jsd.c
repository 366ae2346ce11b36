/* fused_linear_jsd: what its shapes do not say of a valid problem. */
#include "core/services.h"

static tg_status check(const char *op, double beta, double temperature, int64_t chunk_bytes)
{
    TG_TRY(tg_expect_f64(op, "beta", beta, 0, 1));
    TG_TRY(tg_expect_f64(op, "temperature", temperature, 0x1p-60, 0x1p60));
    return tg_expect_i64(op, "chunk_bytes", chunk_bytes, 0, INT64_MAX);
}

tg_status tg_check_fused_linear_jsd_forward(const tg_fused_linear_jsd_forward_args *a)
{
    return check("fused_linear_jsd_forward", a->beta, a->temperature, a->chunk_bytes);
}

tg_status tg_check_fused_linear_jsd_backward(const tg_fused_linear_jsd_backward_args *a)
{
    return check("fused_linear_jsd_backward", a->beta, a->temperature, a->chunk_bytes);
}
