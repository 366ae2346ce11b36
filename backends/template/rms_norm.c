/* rms_norm.c - one operator replaced: y = x / sqrt(mean(x^2) + eps) * (offset + weight), for f32.
 *
 * The arguments have passed Tigon's check: shapes agree, nothing required is NULL, the last
 * dimension is contiguous, the leading ones have one row stride, and options hold their values:
 * where the caller left eps at zero it is 1e-6 here.
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

tg_status acme_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *args)
{
    /* Without a table there is no accepts(): TG_EUNSUPPORTED, before anything is written, passes
     * the call on to the next implementation. */
    const tg_tensor *x = args->x, *weight = args->weight;
    if (tg_type_of(x) != TG_F32 || (weight && tg_type_of(weight) != TG_F32))
        return acme_host->fail(TG_EUNSUPPORTED, "acme_rms_norm_forward: takes f32 alone");
    if (args->gate || args->scale)
        return acme_host->fail(TG_EUNSUPPORTED, "acme_rms_norm_forward: knows no gate, no scale");

    const tg_rows x_rows = tg_rows_of(x), y_rows = tg_rows_of(args->y);
    problem p = {
        .x = (const float *)x_rows.data,
        .weight = tg_data(weight),
        .y = (float *)y_rows.data,
        .rstd = tg_data(args->rstd),
        .n = x_rows.n,
        .x_stride = x_rows.stride,
        .y_stride = y_rows.stride,
        .eps = args->eps,
        .offset = args->offset,
    };
    const int64_t grain = 1 + 16384 / (p.n + 1); /* small problems stay on one thread */
    acme_host->parallel_for(ctx, x_rows.rows, grain, run_rows, &p);
    return TG_OK;
}

tg_status acme_open(const tg_host *host)
{
    acme_host = host;
    return TG_OK;
}
