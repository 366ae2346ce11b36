/* toy_norms.c - kernels of rms_norm, softmax and sum_squares: one row after the other, in f64. */
#include <math.h>

#include "toy.h"

/* ---- rms_norm ---- */

static double scale(const tg_rows *weight, double offset, int64_t j)
{
    return weight->data ? offset + toy_get(weight, 0, j) : 1;
}

static void rms_norm(toy_call *call)
{
    const tg_rms_norm_forward_args *a = (const void *)call->slot;
    const tg_rows x = tg_rows_of(a->x), w = tg_rows_of(a->weight), y = tg_rows_of(a->y),
                  rstd = tg_rows_of(a->rstd);
    for (int64_t i = 0; i < x.rows; i++) {
        double squares = 0;
        for (int64_t j = 0; j < x.n; j++)
            squares += toy_get(&x, i, j) * toy_get(&x, i, j);
        const double r = 1 / sqrt(squares / (double)x.n + a->eps);
        for (int64_t j = 0; j < x.n; j++) {
            const double n = toy_get(&x, i, j) * r;
            toy_set(&y, i, j,
                    (a->casting_mode ? n : toy_rounded(x.type, n)) * scale(&w, a->offset, j));
        }
        if (rstd.data)
            toy_set(&rstd, 0, i, r);
    }
}

/* The weight's gradient is summed in device memory of the workspace: dx may lie over dy. */
static void rms_norm_gradient(toy_call *call)
{
    const tg_rms_norm_backward_args *a = (const void *)call->slot;
    const tg_rows dy = tg_rows_of(a->dy), x = tg_rows_of(a->x), w = tg_rows_of(a->weight),
                  rstd = tg_rows_of(a->rstd), dx = tg_rows_of(a->dx), dw = tg_rows_of(a->dweight);
    double *sum = call->scratch;
    for (int64_t j = 0; dw.data && j < x.n; j++)
        sum[j] = a->accumulate ? toy_get(&dw, 0, j) : 0;
    for (int64_t i = 0; i < x.rows; i++) {
        const double r = toy_get(&rstd, 0, i);
        double dot = 0;
        for (int64_t j = 0; j < x.n; j++) {
            const double d = toy_get(&dy, i, j), n = toy_get(&x, i, j) * r;
            dot += d * scale(&w, a->offset, j) * toy_get(&x, i, j);
            if (dw.data)
                sum[j] += d * (a->casting_mode ? n : toy_rounded(x.type, n));
        }
        for (int64_t j = 0; j < x.n; j++) {
            const double m = toy_get(&dy, i, j) * scale(&w, a->offset, j);
            toy_set(&dx, i, j, r * (m - toy_get(&x, i, j) * r * r * dot / (double)x.n));
        }
    }
    for (int64_t j = 0; dw.data && j < x.n; j++)
        toy_set(&dw, 0, j, sum[j]);
}

/* ---- softmax ---- */

static void softmax(toy_call *call)
{
    const tg_softmax_forward_args *a = (const void *)call->slot;
    const tg_rows x = tg_rows_of(a->x), y = tg_rows_of(a->y);
    for (int64_t i = 0; i < x.rows; i++) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < x.n; j++)
            most = fmax(most, toy_get(&x, i, j));
        for (int64_t j = 0; j < x.n; j++)
            sum += exp(toy_get(&x, i, j) - most);
        for (int64_t j = 0; j < x.n; j++)
            toy_set(&y, i, j, exp(toy_get(&x, i, j) - most) / sum);
    }
}

static void softmax_gradient(toy_call *call)
{
    const tg_softmax_backward_args *a = (const void *)call->slot;
    const tg_rows dy = tg_rows_of(a->dy), y = tg_rows_of(a->y), dx = tg_rows_of(a->dx);
    for (int64_t i = 0; i < y.rows; i++) {
        double dot = 0;
        for (int64_t j = 0; j < y.n; j++)
            dot += toy_get(&y, i, j) * toy_get(&dy, i, j);
        for (int64_t j = 0; j < y.n; j++)
            toy_set(&dx, i, j, toy_get(&y, i, j) * (toy_get(&dy, i, j) - dot));
    }
}

/* ---- sum_squares ---- */

static void sum_squares(toy_call *call)
{
    const tg_sum_squares_forward_args *a = (const void *)call->slot;
    const tg_rows x = tg_rows_of(a->x), y = tg_rows_of(a->y);
    double sum = a->accumulate ? toy_get(&y, 0, 0) : 0;
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.n; j++)
            sum += toy_get(&x, i, j) * toy_get(&x, i, j);
    toy_set(&y, 0, 0, sum);
}

static void sum_squares_gradient(toy_call *call)
{
    const tg_sum_squares_backward_args *a = (const void *)call->slot;
    const tg_rows dy = tg_rows_of(a->dy), x = tg_rows_of(a->x), dx = tg_rows_of(a->dx);
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.n; j++)
            toy_set(&dx, i, j, 2 * toy_get(&dy, 0, 0) * toy_get(&x, i, j));
}

/* ---- rows ---- */

TOY_FUNCTION(rms_norm_forward, rms_norm, 0)
TOY_FUNCTION(rms_norm_backward, rms_norm_gradient,
             args->dweight ? (size_t)tg_numel(args->dweight) * sizeof(double) : 0)
TOY_FUNCTION(softmax_forward, softmax, 0)
TOY_FUNCTION(softmax_backward, softmax_gradient, 0)
TOY_FUNCTION(sum_squares_forward, sum_squares, 0)
TOY_FUNCTION(sum_squares_backward, sum_squares_gradient, 0)

const tg_impl toy_norm_rows[] = {
    TG_IMPL(rms_norm_forward, "", 0, TG_TAKES_FLOATS, NULL, toy_rms_norm_forward),
    TG_IMPL(rms_norm_backward, "", 0, TG_TAKES_FLOATS, NULL, toy_rms_norm_backward),
    TG_IMPL(softmax_forward, "", 0, TG_TAKES_FLOATS, NULL, toy_softmax_forward),
    TG_IMPL(softmax_backward, "", 0, TG_TAKES_FLOATS, NULL, toy_softmax_backward),
    TG_IMPL(sum_squares_forward, "", 0, TG_TAKES_FLOATS, NULL, toy_sum_squares_forward),
    TG_IMPL(sum_squares_backward, "", 0, TG_TAKES_FLOATS, NULL, toy_sum_squares_backward),
    TG_IMPLS_END,
};
