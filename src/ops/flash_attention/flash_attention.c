/* flash_attention: what is a valid problem. */
#include <math.h>

#include "core/services.h"

/* q is [B,S,Hq,D]; k and v are [B,L,Hk,D] of the same type, Hq a multiple of Hk. */
static tg_status check_inputs(const char *op, const tg_tensor *q, const tg_tensor *k,
                              const tg_tensor *v)
{
    TG_TRY(tg_expect_ndim(op, "q", q, 4));
    TG_TRY(tg_expect_ndim(op, "k", k, 4));
    char text[96], other[96];
    if (k->shape[0] != q->shape[0] || k->shape[3] != q->shape[3])
        return tg_fail(TG_EINVAL, "%s: k is %s, expected [%lld,L,Hk,%lld], since q is %s", op,
                       tg_describe(k, text, sizeof text), (long long)q->shape[0],
                       (long long)q->shape[3], tg_describe(q, other, sizeof other));
    const int64_t heads = q->shape[2], key_heads = k->shape[2];
    if (key_heads == 0 ? heads != 0 : heads % key_heads != 0)
        return tg_fail(TG_EINVAL, "%s: k has %lld heads, expected a divisor of the %lld heads of q",
                       op, (long long)key_heads, (long long)heads);
    return tg_expect_same_shape(op, "v", v, "k", k);
}

/* One f32 for each query of each head, [B,Hq,S]. */
static tg_status check_lse(const char *op, const tg_tensor *lse, const tg_tensor *q)
{
    if (!lse)
        return TG_OK;
    char text[96];
    if (lse->ndim != 3 || lse->shape[0] != q->shape[0] || lse->shape[1] != q->shape[2] ||
        lse->shape[2] != q->shape[1])
        return tg_fail(TG_EINVAL, "%s: lse is %s, expected [%lld,%lld,%lld], [B,Hq,S] of q", op,
                       tg_describe(lse, text, sizeof text), (long long)q->shape[0],
                       (long long)q->shape[2], (long long)q->shape[1]);
    return TG_OK;
}

tg_status tg_check_flash_attention_forward(const tg_flash_attention_forward_args *a)
{
    static const char op[] = "flash_attention_forward";
    TG_TRY(check_inputs(op, a->q, a->k, a->v));
    TG_TRY(tg_expect_same_shape(op, "y", a->y, "q", a->q));
    return check_lse(op, a->lse, a->q);
}

tg_status tg_check_flash_attention_backward(const tg_flash_attention_backward_args *a)
{
    static const char op[] = "flash_attention_backward";
    TG_TRY(check_inputs(op, a->q, a->k, a->v));
    TG_TRY(tg_expect_same_shape(op, "y", a->y, "q", a->q));
    TG_TRY(tg_expect_same_shape(op, "dy", a->dy, "q", a->q));
    TG_TRY(check_lse(op, a->lse, a->q));
    TG_TRY(tg_expect_same_shape(op, "dq", a->dq, "q", a->q));
    TG_TRY(tg_expect_same_shape(op, "dk", a->dk, "k", a->k));
    return tg_expect_same_shape(op, "dv", a->dv, "v", a->v);
}
