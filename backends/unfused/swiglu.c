/* swiglu as an eager framework runs it: one pass and one temporary a step, in the storage type. */
#include <math.h>

#include "gates.h"

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

/* ---- limits, alpha, an offset of up, and one tensor of both ---- */

/* The two as they are multiplied: within the limit, gate by its multiplier, up with its offset. */
static gates limited(eager *e, gates given, double limit, double multiplier, double up_offset)
{
    const mat gate = eager_like(e, given.gate), up = eager_like(e, given.up);
    eager_scalar(e, EAGER_MIN, gate, given.gate, limit);
    eager_scalar(e, EAGER_MIN, up, given.up, limit);
    return (gates){
        eager_then_scalar(e, EAGER_MUL, gate, multiplier),
        eager_then_scalar(e, EAGER_ADD, eager_then_scalar(e, EAGER_MAX, up, -limit), up_offset)};
}

/* a, which is freed, where x is not beyond the limit, else 0 */
static mat where_within(eager *e, mat a, mat x, double limit)
{
    const mat beyond = eager_like(e, x);
    eager_scalar(e, EAGER_GREATER, beyond, x, limit);
    const mat rest = eager_then_scalar(e, EAGER_ADD, eager_then(e, EAGER_NEG, beyond), 1);
    a = eager_then_by(e, EAGER_MUL, a, rest);
    eager_free(e, rest);
    return a;
}

static mat sigmoid_of(eager *e, mat u, double alpha)
{
    const mat t = eager_like(e, u);
    eager_scalar(e, EAGER_MUL, t, u, alpha);
    return eager_then(e, EAGER_SIGMOID, t);
}

static tg_status limited_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    eager e = eager_begin(ctx);
    const gates x = limited(&e, gates_of(&e, args->gate, args->up), args->limit,
                            args->gate_multiplier, args->up_offset);
    const mat silu = eager_then_by(&e, EAGER_MUL, sigmoid_of(&e, x.gate, args->alpha), x.gate);
    products(&e, eager_rows(args->y), silu, x.up, args->down_multiplier);
    return eager_end(&e);
}

/* The gradients of gate and up go to their tensors, or to the one of both. */
static void put_gates(eager *e, gates d, const tg_tensor *dgate, const tg_tensor *dup)
{
    const mat to = eager_rows(dgate);
    if (dup) {
        eager_unary(e, EAGER_COPY, to, d.gate);
        eager_unary(e, EAGER_COPY, eager_rows(dup), d.up);
        return;
    }
    const mat halves = eager_like(e, to);
    eager_unary(e, EAGER_COPY, eager_columns(halves, 0, d.gate.cols), d.gate);
    eager_unary(e, EAGER_COPY, eager_columns(halves, d.gate.cols, d.gate.cols), d.up);
    eager_permute(e, to, halves, 0);
}

static tg_status limited_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    eager e = eager_begin(ctx);
    const gates given = gates_of(&e, args->gate, args->up);
    const gates x = limited(&e, given, args->limit, args->gate_multiplier, args->up_offset);
    const mat g = scaled(&e, eager_rows(args->dy), args->down_multiplier);
    const mat s = sigmoid_of(&e, x.gate, args->alpha), t = eager_like(&e, s);
    const mat silu = eager_like(&e, s), size = eager_like(&e, s), dsilu = eager_like(&e, s);
    eager_binary(&e, EAGER_MUL, silu, x.gate, s);
    eager_binary(&e, EAGER_MUL, dsilu, g, x.up);
    eager_scalar(&e, EAGER_MUL, t, x.gate, args->alpha);
    mat du = eager_then_by(&e, EAGER_MUL, dsilu, derivative(&e, t, s));
    du = eager_then_scalar(&e, EAGER_MUL, du, args->gate_multiplier);
    mat dv = eager_like(&e, silu);
    eager_binary(&e, EAGER_MUL, dv, g, silu);
    eager_unary(&e, EAGER_ABS, size, given.up);
    du = where_within(&e, du, given.gate, args->limit);
    dv = where_within(&e, dv, size, args->limit);
    put_gates(&e, (gates){du, dv}, args->dgate, args->dup);
    if (args->y)
        products(&e, eager_rows(args->y), silu, x.up, args->down_multiplier);
    return eager_end(&e);
}

/* Of the arguments of either direction: two tensors, and no more than silu. */
#define IS_PLAIN(a) ((a)->up && (a)->limit == HUGE_VAL && (a)->alpha == 1 && (a)->up_offset == 0)

static tg_status any_forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    return IS_PLAIN(args) ? forward(ctx, args) : limited_forward(ctx, args);
}

static tg_status any_backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    return IS_PLAIN(args) ? backward(ctx, args) : limited_backward(ctx, args);
}

UNFUSED_IMPLS(swiglu) = {
    UNFUSED_IMPL(swiglu_forward, any_forward),
    UNFUSED_IMPL(swiglu_backward, any_backward),
    TG_IMPLS_END,
};
