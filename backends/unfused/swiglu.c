/* swiglu as an eager framework runs it: one pass and one temporary a step, in the storage type. */
#include <math.h>

#include "eager.h"

/* a * by, or a itself where by is 1 */
static mat scaled(eager *e, mat a, double by)
{
    if (by == 1)
        return a;
    const mat product = eager_like(e, a);
    eager_scalar(e, EAGER_MUL, product, a, by);
    return product;
}

/* up * silu * down */
static void products(eager *e, mat y, mat silu, mat up, double down)
{
    const mat product = down == 1 ? y : eager_like(e, y);
    eager_binary(e, EAGER_MUL, product, silu, up);
    if (down != 1)
        eager_scalar(e, EAGER_MUL, y, product, down);
}

static tg_status forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat gate = eager_rows(args->gate), up = eager_rows(args->up), y = eager_rows(args->y);
    const mat u = scaled(&e, gate, args->gate_multiplier), s = eager_like(&e, gate);
    eager_unary(&e, EAGER_SIGMOID, s, u);
    const mat silu = eager_like(&e, gate);
    eager_binary(&e, EAGER_MUL, silu, u, s);
    eager_free(&e, s);
    products(&e, y, silu, up, args->down_multiplier);
    return eager_end(&e);
}

/* s * (1 + u * (1 - s)), the derivative of silu */
static mat derivative(eager *e, mat u, mat s)
{
    const mat minus = eager_like(e, s), rest = eager_like(e, s);
    eager_unary(e, EAGER_NEG, minus, s);
    eager_scalar(e, EAGER_ADD, rest, minus, 1.0);
    eager_free(e, minus);
    const mat slope = eager_like(e, s), sum = eager_like(e, s);
    eager_binary(e, EAGER_MUL, slope, u, rest);
    eager_free(e, rest);
    eager_scalar(e, EAGER_ADD, sum, slope, 1.0);
    eager_free(e, slope);
    const mat product = eager_like(e, s);
    eager_binary(e, EAGER_MUL, product, s, sum);
    eager_free(e, sum);
    return product;
}

static tg_status backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat gate = eager_rows(args->gate), up = eager_rows(args->up);
    const mat dgate = eager_rows(args->dgate), dup = eager_rows(args->dup);
    const mat g = scaled(&e, eager_rows(args->dy), args->down_multiplier);
    const mat u = scaled(&e, gate, args->gate_multiplier), s = eager_like(&e, gate);
    eager_unary(&e, EAGER_SIGMOID, s, u);
    const mat silu = eager_like(&e, gate), dsilu = eager_like(&e, gate);
    eager_binary(&e, EAGER_MUL, silu, u, s);
    eager_binary(&e, EAGER_MUL, dsilu, g, up); /* before dup, which may be up */
    const mat y = args->y ? eager_like(&e, gate) : (mat){0};
    if (args->y)
        products(&e, y, silu, up, args->down_multiplier);
    eager_binary(&e, EAGER_MUL, dup, g, silu);
    if (args->y)
        eager_unary(&e, EAGER_COPY, eager_rows(args->y), y); /* behind dy, which it may be */
    eager_free(&e, silu);
    const mat slope = derivative(&e, u, s);
    eager_free(&e, s);
    const double multiplier = args->gate_multiplier;
    const mat du = multiplier == 1 ? dgate : eager_like(&e, gate);
    eager_binary(&e, EAGER_MUL, du, dsilu, slope);
    if (multiplier != 1)
        eager_scalar(&e, EAGER_MUL, dgate, du, multiplier);
    return eager_end(&e);
}

/* Limits and interleaved tensors are left to others. */
static int accepts_forward(const tg_swiglu_forward_args *args)
{
    return args->up && args->limit == HUGE_VAL && args->alpha == 1 && args->up_offset == 0;
}

static int accepts_backward(const tg_swiglu_backward_args *args)
{
    return args->up && args->limit == HUGE_VAL && args->alpha == 1 && args->up_offset == 0;
}

UNFUSED_IMPLS(swiglu) = {
    UNFUSED_IMPL_IF(swiglu_forward, accepts_forward, forward),
    UNFUSED_IMPL_IF(swiglu_backward, accepts_backward, backward),
    TG_IMPLS_END,
};
