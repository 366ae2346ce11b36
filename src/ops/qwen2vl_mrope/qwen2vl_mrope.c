/* qwen2vl_mrope: what its shapes do not say of the arguments. */
#include <inttypes.h>

#include "rotary/rotary.h"

typedef struct problem {
    rotary_args tensors;
    const tg_tensor *cos, *sin;
    int64_t section[3];
} problem;

static tg_status check_sections(const problem *p, int64_t half)
{
    static const char *const names[] = {"section_t", "section_h", "section_w"};
    const char *op = p->tensors.op;
    const int64_t *n = p->section;
    for (int i = 0; i < 3; i++)
        TG_TRY(tg_expect_i64(op, names[i], n[i], 0, half));
    if (n[0] + n[1] + n[2] == half)
        return TG_OK;
    return tg_fail(TG_EINVAL,
                   "%s: section_t + section_h + section_w is %" PRId64 " + %" PRId64 " + %" PRId64
                   ", expected %" PRId64 " together, half the width of %s",
                   op, n[0], n[1], n[2], half, p->tensors.q_name);
}

/* cos and sin have enough columns, and one type. */
static tg_status check_tables(const problem *p, int64_t half)
{
    const char *op = p->tensors.op;
    TG_TRY(tg_expect_same_type(op, "sin", p->sin, "cos", p->cos));
    if (p->cos->shape[3] >= half)
        return TG_OK;
    return tg_fail(TG_EINVAL,
                   "%s: cos has %" PRId64 " columns, expected at least %" PRId64
                   ", half the width of %s",
                   op, p->cos->shape[3], half, p->tensors.q_name);
}

static tg_status check(const problem *p)
{
    TG_TRY(rotary_check(&p->tensors));
    const int64_t half = p->tensors.q->shape[3] / 2;
    TG_TRY(check_sections(p, half));
    return check_tables(p, half);
}

tg_status tg_check_qwen2vl_mrope_forward(const tg_qwen2vl_mrope_forward_args *args)
{
    return check(&(problem){ROTARY_FORWARD("qwen2vl_mrope_forward", args),
                            args->cos,
                            args->sin,
                            {args->section_t, args->section_h, args->section_w}});
}

tg_status tg_check_qwen2vl_mrope_backward(const tg_qwen2vl_mrope_backward_args *args)
{
    return check(&(problem){ROTARY_BACKWARD("qwen2vl_mrope_backward", args),
                            args->cos,
                            args->sin,
                            {args->section_t, args->section_h, args->section_w}});
}
