/* dyt as an eager framework runs it: one pass and one temporary a step, in the storage type. */
#include "eager.h"

static mat product(eager *e, mat a, mat b)
{
    const mat c = eager_like(e, a);
    eager_binary(e, EAGER_MUL, c, a, b);
    return c;
}

/* The one element alpha, which broadcasts. */
static mat element(const tg_tensor *t)
{
    return eager_view(tg_data(t), tg_type_of(t), 1, 1, 1);
}

/* tanh(alpha x) or its slope. */
static mat tanh_of(eager *e, eager_op op, mat x, const tg_tensor *alpha)
{
    const mat u = product(e, x, element(alpha)), t = eager_like(e, x);
    eager_unary(e, op, t, u);
    eager_free(e, u);
    return t;
}

static tg_status forward(tg_ctx *ctx, const tg_dyt_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(args->x), y = eager_rows(args->y), gamma = eager_vector(args->gamma);
    const mat t = tanh_of(&e, EAGER_TANH, x, args->alpha);
    if (args->beta) {
        const mat scaled = product(&e, t, gamma);
        eager_free(&e, t);
        eager_binary(&e, EAGER_ADD, y, scaled, eager_vector(args->beta));
    } else {
        eager_binary(&e, EAGER_MUL, y, t, gamma);
    }
    return eager_end(&e);
}

static void alpha_gradient(eager *e, const tg_dyt_backward_args *args, mat x, mat h)
{
    const mat terms = product(e, x, h), sums = eager_new(e, TG_F32, x.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, sums, terms);
    eager_free(e, terms);
    eager_gradient(e, element(args->dalpha), sums, args->accumulate);
}

static tg_status backward(tg_ctx *ctx, const tg_dyt_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dy = eager_rows(args->dy), x = eager_rows(args->x);
    if (args->dbeta)
        eager_gradient(&e, eager_vector(args->dbeta), dy, args->accumulate);
    if (args->dgamma) {
        const mat t = tanh_of(&e, EAGER_TANH, x, args->alpha), terms = product(&e, dy, t);
        eager_gradient(&e, eager_vector(args->dgamma), terms, args->accumulate);
        eager_free(&e, terms);
        eager_free(&e, t);
    }
    const mat slope = tanh_of(&e, EAGER_TANH_SLOPE, x, args->alpha);
    const mat dt = product(&e, dy, eager_vector(args->gamma)), h = product(&e, dt, slope);
    eager_free(&e, dt);
    eager_free(&e, slope);
    if (args->dalpha)
        alpha_gradient(&e, args, x, h);
    eager_binary(&e, EAGER_MUL, eager_rows(args->dx), h, element(args->alpha));
    return eager_end(&e);
}

UNFUSED_IMPLS(dyt) = {
    UNFUSED_IMPL(dyt_forward, forward),
    UNFUSED_IMPL(dyt_backward, backward),
    TG_IMPLS_END,
};
