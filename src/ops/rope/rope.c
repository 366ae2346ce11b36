/* rope: what its shapes do not say of the arguments. */
#include <inttypes.h>

#include "rotary/rotary.h"
#include "tigon/options.h"

typedef struct problem {
    rotary_args tensors;
    const tg_tensor *cos, *sin;
    tg_rope_options options;
} problem;

/* cos and sin have enough positions and columns, and one type. */
static tg_status check_tables(const problem *p, int64_t half)
{
    const tg_tensor *cos = p->cos, *q = p->tensors.q;
    const char *op = p->tensors.op;
    const int n = cos->ndim;
    TG_TRY(tg_expect_same_type(op, "sin", p->sin, "cos", cos));
    char found[128];
    if (cos->shape[n - 2] - q->shape[1] < p->options.position_offset)
        return tg_fail(TG_EINVAL,
                       "%s: cos is %s, expected at least %" PRId64 " + %" PRId64
                       " positions (position_offset and the length of %s)",
                       op, tg_describe(cos, found, sizeof found), p->options.position_offset,
                       q->shape[1], p->tensors.q_name);
    if (cos->shape[n - 1] < half)
        return tg_fail(TG_EINVAL,
                       "%s: cos is %s, expected at least %" PRId64
                       " columns, half of the rotary width",
                       op, tg_describe(cos, found, sizeof found), half);
    return TG_OK;
}

static tg_status check_buffers(const rotary_args *a, int64_t pairing)
{
    if (pairing != TG_ADJACENT_TO_HALVES || tg_numel(a->q) == 0)
        return TG_OK;
    const int k = a->k && tg_data(a->k) && tg_data(a->yk) == tg_data(a->k);
    if (!k && (!tg_data(a->q) || tg_data(a->yq) != tg_data(a->q)))
        return TG_OK;
    return tg_fail(
        TG_EINVAL,
        "%s: %s is %s, expected another buffer: pairing adjacent_to_halves moves elements", a->op,
        k ? a->yk_name : a->yq_name, k ? a->k_name : a->q_name);
}

static tg_status check(const problem *p)
{
    const char *op = p->tensors.op;
    const tg_rope_options *o = &p->options;
    TG_TRY(rotary_check(&p->tensors));
    const int64_t width = p->tensors.q->shape[3];
    TG_TRY(tg_expect_i64(op, "rotary_start", o->rotary_start, 0, width));
    TG_TRY(tg_expect_i64(op, "rotary_dim", o->rotary_dim, 0, width - o->rotary_start));
    if (o->rotary_dim % 2)
        return tg_fail(TG_EINVAL, "%s: rotary_dim is %" PRId64 ", expected an even number", op,
                       o->rotary_dim);
    TG_TRY(tg_expect_i64(op, "position_offset", o->position_offset, 0, INT64_MAX));
    TG_TRY(check_buffers(&p->tensors, o->pairing));
    return check_tables(p, tg_rope_pairs(o, width));
}

tg_status tg_check_rope_forward(const tg_rope_forward_args *args)
{
    return check(&(problem){ROTARY_FORWARD("rope_forward", args), args->cos, args->sin,
                            tg_rope_forward_options(args)});
}

tg_status tg_check_rope_backward(const tg_rope_backward_args *args)
{
    return check(&(problem){ROTARY_BACKWARD("rope_backward", args), args->cos, args->sin,
                            tg_rope_backward_options(args)});
}
