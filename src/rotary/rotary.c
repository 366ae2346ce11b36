/* Checks of the tensors that all rotary embeddings have. */
#include "rotary/rotary.h"

/* k is like q but for the number of heads. */
static tg_status check_k(const rotary_args *p)
{
    const tg_tensor *q = p->q, *k = p->k;
    if (!k != !p->yk)
        return tg_fail(TG_EINVAL, "%s: %s is NULL, expected a tensor, since %s is given", p->op,
                       k ? p->yk_name : p->k_name, k ? p->k_name : p->yk_name);
    if (!k)
        return TG_OK;
    TG_TRY(tg_expect_ndim(p->op, p->k_name, k, 4));
    if (k->shape[0] != q->shape[0] || k->shape[1] != q->shape[1] || k->shape[3] != q->shape[3]) {
        char found[128], expected[128];
        return tg_fail(TG_EINVAL, "%s: %s is %s, expected the shape of %s, %s, but for the heads",
                       p->op, p->k_name, tg_describe(k, found, sizeof found), p->q_name,
                       tg_describe(q, expected, sizeof expected));
    }
    return tg_expect_same_shape(p->op, p->yk_name, p->yk, p->k_name, k);
}

tg_status rotary_check(const rotary_args *p)
{
    TG_TRY(tg_expect_ndim(p->op, p->q_name, p->q, 4));
    TG_TRY(tg_expect_same_shape(p->op, p->yq_name, p->yq, p->q_name, p->q));
    return check_k(p);
}
