/* poly_norm, reference: the definition in double. */
#include <math.h>

#include "core/services.h"

static double at(const tg_rows *t, int64_t r, int64_t j)
{
    return tg_get(t->data, t->type, r * t->stride + j);
}

static void put(const tg_rows *t, int64_t r, int64_t j, double value)
{
    tg_set(t->data, t->type, r * t->stride + j, value);
}

static double power(double x, int exponent)
{
    double product = 1;
    while (exponent-- > 0)
        product *= x;
    return product;
}

/* weight[k] and rstd[r,k] belong to the power 3 - k. */
static const int powers[3] = {3, 2, 1};

static tg_status forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x), y = tg_rows_of(args->y);
    const tg_rows weight = tg_rows_of(args->weight), rstd = tg_rows_of(args->rstd);
    const double bias = tg_get(tg_data(args->bias), tg_type_of(args->bias), 0);
    const double eps = args->eps;
    for (int64_t r = 0; r < x.rows; r++) {
        double scale[3];
        for (int k = 0; k < 3; k++) {
            double squares = 0;
            for (int64_t j = 0; j < x.n; j++)
                squares += power(at(&x, r, j), 2 * powers[k]);
            const double rs = 1 / sqrt(squares / (double)x.n + eps);
            if (rstd.data)
                tg_set(rstd.data, rstd.type, 3 * r + k, rs);
            scale[k] = at(&weight, 0, k) * rs;
        }
        for (int64_t j = 0; j < x.n; j++) {
            double sum = bias;
            for (int k = 0; k < 3; k++)
                sum += scale[k] * power(at(&x, r, j), powers[k]);
            put(&y, r, j, sum);
        }
    }
    return TG_OK;
}

typedef struct gradients {
    tg_rows dy, x, weight, rstd, dx;
    double dweight[3], dbias;
} gradients;

/* dx = sum over p of p w r (dy x^(p-1) - x^(2p-1) r^2 S / N), S = sum of dy x^p */
static void row_gradient(gradients *g, int64_t r)
{
    double rstd[3], sums[3] = {0};
    for (int k = 0; k < 3; k++) {
        rstd[k] = tg_get(g->rstd.data, g->rstd.type, 3 * r + k);
        for (int64_t j = 0; j < g->x.n; j++)
            sums[k] += at(&g->dy, r, j) * power(at(&g->x, r, j), powers[k]);
        g->dweight[k] += rstd[k] * sums[k];
    }
    for (int64_t j = 0; j < g->x.n; j++) {
        const double x = at(&g->x, r, j), dy = at(&g->dy, r, j);
        double dx = 0;
        for (int k = 0; k < 3; k++) {
            const int p = powers[k];
            const double mean = rstd[k] * rstd[k] * sums[k] / (double)g->x.n;
            dx += p * at(&g->weight, 0, k) * rstd[k] *
                  (dy * power(x, p - 1) - power(x, 2 * p - 1) * mean);
        }
        g->dbias += dy;
        put(&g->dx, r, j, dx); /* last: dx may be dy */
    }
}

static tg_status backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args)
{
    (void)ctx;
    gradients g = {.dy = tg_rows_of(args->dy),
                   .x = tg_rows_of(args->x),
                   .weight = tg_rows_of(args->weight),
                   .rstd = tg_rows_of(args->rstd),
                   .dx = tg_rows_of(args->dx)};
    for (int64_t r = 0; r < g.x.rows; r++)
        row_gradient(&g, r);
    const tg_rows dweight = tg_rows_of(args->dweight), dbias = tg_rows_of(args->dbias);
    for (int k = 0; dweight.data && k < 3; k++)
        put(&dweight, 0, k, g.dweight[k] + (args->accumulate ? at(&dweight, 0, k) : 0));
    if (dbias.data)
        put(&dbias, 0, 0, g.dbias + (args->accumulate ? at(&dbias, 0, 0) : 0));
    return TG_OK;
}

TG_REF_IMPLS(poly_norm) = {
    TG_REF_IMPL(poly_norm_forward, forward),
    TG_REF_IMPL(poly_norm_backward, backward),
    TG_IMPLS_END,
};
