/* rope: what the arguments must be. */
#include <inttypes.h>

#include "core/services.h"

/* The arguments of either direction, with their names: forward turns q, k into yq, yk; backward
 * dyq, dyk into dq, dk. */
typedef struct problem {
    const char *op, *q_name, *k_name, *yq_name, *yk_name;
    const tg_tensor *q, *k, *yq, *yk, *cos, *sin;
    int64_t rotary_dim, position_offset;
} problem;

/* k is like q but for the number of heads. */
static tg_status check_k(const problem *p)
{
    const tg_tensor *q = p->q, *k = p->k;
    if (!k != !p->yk)
        return tg_fail(TG_EINVAL, "%s: %s is NULL, expected a tensor, since %s is given", p->op,
                       k ? p->yk_name : p->k_name, k ? p->k_name : p->yk_name);
    if (!k)
        return TG_OK;
    TG_TRY(tg_expect_type(p->op, p->k_name, k, tg_type_of(q)));
    TG_TRY(tg_expect_ndim(p->op, p->k_name, k, 4));
    if (k->shape[0] != q->shape[0] || k->shape[1] != q->shape[1] || k->shape[3] != q->shape[3]) {
        char found[128], expected[128];
        return tg_fail(TG_EINVAL, "%s: %s is %s, expected the shape of %s, %s, but for the heads",
                       p->op, p->k_name, tg_describe(k, found, sizeof found), p->q_name,
                       tg_describe(q, expected, sizeof expected));
    }
    return tg_expect_like(p->op, p->yk_name, p->yk, p->k_name, k);
}

/* cos and sin: [P, C] or [B, P, C] with enough positions and columns, of one shape and type. */
static tg_status check_tables(const problem *p, int64_t half)
{
    const tg_tensor *cos = p->cos, *q = p->q;
    const int type = tg_type_of(q), n = cos->ndim;
    TG_TRY(tg_expect_type_or_f32(p->op, "cos", cos, type));
    TG_TRY(tg_expect_like(p->op, "sin", p->sin, "cos", cos));
    char found[128];
    if ((n != 2 && n != 3) || (n == 3 && cos->shape[0] != q->shape[0]))
        return tg_fail(TG_EINVAL, "%s: cos is %s, expected [P,C] or [%" PRId64 ",P,C]", p->op,
                       tg_describe(cos, found, sizeof found), q->shape[0]);
    if (cos->shape[n - 2] - q->shape[1] < p->position_offset)
        return tg_fail(TG_EINVAL,
                       "%s: cos is %s, expected at least %" PRId64 " + %" PRId64
                       " positions (position_offset and the length of %s)",
                       p->op, tg_describe(cos, found, sizeof found), p->position_offset,
                       q->shape[1], p->q_name);
    if (cos->shape[n - 1] < half)
        return tg_fail(TG_EINVAL,
                       "%s: cos is %s, expected at least %" PRId64
                       " columns, half of the rotary width",
                       p->op, tg_describe(cos, found, sizeof found), half);
    return TG_OK;
}

static tg_status check(const problem *p)
{
    TG_TRY(tg_expect_float(p->op, p->q_name, p->q));
    TG_TRY(tg_expect_ndim(p->op, p->q_name, p->q, 4));
    TG_TRY(tg_expect_like(p->op, p->yq_name, p->yq, p->q_name, p->q));
    TG_TRY(check_k(p));
    const int64_t width = p->q->shape[3];
    TG_TRY(tg_expect_i64(p->op, "rotary_dim", p->rotary_dim, 0, width));
    if (p->rotary_dim % 2)
        return tg_fail(TG_EINVAL, "%s: rotary_dim is %" PRId64 ", expected an even number", p->op,
                       p->rotary_dim);
    TG_TRY(tg_expect_i64(p->op, "position_offset", p->position_offset, 0, INT64_MAX));
    return check_tables(p, (p->rotary_dim ? p->rotary_dim : width) / 2);
}

tg_status tg_check_rope_forward(const tg_rope_forward_args *args)
{
    return check(&(problem){"rope_forward", "q", "k", "yq", "yk", args->q, args->k, args->yq,
                            args->yk, args->cos, args->sin, args->rotary_dim,
                            args->position_offset});
}

tg_status tg_check_rope_backward(const tg_rope_backward_args *args)
{
    return check(&(problem){"rope_backward", "dyq", "dyk", "dq", "dk", args->dyq, args->dyk,
                            args->dq, args->dk, args->cos, args->sin, args->rotary_dim,
                            args->position_offset});
}
