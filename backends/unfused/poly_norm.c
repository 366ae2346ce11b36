/* poly_norm as an eager framework runs it: one pass and one temporary a step, f32 inside, since
 * sixth powers in 16 bits would overflow. */
#include "eager.h"

static mat fresh(eager *e, mat a)
{
    return eager_new(e, TG_F32, a.rows, a.cols);
}

static mat product(eager *e, mat a, mat b)
{
    const mat c = fresh(e, a);
    eager_binary(e, EAGER_MUL, c, a, b);
    return c;
}

/* Element k of a vector, which broadcasts. */
static mat element(const tg_tensor *t, int k)
{
    const int type = tg_type_of(t);
    return eager_view(element_at(tg_data(t), type, k), type, 1, 1, 1);
}

/* Column k of rstd. */
static mat rstd_of(const tg_tensor *t, int k)
{
    return eager_view((float *)tg_data(t) + k, TG_F32, tg_numel(t) / 3, 1, 3);
}

/* x^3, x^2, x */
static void powers_of(eager *e, mat x, mat power[3])
{
    power[2] = eager_copy(e, TG_F32, x);
    power[1] = product(e, power[2], power[2]);
    power[0] = product(e, power[1], power[2]);
}

/* a + b, both given back */
static mat sum_of(eager *e, mat a, mat b)
{
    const mat c = fresh(e, a);
    eager_binary(e, EAGER_ADD, c, a, b);
    eager_free(e, a);
    eager_free(e, b);
    return c;
}

static tg_status forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args)
{
    eager e = eager_begin(ctx);
    mat term[3];
    powers_of(&e, eager_rows(args->x), term);
    for (int k = 0; k < 3; k++) {
        const mat rstd = eager_row_rstd(&e, term[k], args->eps);
        if (args->rstd)
            eager_unary(&e, EAGER_COPY, rstd_of(args->rstd, k), rstd);
        const mat normal = product(&e, term[k], rstd);
        eager_free(&e, term[k]);
        term[k] = product(&e, normal, element(args->weight, k));
        eager_free(&e, normal);
    }
    const mat sum = sum_of(&e, sum_of(&e, term[0], term[1]), term[2]);
    eager_binary(&e, EAGER_ADD, eager_rows(args->y), sum, element(args->bias, 0));
    return eager_end(&e);
}

/* ---- backward ---- */

static mat row_sums(eager *e, mat a)
{
    const mat sums = eager_new(e, TG_F32, a.rows, 1);
    eager_reduce_rows(e, EAGER_SUM, sums, a);
    return sums;
}

/* The gradient of u = x^p: w r (dy - n mean(dy n)), n = u r; and dweight[k] on the way. */
static mat power_gradient(eager *e, const tg_poly_norm_backward_args *args, mat dy, mat u, int k)
{
    const mat r = rstd_of(args->rstd, k), normal = product(e, u, r);
    const mat terms = product(e, dy, normal), mean = row_sums(e, terms);
    eager_free(e, terms);
    if (args->dweight)
        eager_gradient(e, element(args->dweight, k), mean, args->accumulate);
    eager_scalar(e, EAGER_DIV, mean, mean, (double)u.cols);
    const mat along = product(e, normal, mean), rest = fresh(e, u);
    eager_free(e, normal);
    eager_binary(e, EAGER_SUB, rest, dy, along);
    eager_free(e, along);
    const mat scaled = product(e, rest, r);
    eager_free(e, rest);
    const mat du = product(e, scaled, element(args->weight, k));
    eager_free(e, scaled);
    return du;
}

/* du p x^(p-1); du is given back */
static mat chained(eager *e, mat du, mat power, int p)
{
    const mat plain = product(e, du, power), out = fresh(e, du);
    eager_free(e, du);
    eager_scalar(e, EAGER_MUL, out, plain, p);
    eager_free(e, plain);
    return out;
}

static tg_status backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dy = eager_copy(&e, TG_F32, eager_rows(args->dy));
    mat power[3], term[3];
    powers_of(&e, eager_rows(args->x), power);
    if (args->dbias)
        eager_gradient(&e, element(args->dbias, 0), row_sums(&e, dy), args->accumulate);
    for (int k = 0; k < 3; k++) {
        const mat du = power_gradient(&e, args, dy, power[k], k);
        term[k] = k == 2 ? du : chained(&e, du, power[k + 1], 3 - k);
    }
    const mat sum = sum_of(&e, term[0], term[1]);
    eager_binary(&e, EAGER_ADD, eager_rows(args->dx), sum, term[2]);
    return eager_end(&e);
}

UNFUSED_IMPLS(poly_norm) = {
    UNFUSED_IMPL(poly_norm_forward, forward),
    UNFUSED_IMPL(poly_norm_backward, backward),
    TG_IMPLS_END,
};
