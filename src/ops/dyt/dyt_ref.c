/* dyt, reference: the definition in double. */
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

static tg_status forward(tg_ctx *ctx, const tg_dyt_forward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x), y = tg_rows_of(args->y);
    const tg_rows gamma = tg_rows_of(args->gamma), beta = tg_rows_of(args->beta);
    const double alpha = tg_get(tg_data(args->alpha), tg_type_of(args->alpha), 0);
    for (int64_t r = 0; r < x.rows; r++)
        for (int64_t j = 0; j < x.n; j++) {
            const double t = tanh(alpha * at(&x, r, j));
            put(&y, r, j, t * at(&gamma, 0, j) + (beta.data ? at(&beta, 0, j) : 0));
        }
    return TG_OK;
}

/* A parameter's gradient, if it is wanted. */
static void put_gradient(const tg_rows *t, int64_t j, double sum, int64_t accumulate)
{
    if (t->data)
        put(t, 0, j, sum + (accumulate ? at(t, 0, j) : 0));
}

static tg_status backward(tg_ctx *ctx, const tg_dyt_backward_args *args)
{
    (void)ctx;
    const tg_rows dy = tg_rows_of(args->dy), x = tg_rows_of(args->x), dx = tg_rows_of(args->dx);
    const tg_rows gamma = tg_rows_of(args->gamma);
    const tg_rows dalpha = tg_rows_of(args->dalpha), dgamma = tg_rows_of(args->dgamma),
                  dbeta = tg_rows_of(args->dbeta);
    const double alpha = tg_get(tg_data(args->alpha), tg_type_of(args->alpha), 0);
    double alpha_sum = 0;
    for (int64_t j = 0; j < x.n; j++) {
        double gamma_sum = 0, beta_sum = 0;
        for (int64_t r = 0; r < x.rows; r++) {
            const double g = at(&dy, r, j), a = at(&x, r, j), cosine = cosh(alpha * a);
            const double h = g * at(&gamma, 0, j) / (cosine * cosine); /* 1 - tanh^2 */
            alpha_sum += a * h;
            gamma_sum += g * tanh(alpha * a);
            beta_sum += g;
            put(&dx, r, j, alpha * h); /* last: dx may be dy */
        }
        put_gradient(&dgamma, j, gamma_sum, args->accumulate);
        put_gradient(&dbeta, j, beta_sum, args->accumulate);
    }
    put_gradient(&dalpha, 0, alpha_sum, args->accumulate);
    return TG_OK;
}

TG_REF_IMPLS(dyt) = {
    TG_REF_IMPL(dyt_forward, forward),
    TG_REF_IMPL(dyt_backward, backward),
    TG_IMPLS_END,
};
