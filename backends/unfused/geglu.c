/* geglu as an eager framework runs it: one pass and one temporary a step, in the storage type. The
 * tanh form goes through the sigmoid and the exact one through erfc, which spares a step and the
 * cancellation of 1 + tanh and 1 + erf below zero. */
#include <math.h>

#include "gates.h"

/* *m becomes a fresh temporary: op of what it was (and b). */
static void unary(eager *e, eager_op op, mat *m)
{
    const mat old = *m;
    *m = eager_like(e, old);
    eager_unary(e, op, *m, old);
    eager_free(e, old);
}

static void scalar(eager *e, eager_op op, mat *m, double b)
{
    const mat old = *m;
    *m = eager_like(e, old);
    eager_scalar(e, op, *m, old, b);
    eager_free(e, old);
}

static void binary(eager *e, eager_op op, mat *m, mat b)
{
    const mat old = *m;
    *m = eager_like(e, old);
    eager_binary(e, op, *m, old, b);
    eager_free(e, old);
}

static mat product(eager *e, mat a, mat b)
{
    const mat c = eager_like(e, a);
    eager_binary(e, EAGER_MUL, c, a, b);
    return c;
}

static const double linear = 1.5957691216057308; /* 2 sqrt(2 / pi) */
static const double cubic = 0.07135481627159978; /* 0.044715 times that */

/* sigmoid(u), or the normal distribution function: what gelu multiplies `a` by */
static mat factor(eager *e, mat a, int exact)
{
    if (exact) {
        mat f = eager_like(e, a);
        eager_scalar(e, EAGER_MUL, f, a, -sqrt(0.5));
        unary(e, EAGER_ERFC, &f);
        scalar(e, EAGER_MUL, &f, 0.5);
        return f;
    }
    mat f = product(e, a, a);
    scalar(e, EAGER_MUL, &f, cubic);
    scalar(e, EAGER_ADD, &f, linear);
    binary(e, EAGER_MUL, &f, a);
    unary(e, EAGER_SIGMOID, &f);
    return f;
}

static tg_status forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    eager e = eager_begin(ctx);
    const gates x = gates_of(&e, args->gate, args->up);
    const mat gate = x.gate, up = x.up, y = eager_rows(args->y);
    const mat f = factor(&e, gate, (int)args->exact), gelu = product(&e, gate, f);
    eager_free(&e, f);
    eager_binary(&e, EAGER_MUL, y, gelu, up);
    return eager_end(&e);
}

/* The derivative of the factor: s (1 - s) u', or exp(-a^2 / 2) / sqrt(2 pi). */
static mat factor_slope(eager *e, mat a, mat f, int exact)
{
    mat slope = product(e, a, a);
    if (exact) {
        scalar(e, EAGER_MUL, &slope, -0.5);
        unary(e, EAGER_EXP, &slope);
        scalar(e, EAGER_MUL, &slope, 0.3989422804014327);
        return slope;
    }
    scalar(e, EAGER_MUL, &slope, -3 * cubic);
    scalar(e, EAGER_SUB, &slope, linear);
    mat rest = eager_like(e, a);
    eager_scalar(e, EAGER_SUB, rest, f, 1.0);
    binary(e, EAGER_MUL, &rest, f);
    binary(e, EAGER_MUL, &slope, rest);
    eager_free(e, rest);
    return slope;
}

static tg_status backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    eager e = eager_begin(ctx);
    const gates x = gates_of(&e, args->gate, args->up);
    const mat dy = eager_rows(args->dy), gate = x.gate, both = eager_rows(args->dgate);
    const mat halves = args->dup ? both : eager_like(&e, both);
    const mat dgate = eager_columns(halves, 0, gate.cols);
    const mat dup = args->dup ? eager_rows(args->dup) : eager_columns(halves, gate.cols, gate.cols);
    const mat f = factor(&e, gate, (int)args->exact), gelu = product(&e, gate, f);
    const mat dgelu = product(&e, dy, x.up); /* before dup, which may be up */
    eager_binary(&e, EAGER_MUL, dup, dy, gelu);
    eager_free(&e, gelu);
    mat slope = factor_slope(&e, gate, f, (int)args->exact);
    binary(&e, EAGER_MUL, &slope, gate);
    binary(&e, EAGER_ADD, &slope, f);
    eager_binary(&e, EAGER_MUL, dgate, dgelu, slope);
    if (!args->dup)
        eager_permute(&e, both, halves, 0);
    return eager_end(&e);
}

UNFUSED_IMPLS(geglu) = {
    UNFUSED_IMPL(geglu_forward, forward),
    UNFUSED_IMPL(geglu_backward, backward),
    TG_IMPLS_END,
};
