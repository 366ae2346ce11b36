/* rms_norm.c - one operator replaced: y = x / sqrt(mean(x^2) + eps) * (offset + weight), for f32.
 *
 * The arguments have passed Tigon's check: shapes agree, nothing required is NULL, the last dimension
 * is contiguous, the leading ones have one row stride, and options hold their values: where the caller
 * left eps at zero it is 1e-6 here.
 */
#include <math.h>

#include "acme.h"

const tg_host *acme_host;

/* A kernel sees pointers and numbers, no tensors. */
typedef struct problem {
    const float *x, *weight; /* weight NULL: no scale */
    float *y, *rstd;         /* rstd NULL: not wanted */
    int64_t n, x_stride, y_stride;
    double eps, offset;
} problem;

static void run_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const problem *p = arg;
    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        const float *x = p->x + r * p->x_stride;
        float *y = p->y + r * p->y_stride;
        double sum = 0;
        for (int64_t i = 0; i < p->n; i++)
            sum += (double)x[i] * x[i];
        const double rstd = 1 / sqrt(sum / (double)p->n + p->eps);
        for (int64_t i = 0; i < p->n; i++)
            y[i] = (float)(x[i] * rstd * (p->weight ? p->offset + p->weight[i] : 1));
        if (p->rstd)
            p->rstd[r] = (float)rstd;
    }
}

static void *data_of(const tg_tensor *t)
{
    return t ? (char *)t->data + t->byte_offset : NULL;
}

/* Distance of two rows: the stride of the innermost leading dimension that has more than one entry. */
static int64_t row_stride(const tg_tensor *t)
{
    for (int i = t->ndim - 2; i >= 0 && t->strides; i--)
        if (t->shape[i] > 1)
            return t->strides[i];
    return t->shape[t->ndim - 1];
}

tg_status acme_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args)
{
    /* Without a table there is no accepts(): TG_EUNSUPPORTED, before anything is written, passes
     * the call on to the next implementation. */
    const tg_tensor *x = args->x, *weight = args->weight;
    if (tg_type_of(x) != TG_F32 || (weight && tg_type_of(weight) != TG_F32))
        return acme_host->fail(TG_EUNSUPPORTED, "acme_rms_norm_forward: takes f32 alone");

    problem p = {
        .x = data_of(x),
        .weight = data_of(weight),
        .y = data_of(args->y),
        .rstd = data_of(args->rstd),
        .n = x->shape[x->ndim - 1],
        .x_stride = row_stride(x),
        .y_stride = row_stride(args->y),
        .eps = args->eps,
        .offset = args->offset,
    };
    const int64_t rows = p.n ? tg_numel(x) / p.n : 0;
    const int64_t grain = 1 + 16384 / (p.n + 1); /* small problems stay on one thread */
    acme_host->parallel_for(ctx, rows, grain, run_rows, &p);
    return TG_OK;
}

tg_status acme_open(const tg_host *host)
{
    acme_host = host;
    return TG_OK;
}
