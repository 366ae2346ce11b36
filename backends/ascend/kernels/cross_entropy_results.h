/* cross_entropy_results.h - lse, loss and z-loss of a batch of rows, a lane a row. f32. */
#ifndef CROSS_ENTROPY_RESULTS_H
#define CROSS_ENTROPY_RESULTS_H

#include "cross_entropy_row.h"

static inline __aicore__ void ce_begin_batch(const ce_job *job)
{
    for (int i = CE_ROWS_TOP; i <= CE_ROWS_RIGHT; i++)
        asc_duplicate(ce_at(job, i), 0.0f, ASC_LANES); /* all results of an ignored row are 0 */
    ASC_THEN();
}

/* base = lse - HIT = (TOP - HIT) + log1p(T), lse = TOP + log1p(T), T = OTHERS + (u - 1), u = exp(HIT - TOP): all
 * terms positive, so that a confident row's small loss keeps its digits. log1p(T) = T log W / (W - 1), W = 1 + T. */
static inline __aicore__ void ce_results(const ce_job *job)
{
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP), *hit = ce_at(job, CE_ROWS_HIT);
    __ubuf__ float *t = ce_at(job, CE_ROWS_T), *u = ce_at(job, CE_ROWS_U);
    __ubuf__ float *lse = ce_at(job, CE_ROWS_LSE), *loss = ce_at(job, CE_ROWS_LOSS);
    __ubuf__ float *z = ce_at(job, CE_ROWS_Z), *wx = ce_at(job, CE_ROWS_WX);
    asc_sub(u, hit, top, ASC_LANES);
    ASC_THEN();
    asc_mul_scalar(loss, u, -1.0f, ASC_LANES);
    ASC_THEN();
    asc_exp(u, u, ASC_LANES);
    ASC_THEN();
    asc_add_scalar(t, u, -1.0f, ASC_LANES);
    ASC_THEN();
    asc_add(t, t, ce_at(job, CE_ROWS_OTHERS), ASC_LANES);
    ASC_THEN();
    asc_add_scalar(z, t, 1.0f, ASC_LANES);
    ASC_THEN();
    asc_log(lse, z, ASC_LANES);
    ASC_THEN();
    asc_add_scalar(z, z, -1.0f, ASC_LANES);
    ASC_THEN();
    asc_add_scalar(lse, lse, CE_TINY, ASC_LANES);
    asc_add_scalar(z, z, CE_TINY, ASC_LANES);
    ASC_THEN();
    asc_mul(lse, lse, t, ASC_LANES);
    ASC_THEN();
    asc_div(lse, lse, z, ASC_LANES);
    ASC_THEN();
    asc_add(loss, loss, lse, ASC_LANES);
    ASC_THEN();
    asc_add(lse, lse, top, ASC_LANES);
    ASC_THEN();
    asc_mul(loss, loss, ce_at(job, CE_ROWS_WEIGHT), ASC_LANES);
    asc_mul(z, lse, lse, ASC_LANES);
    ASC_THEN();
    asc_mul_scalar(loss, loss, (1.0f - job->smoothing) * job->per_ce, ASC_LANES);
    asc_mul_scalar(z, z, job->z * job->per_z, ASC_LANES);
    if (job->smoothing != 0.0f) { /* e (W lse - WX) */
        asc_mul_scalar(t, lse, job->class_weights, ASC_LANES);
        ASC_THEN();
        asc_sub(t, t, wx, ASC_LANES);
        ASC_THEN();
        asc_mul_scalar(t, t, job->smoothing / (float)job->columns * job->per_ce, ASC_LANES);
        ASC_THEN();
        asc_add(loss, loss, t, ASC_LANES);
    }
    ASC_THEN();
    asc_add(loss, loss, z, ASC_LANES);
    ASC_THEN();
    if (job->flags & CE_TOKEN) {
        asc_sub(t, hit, lse, ASC_LANES);
        ASC_THEN();
        asc_exp(t, t, ASC_LANES);
        ASC_THEN();
        asc_mul(loss, loss, t, ASC_LANES);
        asc_mul(z, z, t, ASC_LANES);
        ASC_THEN();
    }
}

#endif
