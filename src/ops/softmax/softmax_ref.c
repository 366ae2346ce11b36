/* softmax, reference: the definition, row by row, in double. */
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

/* y may be x: element j is read for the last time just before it is written. */
static tg_status forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    (void)ctx;
    const tg_rows x = tg_rows_of(args->x), y = tg_rows_of(args->y);
    for (int64_t r = 0; r < x.rows; r++) {
        double max = -INFINITY, sum = 0.0;
        for (int64_t j = 0; j < x.n; j++)
            max = fmax(max, at(&x, r, j));
        for (int64_t j = 0; j < x.n; j++)
            sum += exp(at(&x, r, j) - max);
        for (int64_t j = 0; j < x.n; j++)
            put(&y, r, j, exp(at(&x, r, j) - max) / sum);
    }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    (void)ctx;
    const tg_rows dy = tg_rows_of(args->dy), y = tg_rows_of(args->y), dx = tg_rows_of(args->dx);
    for (int64_t r = 0; r < y.rows; r++) {
        double dot = 0.0;
        for (int64_t j = 0; j < y.n; j++)
            dot += at(&y, r, j) * at(&dy, r, j);
        for (int64_t j = 0; j < y.n; j++)
            put(&dx, r, j, at(&y, r, j) * (at(&dy, r, j) - dot));
    }
    return TG_OK;
}

TG_REF_IMPLS(softmax) = {
    TG_REF_IMPL(softmax_forward, forward),
    TG_REF_IMPL(softmax_backward, backward),
    TG_IMPLS_END,
};
