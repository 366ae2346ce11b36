/* sparsemax, reference: the definition by a sorted row, in double. */
#include <math.h>
#include <stdlib.h>

#include "sparsemax.h"

static double at(const sparsemax_cut *t, int64_t first, int64_t j)
{
    return tg_get(t->data, t->type, first + j * t->step);
}

static void put(const sparsemax_cut *t, int64_t first, int64_t j, double value)
{
    tg_set(t->data, t->type, first + j * t->step, value);
}

/* Number of the first element of row r. */
static int64_t row_of(const sparsemax_cut *t, int64_t r)
{
    return r / t->inner * t->outer_step + r % t->inner;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The threshold of z, sorted in descending order: of the k largest, for the largest k whose last
 * element lies above it. */
static double threshold(const double *z, int64_t n)
{
    double sum = 0.0, tau = 0.0;
    for (int64_t k = 1; k <= n; k++) {
        sum += z[k - 1];
        if (1.0 + (double)k * z[k - 1] > sum)
            tau = (sum - 1.0) / (double)k;
    }
    return tau;
}

/* One row, relative to its maximum, so that a large one does not swallow the 1. What lies 1 or more below it is 0 in y, and is not
 * sorted: the sum of the distances alone would reach 1. */
static void forward_row(const sparsemax_cut *x, const sparsemax_cut *y, int64_t r, double *z)
{
    const int64_t n = x->n, from = row_of(x, r), to = row_of(y, r);
    double max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        max = at(x, from, j) > max || isnan(at(x, from, j)) ? at(x, from, j) : max;
    if (!isfinite(max)) { /* NaN, or +inf, or nothing but -inf */
        for (int64_t j = 0; j < n; j++)
            put(y, to, j, NAN);
        return;
    }
    int64_t near = 0;
    for (int64_t j = 0; j < n; j++)
        if (at(x, from, j) - max > -1)
            z[near++] = at(x, from, j) - max;
    qsort(z, (size_t)near, sizeof *z, descending);
    const double tau = threshold(z, near);
    for (int64_t j = 0; j < n; j++)
        put(y, to, j, fmax(at(x, from, j) - max - tau, 0.0));
}

static tg_status forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    const sparsemax_cut x = sparsemax_cut_of(args->x, args->dim);
    const sparsemax_cut y = sparsemax_cut_of(args->y, args->dim);
    if (x.n == 0)
        return TG_OK;
    double *z = tg_workspace(ctx, (size_t)x.n * sizeof *z);
    if (!z)
        return TG_ENOMEM;
    for (int64_t r = 0; r < x.outer * x.inner; r++)
        forward_row(&x, &y, r, z);
    return TG_OK;
}

static void backward_row(const sparsemax_cut *dy, const sparsemax_cut *y, const sparsemax_cut *dx,
                         int64_t r)
{
    const int64_t g = row_of(dy, r), p = row_of(y, r), out = row_of(dx, r);
    double sum = 0.0, count = 0.0;
    for (int64_t j = 0; j < y->n; j++) {
        const double v = at(y, p, j);
        if (v <= 0.0)
            continue;
        sum += at(dy, g, j) + (v - v); /* which is 0, or NaN */
        count += 1.0;
    }
    for (int64_t j = 0; j < y->n; j++)
        put(dx, out, j, at(y, p, j) <= 0.0 ? 0.0 : at(dy, g, j) - sum / count);
}

static tg_status backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    (void)ctx;
    const sparsemax_cut dy = sparsemax_cut_of(args->dy, args->dim);
    const sparsemax_cut y = sparsemax_cut_of(args->y, args->dim);
    const sparsemax_cut dx = sparsemax_cut_of(args->dx, args->dim);
    for (int64_t r = 0; r < y.outer * y.inner; r++)
        backward_row(&dy, &y, &dx, r);
    return TG_OK;
}

TG_REF_IMPLS(sparsemax) = {
    TG_REF_IMPL(sparsemax_forward, forward),
    TG_REF_IMPL(sparsemax_backward, backward),
    TG_IMPLS_END,
};
