/* mhc_coeffs, plainly: the definition in double precision. */
#include <math.h>

#include "rows/streams.h"

/* A compact tensor as rows of n elements each. */
static tg_rows in_rows(const tg_tensor *t, int64_t rows, int64_t n)
{
    return (tg_rows){tg_data(t), t ? tg_type_of(t) : 0, rows, n, n};
}

static double logistic(double a)
{
    return 1 / (1 + exp(-a));
}

/* What both directions have. Columns of a token: `streams` of pre, as many of post, then res. */
typedef struct coeffs {
    streams x;
    tg_rows phi, bias, mix, rstd;
    const tg_tensor *alpha[3]; /* pre, post, res */
    int64_t columns, iterations;
    double eps;
    double *matrices; /* [2 iterations, streams, streams]: after each step */
} coeffs;

/* Which of pre, post, res a column belongs to. */
static int part_of(const coeffs *c, int64_t column)
{
    return column < c->x.streams ? 0 : column < 2 * c->x.streams ? 1 : 2;
}

static double alpha_of(const coeffs *c, int64_t column)
{
    const tg_tensor *alpha = c->alpha[part_of(c, column)];
    return tg_get(tg_data(alpha), tg_type_of(alpha), 0);
}

static double x_at(const coeffs *c, int64_t t, int64_t k)
{
    const int64_t n = c->x.rows.n;
    return tg_row_get(&c->x.rows, t * c->x.streams + k / n, k % n);
}

/* ---- the matrix of a token ---- */

/* The sum of a matrix' row, or column, in which element e lies. */
static double sum_around(const double *m, int64_t streams, int64_t e, int by_row)
{
    double sum = 0;
    for (int64_t k = 0; k < streams; k++)
        sum += by_row ? m[e / streams * streams + k] : m[k * streams + e % streams];
    return sum;
}

static void softmax(const double *logits, double *p, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = exp(logits[i] - max);
    for (int64_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* logits [streams, streams]; matrix 0 is softmax + eps, matrix k what step k has made of the one
 * before: odd steps divide columns, even ones rows. Returns the last one. */
static const double *iterate(const coeffs *c, const double *logits)
{
    const int64_t streams = c->x.streams, size = streams * streams;
    double *m = c->matrices;
    for (int64_t o = 0; o < streams; o++)
        softmax(logits + o * streams, m + o * streams, streams);
    for (int64_t e = 0; e < size; e++)
        m[e] += c->eps;
    for (int64_t k = 1; k < 2 * c->iterations; k++, m += size)
        for (int64_t e = 0; e < size; e++)
            m[size + e] = m[e] / (sum_around(m, streams, e, k % 2 == 0) + c->eps);
    return m;
}

/* The same backwards: d, the gradient of the last matrix, becomes that of the logits. */
static void iterate_back(const coeffs *c, double *d)
{
    const int64_t streams = c->x.streams, size = streams * streams;
    double product[MOST_STREAMS * MOST_STREAMS], p[MOST_STREAMS * MOST_STREAMS];
    for (int64_t k = 2 * c->iterations - 1; k > 0; k--) {
        const double *from = c->matrices + (k - 1) * size, *to = from + size;
        for (int64_t e = 0; e < size; e++)
            product[e] = d[e] * to[e];
        for (int64_t e = 0; e < size; e++)
            d[e] = (d[e] - sum_around(product, streams, e, k % 2 == 0)) /
                   (sum_around(from, streams, e, k % 2 == 0) + c->eps);
    }
    for (int64_t e = 0; e < size; e++)
        product[e] = d[e] * (p[e] = c->matrices[e] - c->eps);
    for (int64_t e = 0; e < size; e++)
        d[e] = p[e] * (d[e] - sum_around(product, streams, e, 1));
}

static void logits_of(const coeffs *c, const double *mix, double *logits)
{
    for (int64_t m = 0; m < c->columns; m++)
        logits[m] = alpha_of(c, m) * mix[m] + tg_row_get(&c->bias, 0, m);
}

/* Fills in what the two directions' arguments have by the same names. */
#define COEFFS_OF(a)                                                                               \
    {                                                                                              \
        .x = streams_of((a)->x), .phi = tg_rows_of((a)->phi), .bias = tg_rows_of((a)->bias),       \
        .alpha = {(a)->alpha_pre, (a)->alpha_post, (a)->alpha_res}, .iterations = (a)->iterations, \
        .eps = (a)->sinkhorn_eps                                                                   \
    }

static tg_status prepare(tg_ctx *ctx, coeffs *c, const tg_tensor *mix, const tg_tensor *rstd)
{
    const int64_t size = c->x.streams * c->x.streams;
    c->columns = 2 * c->x.streams + size;
    c->mix = in_rows(mix, c->x.tokens, c->columns);
    c->rstd = in_rows(rstd, c->x.tokens, 1);
    c->matrices = tg_workspace(ctx, (size_t)(2 * c->iterations * size) * sizeof *c->matrices);
    return c->matrices ? TG_OK : TG_ENOMEM;
}

/* ---- forward ---- */

/* mix [columns] of a token; returns rstd. */
static double mix_token(const coeffs *c, int64_t t, double rms_eps, double *mix)
{
    const int64_t width = c->x.streams * c->x.rows.n;
    double squares = 0;
    for (int64_t k = 0; k < width; k++)
        squares += x_at(c, t, k) * x_at(c, t, k);
    const double r = 1 / sqrt(squares / (double)width + rms_eps);
    for (int64_t m = 0; m < c->columns; m++) {
        double sum = 0;
        for (int64_t k = 0; k < width; k++)
            sum += x_at(c, t, k) * tg_row_get(&c->phi, k, m);
        mix[m] = sum * r;
    }
    return r;
}

static tg_status forward(tg_ctx *ctx, const tg_mhc_coeffs_forward_args *a)
{
    coeffs c = COEFFS_OF(a);
    TG_TRY(prepare(ctx, &c, a->mix, a->rstd));
    const tg_rows pre = tg_rows_of(a->h_pre), post = tg_rows_of(a->h_post);
    const int64_t streams = c.x.streams;
    const tg_rows res = in_rows(a->h_res, c.x.tokens, streams * streams);
    double mix[MOST_STREAMS * (MOST_STREAMS + 2)], logits[MOST_STREAMS * (MOST_STREAMS + 2)];
    for (int64_t t = 0; t < c.x.tokens; t++) {
        const double r = mix_token(&c, t, a->rms_eps, mix);
        logits_of(&c, mix, logits);
        for (int64_t s = 0; s < streams; s++) {
            tg_row_set(&pre, t, s, logistic(logits[s]) + a->pre_eps);
            tg_row_set(&post, t, s, a->post_multiplier * logistic(logits[streams + s]));
        }
        const double *matrix = iterate(&c, logits + 2 * streams);
        for (int64_t e = 0; e < streams * streams; e++)
            tg_row_set(&res, t, e, matrix[e]);
        for (int64_t m = 0; c.mix.data && m < c.columns; m++)
            tg_row_set(&c.mix, t, m, mix[m]);
        if (c.rstd.data)
            tg_row_set(&c.rstd, t, 0, r);
    }
    return TG_OK;
}

/* ---- backward ---- */

typedef struct gradients {
    coeffs c;
    tg_rows dpre, dpost, dres;
    double post_multiplier;
    double *dlogits; /* [tokens, columns] */
} gradients;

/* The gradient of alpha mix + bias of a token. */
static void logit_gradients(const gradients *g, int64_t t)
{
    const coeffs *c = &g->c;
    const int64_t streams = c->x.streams;
    double mix[MOST_STREAMS * (MOST_STREAMS + 2)], logits[MOST_STREAMS * (MOST_STREAMS + 2)];
    double *d = g->dlogits + t * c->columns;
    for (int64_t m = 0; m < c->columns; m++)
        mix[m] = tg_row_get(&c->mix, t, m);
    logits_of(c, mix, logits);
    for (int64_t s = 0; s < streams; s++) {
        const double pre = logits[s], post = logits[streams + s];
        d[s] = g->dpre.data ? tg_row_get(&g->dpre, t, s) * logistic(pre) * logistic(-pre) : 0;
        d[streams + s] = g->dpost.data ? tg_row_get(&g->dpost, t, s) * g->post_multiplier *
                                             logistic(post) * logistic(-post)
                                       : 0;
    }
    for (int64_t e = 0; e < streams * streams; e++)
        d[2 * streams + e] = g->dres.data ? tg_row_get(&g->dres, t, e) : 0;
    if (!g->dres.data)
        return;
    iterate(c, logits + 2 * streams);
    iterate_back(c, d + 2 * streams);
}

/* dx of a token */
static void token_gradient(const gradients *g, int64_t t, const tg_rows *dx)
{
    const coeffs *c = &g->c;
    const int64_t n = c->x.rows.n, width = c->x.streams * n;
    const double r = tg_row_get(&c->rstd, t, 0), *d = g->dlogits + t * c->columns;
    double q = 0;
    for (int64_t m = 0; m < c->columns; m++)
        q += alpha_of(c, m) * d[m] * tg_row_get(&c->mix, t, m);
    for (int64_t k = 0; k < width; k++) {
        double sum = 0;
        for (int64_t m = 0; m < c->columns; m++)
            sum += alpha_of(c, m) * d[m] * tg_row_get(&c->phi, k, m);
        tg_row_set(dx, t * c->x.streams + k / n, k % n,
                   r * sum - x_at(c, t, k) * q * r * r / (double)width);
    }
}

static void phi_gradient(const gradients *g, const tg_tensor *dphi, int64_t accumulate)
{
    const coeffs *c = &g->c;
    const tg_rows to = tg_rows_of(dphi);
    for (int64_t k = 0; k < to.rows; k++)
        for (int64_t m = 0; m < c->columns; m++) {
            double sum = 0;
            for (int64_t t = 0; t < c->x.tokens; t++)
                sum += x_at(c, t, k) * g->dlogits[t * c->columns + m] * tg_row_get(&c->rstd, t, 0);
            tg_row_set(&to, k, m, (accumulate ? tg_row_get(&to, k, m) : 0) + alpha_of(c, m) * sum);
        }
}

/* dbias, and the alphas' gradients */
static void small_gradients(const gradients *g, const tg_mhc_coeffs_backward_args *a)
{
    const coeffs *c = &g->c;
    const tg_tensor *const dalpha[] = {a->dalpha_pre, a->dalpha_post, a->dalpha_res};
    const tg_rows dbias = tg_rows_of(a->dbias);
    double sums[3] = {0};
    for (int64_t m = 0; m < c->columns; m++) {
        double sum = 0;
        for (int64_t t = 0; t < c->x.tokens; t++) {
            sum += g->dlogits[t * c->columns + m];
            sums[part_of(c, m)] += g->dlogits[t * c->columns + m] * tg_row_get(&c->mix, t, m);
        }
        if (dbias.data)
            tg_row_set(&dbias, 0, m, (a->accumulate ? tg_row_get(&dbias, 0, m) : 0) + sum);
    }
    for (int part = 0; part < 3; part++) {
        const tg_rows to = in_rows(dalpha[part], 1, 1);
        if (to.data)
            tg_row_set(&to, 0, 0, (a->accumulate ? tg_row_get(&to, 0, 0) : 0) + sums[part]);
    }
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_coeffs_backward_args *a)
{
    gradients g = {.c = COEFFS_OF(a), .post_multiplier = a->post_multiplier};
    TG_TRY(prepare(ctx, &g.c, a->mix, a->rstd));
    const int64_t streams = g.c.x.streams, tokens = g.c.x.tokens;
    const tg_rows dx = tg_rows_of(a->dx);
    g.dpre = in_rows(a->dh_pre, tokens, streams);
    g.dpost = in_rows(a->dh_post, tokens, streams);
    g.dres = in_rows(a->dh_res, tokens, streams * streams);
    g.dlogits = tg_workspace(ctx, (size_t)(tokens * g.c.columns) * sizeof *g.dlogits);
    if (!g.dlogits)
        return TG_ENOMEM;
    for (int64_t t = 0; t < tokens; t++) {
        logit_gradients(&g, t);
        token_gradient(&g, t, &dx);
    }
    phi_gradient(&g, a->dphi, a->accumulate);
    small_gradients(&g, a);
    return TG_OK;
}

TG_REF_IMPLS(mhc_coeffs) = {TG_REF_IMPL(mhc_coeffs_forward, forward),
                            TG_REF_IMPL(mhc_coeffs_backward, backward), TG_IMPLS_END};
