/* attn_res, plainly: the definition in double precision. */
#include <math.h>

#include "core/services.h"

/* The rows of v: token t of block l is row l * tokens + t. */
typedef struct depth {
    tg_rows v, query, weight;
    int64_t blocks, tokens;
} depth;

static depth depth_of(const tg_tensor *v, const tg_tensor *query, const tg_tensor *weight)
{
    depth d = {tg_rows_of(v), tg_rows_of(query), tg_rows_of(weight), v->shape[0], 0};
    d.tokens = d.v.rows / d.blocks;
    return d;
}

/* sum of query weight v, of a token in a block */
static double product(const depth *d, int64_t row)
{
    double sum = 0;
    for (int64_t j = 0; j < d->v.n; j++)
        sum +=
            tg_row_get(&d->query, 0, j) * tg_row_get(&d->weight, 0, j) * tg_row_get(&d->v, row, j);
    return sum;
}

/* ---- forward ---- */

static double rstd_of(const depth *d, int64_t row, double eps)
{
    double squares = 0;
    for (int64_t j = 0; j < d->v.n; j++)
        squares += tg_row_get(&d->v, row, j) * tg_row_get(&d->v, row, j);
    return 1 / sqrt(squares / (double)d->v.n + eps);
}

/* alpha [blocks]: scores, then their softmax. */
static void softmax(double *alpha, int64_t blocks)
{
    double max = -INFINITY, sum = 0;
    for (int64_t l = 0; l < blocks; l++)
        max = fmax(max, alpha[l]);
    for (int64_t l = 0; l < blocks; l++)
        sum += alpha[l] = exp(alpha[l] - max);
    for (int64_t l = 0; l < blocks; l++)
        alpha[l] /= sum;
}

static tg_status forward(tg_ctx *ctx, const tg_attn_res_forward_args *a)
{
    const depth d = depth_of(a->v, a->query, a->weight);
    const tg_rows y = tg_rows_of(a->y);
    double *alpha = tg_workspace(ctx, (size_t)d.blocks * sizeof *alpha);
    if (!alpha)
        return TG_ENOMEM;
    for (int64_t t = 0; t < d.tokens; t++) {
        for (int64_t l = 0; l < d.blocks; l++) {
            const int64_t row = l * d.tokens + t;
            const double r = rstd_of(&d, row, a->eps);
            alpha[l] = r * product(&d, row);
            if (a->rstd)
                tg_set(tg_data(a->rstd), tg_type_of(a->rstd), t * d.blocks + l, r);
        }
        softmax(alpha, d.blocks);
        for (int64_t l = 0; a->alpha && l < d.blocks; l++)
            tg_set(tg_data(a->alpha), tg_type_of(a->alpha), t * d.blocks + l, alpha[l]);
        for (int64_t j = 0; j < y.n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < d.blocks; l++)
                sum += alpha[l] * tg_row_get(&d.v, l * d.tokens + t, j);
            tg_row_set(&y, t, j, sum);
        }
    }
    return TG_OK;
}

/* ---- backward ---- */

typedef struct gradients {
    depth d;
    tg_rows dy, dv, alpha, rstd; /* of alpha and rstd: a row for each token */
    double *ds;                  /* [blocks] */
} gradients;

/* ds = alpha (da - sum alpha da), da = dy v, of a token */
static void score_gradients(const gradients *g, int64_t t)
{
    double mean = 0;
    for (int64_t l = 0; l < g->d.blocks; l++) {
        double da = 0;
        for (int64_t j = 0; j < g->dy.n; j++)
            da += tg_row_get(&g->dy, t, j) * tg_row_get(&g->d.v, l * g->d.tokens + t, j);
        g->ds[l] = da;
        mean += tg_row_get(&g->alpha, t, l) * da;
    }
    for (int64_t l = 0; l < g->d.blocks; l++)
        g->ds[l] = tg_row_get(&g->alpha, t, l) * (g->ds[l] - mean);
}

/* dv of a token, and its share of the sum of ds rstd v. */
static void token_gradient(const gradients *g, int64_t t, double *sum)
{
    const depth *d = &g->d;
    score_gradients(g, t);
    for (int64_t l = 0; l < d->blocks; l++) {
        const int64_t row = l * d->tokens + t;
        const double r = tg_row_get(&g->rstd, t, l),
                     back = r * r * r * product(d, row) / (double)d->v.n;
        for (int64_t j = 0; j < d->v.n; j++) {
            const double v = tg_row_get(&d->v, row, j);
            const double slope =
                r * tg_row_get(&d->query, 0, j) * tg_row_get(&d->weight, 0, j) - back * v;
            tg_row_set(&g->dv, row, j,
                       tg_row_get(&g->alpha, t, l) * tg_row_get(&g->dy, t, j) + g->ds[l] * slope);
            sum[j] += g->ds[l] * r * v;
        }
    }
}

/* out = factor sum, or out + that */
static void parameter_gradient(const tg_tensor *out, const tg_rows *factor, const double *sum,
                               int64_t accumulate)
{
    const tg_rows to = tg_rows_of(out);
    for (int64_t j = 0; j < to.n; j++)
        tg_row_set(&to, 0, j,
                   (accumulate ? tg_row_get(&to, 0, j) : 0) + tg_row_get(factor, 0, j) * sum[j]);
}

static tg_rows of_tokens(const tg_tensor *t, int64_t tokens, int64_t blocks)
{
    return (tg_rows){tg_data(t), tg_type_of(t), tokens, blocks, blocks};
}

static tg_status backward(tg_ctx *ctx, const tg_attn_res_backward_args *a)
{
    gradients g = {
        .d = depth_of(a->v, a->query, a->weight), .dy = tg_rows_of(a->dy), .dv = tg_rows_of(a->dv)};
    g.alpha = of_tokens(a->alpha, g.d.tokens, g.d.blocks);
    g.rstd = of_tokens(a->rstd, g.d.tokens, g.d.blocks);
    g.ds = tg_workspace(ctx, (size_t)g.d.blocks * sizeof *g.ds);
    double *sum = tg_workspace(ctx, (size_t)g.d.v.n * sizeof *sum);
    if (!g.ds || !sum)
        return TG_ENOMEM;
    for (int64_t j = 0; j < g.d.v.n; j++)
        sum[j] = 0;
    for (int64_t t = 0; t < g.d.tokens; t++)
        token_gradient(&g, t, sum);
    parameter_gradient(a->dquery, &g.d.weight, sum, a->accumulate);
    parameter_gradient(a->dweight, &g.d.query, sum, a->accumulate);
    return TG_OK;
}

TG_REF_IMPLS(attn_res) = {TG_REF_IMPL(attn_res_forward, forward),
                          TG_REF_IMPL(attn_res_backward, backward), TG_IMPLS_END};
