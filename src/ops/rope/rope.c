/* rope: what its shapes do not say of the arguments. */
#include <inttypes.h>

#include "rotary/rotary.h"

typedef struct problem {
    rotary_args tensors;
    const tg_tensor *cos, *sin;
    int64_t rotary_dim, position_offset;
} problem;

/* cos and sin have enough positions and columns, and one type. */
static tg_status check_tables(const problem *p, int64_t half)
{
    const tg_tensor *cos = p->cos, *q = p->tensors.q;
    const char *op = p->tensors.op;
    const int n = cos->ndim;
    TG_TRY(tg_expect_same_type(op, "sin", p->sin, "cos", cos));
    char found[128];
    if (cos->shape[n - 2] - q->shape[1] < p->position_offset)
        return tg_fail(TG_EINVAL,
                       "%s: cos is %s, expected at least %" PRId64 " + %" PRId64
                       " positions (position_offset and the length of %s)",
                       op, tg_describe(cos, found, sizeof found), p->position_offset, q->shape[1],
                       p->tensors.q_name);
    if (cos->shape[n - 1] < half)
        return tg_fail(TG_EINVAL,
                       "%s: cos is %s, expected at least %" PRId64
                       " columns, half of the rotary width",
                       op, tg_describe(cos, found, sizeof found), half);
    return TG_OK;
}

static tg_status check(const problem *p)
{
    const char *op = p->tensors.op;
    TG_TRY(rotary_check(&p->tensors));
    const int64_t width = p->tensors.q->shape[3];
    TG_TRY(tg_expect_i64(op, "rotary_dim", p->rotary_dim, 0, width));
    if (p->rotary_dim % 2)
        return tg_fail(TG_EINVAL, "%s: rotary_dim is %" PRId64 ", expected an even number", op,
                       p->rotary_dim);
    TG_TRY(tg_expect_i64(op, "position_offset", p->position_offset, 0, INT64_MAX));
    return check_tables(p, (p->rotary_dim ? p->rotary_dim : width) / 2);
}

tg_status tg_check_rope_forward(const tg_rope_forward_args *args)
{
    return check(&(problem){ROTARY_FORWARD("rope_forward", args), args->cos, args->sin,
                            args->rotary_dim, args->position_offset});
}

tg_status tg_check_rope_backward(const tg_rope_backward_args *args)
{
    return check(&(problem){ROTARY_BACKWARD("rope_backward", args), args->cos, args->sin,
                            args->rotary_dim, args->position_offset});
}
