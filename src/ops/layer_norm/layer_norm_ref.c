/* layer_norm, plainly: the definition in double precision. */
#include <math.h>

#include "core/services.h"

/* Element j of a vector that may be missing. */
static double get_or(const tg_rows *vector, int64_t j, double missing)
{
    return vector->data ? tg_row_get(vector, 0, j) : missing;
}

static void set_statistic(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

static tg_status forward(tg_ctx *ctx, const tg_layer_norm_forward_args *a)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(a->x), weight = tg_rows_of(a->weight), bias = tg_rows_of(a->bias),
                  y = tg_rows_of(a->y);
    for (int64_t i = 0; i < x.rows; i++) {
        double sum = 0, squares = 0;
        for (int64_t j = 0; j < x.n; j++)
            sum += tg_row_get(&x, i, j);
        const double mean = sum / (double)x.n;
        for (int64_t j = 0; j < x.n; j++)
            squares += (tg_row_get(&x, i, j) - mean) * (tg_row_get(&x, i, j) - mean);
        const double rstd = 1 / sqrt(squares / (double)x.n + a->eps);
        for (int64_t j = 0; j < x.n; j++)
            tg_row_set(&y, i, j,
                       (tg_row_get(&x, i, j) - mean) * rstd * get_or(&weight, j, 1) +
                           get_or(&bias, j, 0));
        set_statistic(a->mean, i, mean);
        set_statistic(a->rstd, i, rstd);
    }
    return TG_OK;
}

typedef struct gradients {
    tg_rows dy, x, weight, mean, rstd, dx, dweight, dbias;
    int accumulate;
} gradients;

/* (x - mean) rstd */
static double normal(const gradients *g, int64_t i, int64_t j)
{
    return (tg_row_get(&g->x, i, j) - tg_get(g->mean.data, g->mean.type, i)) *
           tg_get(g->rstd.data, g->rstd.type, i);
}

/* dbias[j] = sum over rows of dy; dweight[j] = sum over rows of dy (x - mean) rstd */
static void column_gradient(const gradients *g, const tg_rows *out, int of_weight)
{
    for (int64_t j = 0; j < out->n; j++) {
        double sum = g->accumulate ? tg_row_get(out, 0, j) : 0;
        for (int64_t i = 0; i < g->x.rows; i++)
            sum += tg_row_get(&g->dy, i, j) * (of_weight ? normal(g, i, j) : 1);
        tg_row_set(out, 0, j, sum);
    }
}

/* dx = rstd (m - normal mean(m normal) - mean(m)), m = dy weight */
static void row_gradient(const gradients *g, int64_t i)
{
    const double n = (double)g->x.n;
    double sum = 0, product = 0;
    for (int64_t j = 0; j < g->x.n; j++) {
        const double m = tg_row_get(&g->dy, i, j) * get_or(&g->weight, j, 1);
        sum += m;
        product += m * normal(g, i, j);
    }
    for (int64_t j = 0; j < g->x.n; j++) {
        const double m = tg_row_get(&g->dy, i, j) * get_or(&g->weight, j, 1);
        const double rest = m - normal(g, i, j) * product / n - sum / n;
        tg_row_set(&g->dx, i, j, rest * tg_get(g->rstd.data, g->rstd.type, i));
    }
}

static tg_status backward(tg_ctx *ctx, const tg_layer_norm_backward_args *a)
{
    (void)ctx;
    const gradients g = {tg_rows_of(a->dy),      tg_rows_of(a->x),     tg_rows_of(a->weight),
                         tg_rows_of(a->mean),    tg_rows_of(a->rstd),  tg_rows_of(a->dx),
                         tg_rows_of(a->dweight), tg_rows_of(a->dbias), (int)a->accumulate};
    column_gradient(&g, &g.dweight, 1); /* first: dx may overwrite dy */
    column_gradient(&g, &g.dbias, 0);
    for (int64_t i = 0; i < g.x.rows; i++)
        row_gradient(&g, i);
    return TG_OK;
}

TG_REF_IMPLS(layer_norm) = {TG_REF_IMPL(layer_norm_forward, forward),
                            TG_REF_IMPL(layer_norm_backward, backward), TG_IMPLS_END};
