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

/* U = HIT - TOP, LOSS its negative, both times the scale, as TOP is then. T, Z: scratch.
 * Ends with ASC_THEN(). */
static inline __aicore__ void ce_differences(const ce_job *job)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP), *hit = ce_at(job, CE_ROWS_HIT);
    __ubuf__ float *t = ce_at(job, CE_ROWS_T), *u = ce_at(job, CE_ROWS_U);
    __ubuf__ float *loss = ce_at(job, CE_ROWS_LOSS), *z = ce_at(job, CE_ROWS_Z);
    if (job->scale == 1.0f) {
        asc_sub(u, hit, top, n);
        asc_sub(loss, top, hit, n);
    } else { /* of halves: a difference may be more than f32 has where its multiple is not */
        asc_mul_scalar(t, hit, 0.5f, n);
        asc_mul_scalar(z, top, 0.5f, n);
        ASC_THEN();
        asc_sub(u, t, z, n);
        asc_sub(loss, z, t, n);
        asc_mul_scalar(top, top, job->scale, n);
        ASC_THEN();
        asc_mul_scalar(u, u, 2.0f * job->scale, n);
        asc_mul_scalar(loss, loss, 2.0f * job->scale, n);
    }
    ASC_THEN();
}

/* LOSS = base and LSE, of the differences:
 * base = lse - HIT = (TOP - HIT) + log1p(T), lse = TOP + log1p(T), T = OTHERS + (u - 1), u
 * = exp(HIT - TOP): all terms positive, so that a confident row's small loss keeps its digits.
 * log1p(T) = T log W / (W - 1), W = 1 + T, which TOTAL is: OTHERS + u. Ends with ASC_THEN(). */
static inline __aicore__ void ce_base(const ce_job *job)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *t = ce_at(job, CE_ROWS_T), *u = ce_at(job, CE_ROWS_U);
    __ubuf__ float *lse = ce_at(job, CE_ROWS_LSE), *loss = ce_at(job, CE_ROWS_LOSS);
    __ubuf__ float *z = ce_at(job, CE_ROWS_Z), *others = ce_at(job, CE_ROWS_OTHERS);
    __ubuf__ float *total = ce_at(job, CE_TOTAL);
    asc_exp(u, u, n);
    ASC_THEN();
    asc_add_scalar(t, u, -1.0f, n);
    asc_add(total, u, others, n);
    ASC_THEN();
    asc_add(t, t, others, n);
    asc_log(lse, total, n);
    asc_add_scalar(z, total, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(lse, lse, CE_TINY, n);
    asc_add_scalar(z, z, CE_TINY, n);
    ASC_THEN();
    asc_mul(t, t, lse, n);
    ASC_THEN();
    asc_div(t, t, z, n);
    ASC_THEN();
    asc_add(loss, loss, t, n);
    asc_add(lse, t, ce_at(job, CE_ROWS_TOP), n);
    ASC_THEN();
}

/* LSE, LOSS and Z of a batch: with the weights of the rows, smoothing, z-loss and token scaling. */
static inline __aicore__ void ce_results(const ce_job *job)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *t = ce_at(job, CE_ROWS_T), *lse = ce_at(job, CE_ROWS_LSE);
    __ubuf__ float *loss = ce_at(job, CE_ROWS_LOSS), *z = ce_at(job, CE_ROWS_Z);
    const int smooth = job->smoothing != 0.0f;
    ce_differences(job);
    ce_base(job);
    asc_mul(loss, loss, ce_at(job, CE_ROWS_WEIGHT), n);
    if (job->z != 0.0f) /* lse^2 may be more than f32 has */
        asc_mul(z, lse, lse, n);
    else
        asc_duplicate(z, 0.0f, n);
    if (smooth) /* e (W lse - WX) */
        asc_mul_scalar(t, lse, job->class_weights, n);
    ASC_THEN();
    asc_mul_scalar(loss, loss, (1.0f - job->smoothing) * job->per_ce, n);
    asc_mul_scalar(z, z, job->z * job->per_z, n);
    if (smooth)
        asc_sub(t, t, ce_at(job, CE_ROWS_WX), n);
    ASC_THEN();
    asc_add(loss, loss, z, n);
    if (smooth) {
        asc_mul_scalar(t, t, job->smoothing / (float)job->columns * job->per_ce, n);
        ASC_THEN();
        asc_add(loss, loss, t, n);
    }
    ASC_THEN();
    if (job->flags & CE_TOKEN) {
        /* not exp(HIT - lse): lse is rounded */
        asc_div(t, ce_at(job, CE_ROWS_U), ce_at(job, CE_TOTAL), n);
        ASC_THEN();
        asc_mul(loss, loss, t, n);
        asc_mul(z, z, t, n);
        ASC_THEN();
    }
}

/* Sums over what the blocks of cross_entropy_count have left: n, D, W each. Returns 0 if there
 * is nothing to do. */
static inline __aicore__ int ce_read_counts(ce_job *job, __gm__ float *counts, __ubuf__ float *copy,
                                            int64_t blocks)
{
    float n = 0.0f, weights = 0.0f, classes = 0.0f;
    job->per_ce = job->unit;
    job->per_z = 1.0f;
    job->class_weights = (float)job->columns;
    if (!(job->flags & CE_COUNTED))
        return 1;
    asc_copy_gm2ub_align(copy, counts, (uint32_t)(blocks * 32));
    ASC_FENCE(PIPE_MTE2, PIPE_S);
    for (int64_t b = 0; b < blocks; b++) {
        n += copy[b * 8];
        weights += copy[b * 8 + 1];
        classes += copy[b * 8 + 2];
    }
    asc_sync(); /* the memory becomes another buffer's */
    if (job->flags & CE_CLASSES)
        job->class_weights = classes;
    if (job->flags & CE_MEAN) {
        job->per_ce = weights != 0.0f ? job->unit / weights : 0.0f;
        job->per_z = n != 0.0f ? 1.0f / n : 0.0f;
    }
    return !(job->flags & CE_IF_ANY) || n != 0.0f;
}

#endif
