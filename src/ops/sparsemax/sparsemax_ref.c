/* sparsemax, reference: the definition, its threshold by leaving out what is not
 * above it, in double. */
#include <math.h>

#include "core/services.h"

static double at(const tg_cut *t, int64_t first, int64_t j)
{
    return tg_get(t->data, t->type, first + j * t->step);
}

static void put(const tg_cut *t, int64_t first, int64_t j, double value)
{
    tg_set(t->data, t->type, first + j * t->step, value);
}

/* Number of the first element of row r. */
static int64_t row_of(const tg_cut *t, int64_t r)
{
    return r / t->inner * t->outer_step + r % t->inner;
}

/* The threshold of z, at which what lies above it sums to 1. Of all elements it is the
 * mean less 1/n; those not above it have no part in the sum, and without them it is
 * higher. z: what is left. */
static double threshold(double *z, int64_t n)
{
    for (;;) {
        double sum = -1.0;
        int64_t above = 0;
        for (int64_t j = 0; j < n; j++)
            sum += z[j];
        const double tau = sum / (double)n;
        for (int64_t j = 0; j < n; j++)
            if (z[j] > tau)
                z[above++] = z[j];
        if (above == n)
            return tau;
        n = above;
    }
}

/* One row, relative to its maximum, so that a large one does not swallow the 1. What lies 1 or more
 * below it is 0 in y, and is left out: the sum of the distances alone would reach 1. */
static void forward_row(const tg_cut *x, const tg_cut *y, int64_t r, double *z)
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
    const double tau = threshold(z, near);
    for (int64_t j = 0; j < n; j++)
        put(y, to, j, fmax(at(x, from, j) - max - tau, 0.0));
}

static tg_status forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    const tg_cut x = tg_cut_of(args->x, args->dim);
    const tg_cut y = tg_cut_of(args->y, args->dim);
    if (x.n == 0)
        return TG_OK;
    double *z = tg_workspace(ctx, (size_t)x.n * sizeof *z);
    if (!z)
        return TG_ENOMEM;
    for (int64_t r = 0; r < x.outer * x.inner; r++)
        forward_row(&x, &y, r, z);
    return TG_OK;
}

static void backward_row(const tg_cut *dy, const tg_cut *y, const tg_cut *dx, int64_t r)
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
    const tg_cut dy = tg_cut_of(args->dy, args->dim);
    const tg_cut y = tg_cut_of(args->y, args->dim);
    const tg_cut dx = tg_cut_of(args->dx, args->dim);
    for (int64_t r = 0; r < y.outer * y.inner; r++)
        backward_row(&dy, &y, &dx, r);
    return TG_OK;
}

TG_REF_IMPLS(sparsemax) = {
    TG_REF_IMPL(sparsemax_forward, forward),
    TG_REF_IMPL(sparsemax_backward, backward),
    TG_IMPLS_END,
};
