/* dyt as an eager framework runs it: one pass and one temporary a step, in the storage type. */
#include "eager/eager.h"

static mat like(eager *e, mat a)
{
    return eager_new(e, a.type, a.rows, a.cols);
}

static mat product(eager *e, mat a, mat b)
{
    const mat c = like(e, a);
    eager_binary(e, EAGER_MUL, c, a, b);
    return c;
}

/* The one element alpha, which broadcasts. */
static mat element(const tg_tensor *t)
{
    return eager_view(tg_data(t), tg_type_of(t), 1, 1, 1);
}

/* tanh(alpha x) */
static mat tanh_of(eager *e, mat x, const tg_tensor *alpha)
{
    const mat u = product(e, x, element(alpha)), t = like(e, x);
    eager_unary(e, EAGER_TANH, t, u);
    eager_free(e, u);
    return t;
}

static tg_status forward(tg_ctx *ctx, const tg_dyt_forward_args *args)
{
    eager e = eager_begin(ctx);
    const mat x = eager_rows(args->x), y = eager_rows(args->y), gamma = eager_vector(args->gamma);
    const mat t = tanh_of(&e, x, args->alpha);
    if (args->beta) {
        const mat scaled = product(&e, t, gamma);
        eager_free(&e, t);
        eager_binary(&e, EAGER_ADD, y, scaled, eager_vector(args->beta));
    } else {
        eager_binary(&e, EAGER_MUL, y, t, gamma);
    }
    return eager_end(&e);
}

/* A parameter's gradient: the sum over rows of a matrix. */
static void gradient(eager *e, mat to, mat from, int64_t accumulate)
{
    if (!accumulate) {
        eager_sum_columns(e, to, from);
        return;
    }
    const mat sum = eager_new(e, TG_F32, 1, to.cols);
    eager_sum_columns(e, sum, from);
    eager_binary(e, EAGER_ADD, to, to, sum);
}

/* minus_h: -h */
static void alpha_gradient(eager *e, const tg_dyt_backward_args *args, mat x, mat minus_h)
{
    const mat terms = product(e, x, minus_h), sums = eager_new(e, TG_F32, x.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, sums, terms);
    eager_free(e, terms);
    eager_unary(e, EAGER_NEG, sums, sums);
    gradient(e, element(args->dalpha), sums, args->accumulate);
}

/* t^2 - 1: minus the slope, which spares a step */
static mat minus_slope(eager *e, mat t)
{
    const mat square = product(e, t, t), slope = like(e, t);
    eager_scalar(e, EAGER_SUB, slope, square, 1);
    eager_free(e, square);
    return slope;
}

static tg_status backward(tg_ctx *ctx, const tg_dyt_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dy = eager_rows(args->dy), x = eager_rows(args->x);
    if (args->dbeta)
        gradient(&e, eager_vector(args->dbeta), dy, args->accumulate);
    const mat t = tanh_of(&e, x, args->alpha);
    if (args->dgamma) {
        const mat terms = product(&e, dy, t);
        gradient(&e, eager_vector(args->dgamma), terms, args->accumulate);
        eager_free(&e, terms);
    }
    const mat slope = minus_slope(&e, t);
    eager_free(&e, t);
    const mat dt = product(&e, dy, eager_vector(args->gamma)), minus_h = product(&e, dt, slope);
    eager_free(&e, dt);
    eager_free(&e, slope);
    if (args->dalpha)
        alpha_gradient(&e, args, x, minus_h);
    const mat minus_alpha = eager_new(&e, tg_type_of(args->alpha), 1, 1);
    eager_unary(&e, EAGER_NEG, minus_alpha, element(args->alpha));
    eager_binary(&e, EAGER_MUL, eager_rows(args->dx), minus_h, minus_alpha);
    return eager_end(&e);
}

TG_UNFUSED_IMPLS(dyt) = {
    TG_UNFUSED_IMPL(dyt_forward, forward),
    TG_UNFUSED_IMPL(dyt_backward, backward),
    TG_IMPLS_END,
};
