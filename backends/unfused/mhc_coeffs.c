/* mhc_coeffs as an eager framework runs it: one pass and one temporary a step, in f32. */
#include "streams.h"

typedef struct coeffs {
    int64_t streams, tokens, columns, iterations;
    const tg_tensor *bias, *alpha[3]; /* of pre, post, res */
    double eps;
} coeffs;

#define COEFFS_OF(a)                                                                          \
    {                                                                                         \
        .streams = (a)->x->shape[(a)->x->ndim - 2], .columns = tg_numel((a)->bias),           \
        .iterations = (a)->iterations, .bias = (a)->bias,                                     \
        .alpha = {(a)->alpha_pre, (a)->alpha_post, (a)->alpha_res}, .eps = (a)->sinkhorn_eps, \
        .tokens = stream_of((a)->x, 0).rows                                                   \
    }

/* x in f32, a token a row. */
static mat wide_tokens(eager *e, const coeffs *c, const tg_tensor *x)
{
    const int64_t n = eager_rows(x).cols;
    const mat wide = eager_new(e, TG_F32, c->tokens, c->streams * n);
    for (int64_t s = 0; e->status == TG_OK && s < c->streams; s++)
        eager_unary(e, EAGER_COPY, eager_columns(wide, s * n, n), stream_of(x, s));
    return wide;
}

/* The columns of pre, post or res. */
static mat part_of(const coeffs *c, mat m, int part)
{
    return eager_columns(m, part * c->streams, part < 2 ? c->streams : c->streams * c->streams);
}

static mat alpha_of(const coeffs *c, int part)
{
    return eager_view(tg_data(c->alpha[part]), TG_F32, 1, 1, 1);
}

/* alpha mix + bias */
static mat logits_of(eager *e, const coeffs *c, mat mix)
{
    const mat logits = eager_like(e, mix);
    for (int part = 0; e->status == TG_OK && part < 3; part++)
        eager_binary(e, EAGER_MUL, part_of(c, logits, part), part_of(c, mix, part),
                     alpha_of(c, part));
    eager_binary(e, EAGER_ADD, logits, logits, eager_vector(c->bias));
    return logits;
}

/* ---- a token's matrices, [R S, S], all iterations one after the other ---- */

static mat matrix_at(const coeffs *c, mat all, int64_t k)
{
    const int64_t rows = c->tokens * c->streams;
    return eager_view((float *)all.data + k * rows * c->streams, TG_F32, rows, c->streams,
                      c->streams);
}

/* Row o of each token's matrix, [R, S]. */
static mat row_of(const coeffs *c, mat m, int64_t o)
{
    return eager_view((float *)m.data + o * c->streams, TG_F32, c->tokens, c->streams,
                      c->streams * c->streams);
}

/* Sums of each row, [R S, 1], or of each column, [R, S]. */
static mat sums_of(eager *e, const coeffs *c, mat m, int by_row)
{
    if (by_row) {
        const mat sum = eager_new(e, TG_F32, m.rows, 1);
        eager_reduce_rows(e, EAGER_SUM, sum, m);
        return sum;
    }
    const mat sum = eager_new(e, TG_F32, c->tokens, c->streams);
    eager_unary(e, EAGER_COPY, sum, row_of(c, m, 0));
    for (int64_t o = 1; o < c->streams; o++)
        eager_binary(e, EAGER_ADD, sum, sum, row_of(c, m, o));
    return sum;
}

/* to = a op sums, which are of rows or of columns. */
static void by_sums(eager *e, const coeffs *c, eager_op op, mat to, mat a, mat sums, int by_row)
{
    if (by_row)
        eager_binary(e, op, to, a, sums);
    for (int64_t o = 0; !by_row && o < c->streams; o++)
        eager_binary(e, op, row_of(c, to, o), row_of(c, a, o), sums);
}

/* Matrix 0: softmax + eps; matrix k: what step k makes of the one before it. */
static mat iterate(eager *e, const coeffs *c, mat logits)
{
    const mat all = eager_new(e, TG_F32, 2 * c->iterations * c->tokens * c->streams, c->streams);
    mat p = eager_new(e, TG_F32, c->tokens * c->streams, c->streams);
    if (e->status != TG_OK)
        return all;
    for (int64_t o = 0; o < c->streams; o++)
        eager_unary(e, EAGER_COPY, row_of(c, p, o),
                    eager_columns(part_of(c, logits, 2), o * c->streams, c->streams));
    const mat lse = eager_new(e, TG_F32, p.rows, 1);
    p = eager_softmax(e, p, lse);
    eager_scalar(e, EAGER_ADD, matrix_at(c, all, 0), p, c->eps);
    eager_free(e, p);
    eager_free(e, lse);
    for (int64_t k = 1; k < 2 * c->iterations; k++) {
        const mat from = matrix_at(c, all, k - 1), sums = sums_of(e, c, from, k % 2 == 0);
        eager_scalar(e, EAGER_ADD, sums, sums, c->eps);
        by_sums(e, c, EAGER_DIV, matrix_at(c, all, k), from, sums, k % 2 == 0);
        eager_free(e, sums);
    }
    return all;
}

/* d, the gradient of the last matrix, becomes that of the logits. */
static void iterate_back(eager *e, const coeffs *c, mat all, mat d)
{
    const mat product = eager_like(e, d);
    for (int64_t k = 2 * c->iterations - 1; k > 0; k--) {
        const mat from = matrix_at(c, all, k - 1), sums = sums_of(e, c, from, k % 2 == 0);
        eager_scalar(e, EAGER_ADD, sums, sums, c->eps);
        eager_binary(e, EAGER_MUL, product, d, matrix_at(c, all, k));
        const mat pulled = sums_of(e, c, product, k % 2 == 0);
        by_sums(e, c, EAGER_SUB, d, d, pulled, k % 2 == 0);
        by_sums(e, c, EAGER_DIV, d, d, sums, k % 2 == 0);
        eager_free(e, sums);
        eager_free(e, pulled);
    }
    const mat p = eager_like(e, d);
    eager_scalar(e, EAGER_SUB, p, matrix_at(c, all, 0), c->eps);
    eager_binary(e, EAGER_MUL, product, d, p);
    const mat sum = sums_of(e, c, product, 1);
    eager_binary(e, EAGER_SUB, d, d, sum);
    eager_binary(e, EAGER_MUL, d, d, p);
    eager_free(e, product);
    eager_free(e, p);
    eager_free(e, sum);
}

/* ---- forward ---- */

static mat compact_of(const tg_tensor *t, int64_t rows, int64_t n)
{
    return eager_view(tg_data(t), t ? tg_type_of(t) : TG_F32, rows, n, n);
}

static tg_status forward(tg_ctx *ctx, const tg_mhc_coeffs_forward_args *a)
{
    eager e = eager_begin(ctx);
    const coeffs c = COEFFS_OF(a);
    const mat x = wide_tokens(&e, &c, a->x), r = eager_row_rstd(&e, x, a->rms_eps);
    mat mix = eager_new(&e, TG_F32, c.tokens, c.columns);
    eager_multiply(&e, mix, x, 0, eager_wide(&e, eager_rows(a->phi)), 0, 0);
    mix = eager_then_by(&e, EAGER_MUL, mix, r);
    const mat logits = logits_of(&e, &c, mix), all = iterate(&e, &c, logits);
    if (e.status != TG_OK)
        return eager_end(&e);
    if (a->mix)
        eager_unary(&e, EAGER_COPY, compact_of(a->mix, c.tokens, c.columns), mix);
    if (a->rstd)
        eager_unary(&e, EAGER_COPY, compact_of(a->rstd, c.tokens, 1), r);
    const mat pre = compact_of(a->h_pre, c.tokens, c.streams),
              post = compact_of(a->h_post, c.tokens, c.streams);
    eager_unary(&e, EAGER_SIGMOID, pre, part_of(&c, logits, 0));
    eager_scalar(&e, EAGER_ADD, pre, pre, a->pre_eps);
    eager_unary(&e, EAGER_SIGMOID, post, part_of(&c, logits, 1));
    eager_scalar(&e, EAGER_MUL, post, post, a->post_multiplier);
    eager_unary(&e, EAGER_COPY, compact_of(a->h_res, c.tokens * c.streams, c.streams),
                matrix_at(&c, all, 2 * c.iterations - 1));
    return eager_end(&e);
}

/* ---- backward ---- */

/* to = dh s(logits) s(-logits) multiplier; zeros without dh */
static void sigmoid_gradient(eager *e, mat to, mat logits, const tg_tensor *dh, double multiplier)
{
    if (!dh) {
        eager_fill(e, to, 0);
        return;
    }
    const mat s = eager_new(e, TG_F32, to.rows, to.cols), rest = eager_like(e, s);
    eager_unary(e, EAGER_SIGMOID, s, logits);
    eager_unary(e, EAGER_NEG, rest, logits);
    eager_unary(e, EAGER_SIGMOID, rest, rest);
    eager_binary(e, EAGER_MUL, s, s, rest);
    eager_scalar(e, EAGER_MUL, s, s, multiplier);
    eager_binary(e, EAGER_MUL, to, s, compact_of(dh, to.rows, to.cols));
    eager_free(e, s);
    eager_free(e, rest);
}

static void matrix_gradient(eager *e, const coeffs *c, mat to, mat logits, const tg_tensor *dh)
{
    if (!dh) {
        eager_fill(e, to, 0);
        return;
    }
    const mat all = iterate(e, c, logits),
              d = eager_copy(e, TG_F32, compact_of(dh, c->tokens * c->streams, c->streams));
    if (e->status != TG_OK)
        return;
    iterate_back(e, c, all, d);
    for (int64_t o = 0; o < c->streams; o++)
        eager_unary(e, EAGER_COPY, eager_columns(to, o * c->streams, c->streams), row_of(c, d, o));
    eager_free(e, all);
    eager_free(e, d);
}

/* The gradient of alpha mix + bias, [R, columns]. */
static mat logit_gradients(eager *e, const coeffs *c, mat mix, const tg_mhc_coeffs_backward_args *a)
{
    const mat logits = logits_of(e, c, mix), d = eager_like(e, mix);
    if (e->status != TG_OK)
        return d;
    sigmoid_gradient(e, part_of(c, d, 0), part_of(c, logits, 0), a->dh_pre, 1);
    sigmoid_gradient(e, part_of(c, d, 1), part_of(c, logits, 1), a->dh_post, a->post_multiplier);
    matrix_gradient(e, c, part_of(c, d, 2), logits, a->dh_res);
    eager_free(e, logits);
    return d;
}

static void small_gradients(eager *e, const coeffs *c, mat mix, mat d,
                            const tg_mhc_coeffs_backward_args *a)
{
    const tg_tensor *const dalpha[] = {a->dalpha_pre, a->dalpha_post, a->dalpha_res};
    if (a->dbias)
        eager_gradient(e, eager_vector(a->dbias), d, a->accumulate);
    for (int part = 0; part < 3; part++) {
        const mat of = part_of(c, d, part), terms = eager_new(e, TG_F32, of.rows, of.cols),
                  sums = eager_new(e, TG_F32, of.rows, 1);
        eager_binary(e, EAGER_MUL, terms, of, part_of(c, mix, part));
        eager_reduce_rows(e, EAGER_SUM, sums, terms);
        if (dalpha[part])
            eager_gradient(e, eager_view(tg_data(dalpha[part]), TG_F32, 1, 1, 1), sums,
                           a->accumulate);
        eager_free(e, terms);
        eager_free(e, sums);
    }
}

/* dx = z phi^T - x q rstd^2 / width, z = d rstd, q = sum of d mix */
static void token_gradients(eager *e, const coeffs *c, mat x, mat z, mat q, mat r,
                            const tg_mhc_coeffs_backward_args *a)
{
    const int64_t n = eager_rows(a->dx).cols;
    mat dx = eager_like(e, x);
    eager_multiply(e, dx, z, 0, eager_wide(e, eager_rows(a->phi)), 1, 0);
    eager_binary(e, EAGER_MUL, q, q, r);
    eager_binary(e, EAGER_MUL, q, q, r);
    eager_scalar(e, EAGER_DIV, q, q, (double)x.cols);
    const mat back = eager_like(e, x);
    eager_binary(e, EAGER_MUL, back, x, q);
    dx = eager_then_by(e, EAGER_SUB, dx, back);
    for (int64_t s = 0; e->status == TG_OK && s < c->streams; s++)
        eager_unary(e, EAGER_COPY, stream_of(a->dx, s), eager_columns(dx, s * n, n));
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *a)
{
    eager e = eager_begin(ctx);
    const coeffs c = COEFFS_OF(a);
    const mat mix = compact_of(a->mix, c.tokens, c.columns), r = compact_of(a->rstd, c.tokens, 1);
    mat d = logit_gradients(&e, &c, mix, a);
    if (e.status != TG_OK)
        return eager_end(&e);
    small_gradients(&e, &c, mix, d, a);
    for (int part = 0; part < 3; part++)
        eager_binary(&e, EAGER_MUL, part_of(&c, d, part), part_of(&c, d, part), alpha_of(&c, part));
    const mat product = eager_like(&e, d), q = eager_new(&e, TG_F32, c.tokens, 1);
    eager_binary(&e, EAGER_MUL, product, d, mix);
    eager_reduce_rows(&e, EAGER_SUM, q, product);
    eager_free(&e, product);
    d = eager_then_by(&e, EAGER_MUL, d, r);
    const mat x = wide_tokens(&e, &c, a->x);
    if (a->dphi) {
        const mat to = eager_rows(a->dphi), dphi = eager_new(&e, TG_F32, to.rows, to.cols);
        eager_multiply(&e, dphi, x, 1, d, 0, 0);
        eager_put(&e, to, dphi, a->accumulate);
        eager_free(&e, dphi);
    }
    token_gradients(&e, &c, x, d, q, r, a);
    return eager_end(&e);
}

UNFUSED_IMPLS(mhc_coeffs) = {UNFUSED_IMPL(mhc_coeffs_forward, forward),
                             UNFUSED_IMPL(mhc_coeffs_backward, backward), TG_IMPLS_END};
