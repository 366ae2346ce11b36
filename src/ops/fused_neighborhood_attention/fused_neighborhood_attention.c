/* fused_neighborhood_attention: what is a valid problem. */
#include <math.h>

#include "core/services.h"

/* One f32 for each query, [B,H,S]. */
static tg_status check_lse(const char *op, const tg_tensor *lse, const tg_tensor *q)
{
    if (!lse)
        return TG_OK;
    char text[96];
    if (lse->ndim != 3 || lse->shape[0] != q->shape[0] || lse->shape[1] != q->shape[1] ||
        lse->shape[2] != q->shape[2])
        return tg_fail(TG_EINVAL, "%s: lse is %s, expected [%lld,%lld,%lld], [B,H,S] of q", op,
                       tg_describe(lse, text, sizeof text), (long long)q->shape[0],
                       (long long)q->shape[1], (long long)q->shape[2]);
    return TG_OK;
}

static tg_status check_inputs(const char *op, const tg_tensor *q, const tg_tensor *k,
                              const tg_tensor *v)
{
    TG_TRY(tg_expect_ndim(op, "q", q, 4));
    TG_TRY(tg_expect_same_shape(op, "k", k, "q", q));
    return tg_expect_same_shape(op, "v", v, "q", q);
}

static tg_status check_options(const char *op, int64_t kernel_size, int64_t dilation)
{
    TG_TRY(tg_expect_i64(op, "kernel_size", kernel_size, 1, INT64_MAX));
    return tg_expect_i64(op, "dilation", dilation, 1, INT64_MAX);
}

tg_status
tg_check_fused_neighborhood_attention_forward(const tg_fused_neighborhood_attention_forward_args *a)
{
    static const char op[] = "fused_neighborhood_attention_forward";
    TG_TRY(check_inputs(op, a->q, a->k, a->v));
    TG_TRY(tg_expect_same_shape(op, "y", a->y, "q", a->q));
    TG_TRY(check_lse(op, a->lse, a->q));
    return check_options(op, a->kernel_size, a->dilation);
}

tg_status tg_check_fused_neighborhood_attention_backward(
    const tg_fused_neighborhood_attention_backward_args *a)
{
    static const char op[] = "fused_neighborhood_attention_backward";
    TG_TRY(check_inputs(op, a->q, a->k, a->v));
    TG_TRY(tg_expect_same_shape(op, "dy", a->dy, "q", a->q));
    TG_TRY(check_lse(op, a->lse, a->q));
    TG_TRY(tg_expect_same_shape(op, "dq", a->dq, "q", a->q));
    TG_TRY(tg_expect_same_shape(op, "dk", a->dk, "q", a->q));
    TG_TRY(tg_expect_same_shape(op, "dv", a->dv, "q", a->q));
    return check_options(op, a->kernel_size, a->dilation);
}
