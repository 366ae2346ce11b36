/* cross_entropy_gradient.h - from a row's maximum and sum, or its saved lse, to
 * its gradient. f32. */
#ifndef CROSS_ENTROPY_GRADIENT_H
#define CROSS_ENTROPY_GRADIENT_H

#include "cross_entropy_row.h"

/* P = exp(HIT - TOP) / TOTAL, Q = 1 - P without a difference, REST = z lse; TOTAL =
 * OTHERS + exp(HIT - TOP),
 * which P holds before. */
static inline __aicore__ void ce_shares(const ce_job *job, const ce_row *row)
{
    __ubuf__ float *p = ce_at(job, CE_P), *q = ce_at(job, CE_Q), *rest = ce_at(job, CE_REST);
    __ubuf__ float *total = ce_at(job, CE_TOTAL), *top = ce_at(job, CE_TOP);
    asc_duplicate(rest, 0.0f, 8);
    asc_add(total, ce_at(job, CE_OTHERS), p, 8);
    ASC_THEN();
    asc_div(p, p, total, 8);
    asc_div(q, ce_at(job, CE_OTHERS), total, 8);
    if (row->z != 0.0f) {
        asc_log(rest, total, 8);
        ASC_THEN();
        asc_add(rest, rest, top, 8);
        ASC_THEN();
        asc_mul_scalar(rest, rest, row->z, 8);
    }
    ASC_THEN();
}

/* P and Q of n lanes from saved lse: P = E, Q = -(E - 1), E = exp(d), d = HIT - lse, by (E - 1) d /
 * log E. d, e: scratch. */
static inline __aicore__ void ce_expm1(__ubuf__ float *p, __ubuf__ float *q, __ubuf__ float *d,
                                       __ubuf__ float *e, __ubuf__ float *hit, __ubuf__ float *lse,
                                       uint32_t n)
{
    asc_sub(d, hit, lse, n);
    ASC_THEN();
    asc_exp(p, d, n);
    ASC_THEN();
    asc_max_scalar(d, d, -30.0f, n);
    ASC_THEN();
    asc_exp(e, d, n);
    ASC_THEN();
    asc_add_scalar(q, e, -1.0f, n);
    ASC_THEN();
    asc_log(e, e, n);
    ASC_THEN();
    asc_add_scalar(q, q, CE_TINY, n);
    asc_add_scalar(e, e, CE_TINY, n);
    asc_mul_scalar(d, d, -1.0f, n);
    ASC_THEN();
    asc_mul(q, q, d, n);
    ASC_THEN();
    asc_div(q, q, e, n);
    ASC_THEN();
}

/* TOP = lse, TOTAL = 1. ASC_THEN() is left to the caller. */
static inline __aicore__ void ce_take_lse(const ce_job *job, const ce_row *row)
{
    asc_duplicate(ce_at(job, CE_TOP), row->lse, 8);
    asc_duplicate(ce_at(job, CE_TOTAL), 1.0f, 8);
    asc_duplicate(ce_at(job, CE_REST), row->z * row->lse, 8);
}

/* The same from a saved lse. What computes HIT may stand just before. */
static inline __aicore__ void ce_shares_saved(const ce_job *job, const ce_row *row)
{
    ce_take_lse(job, row);
    ASC_THEN();
    ce_expm1(ce_at(job, CE_P), ce_at(job, CE_Q), ce_at(job, CE_OLD), ce_at(job, CE_VALUE),
             ce_at(job, CE_HIT), ce_at(job, CE_TOP), 8);
}

/* Whether the rounding of a row's lse to f32, of which both P and Q are made here, does not tell:
 * as in src/ops/cross_entropy. If so all is as after ce_shares(). S waits for V. */
static inline __aicore__ int ce_trusts_lse(const ce_job *job, const ce_row *row)
{
    const float size = row->lse < 0.0f ? -row->lse : row->lse;
    __ubuf__ float *q = ce_at(job, CE_Q), *hit = ce_at(job, CE_HIT_SCRATCH);
    if (!(size < 32.0f && job->scale >= CE_LEAST_SCALE))
        return 0;
    ce_take_lse(job, row);
    asc_mul_scalar(hit, ce_at(job, CE_HIT), job->scale, 8);
    ASC_THEN();
    ce_expm1(ce_at(job, CE_P), q, ce_at(job, CE_OLD), ce_at(job, CE_VALUE), hit, ce_at(job, CE_TOP),
             8);
    asc_duplicate(ce_at(job, CE_TOP), row->lse / job->scale, 8);
    ASC_FENCE(PIPE_V, PIPE_S);
    const float rest = q[0];
    ASC_FENCE(PIPE_S, PIPE_V);
    return size * (1.0f - rest) < job->roundings * rest;
}

/* FACTOR, BIAS, and AT_TARGET, the target's whole gradient: (REST P - hit Q + bias (W P - w))
 * slope, W P - w being (W - w) P - w Q, which is 0 where there is no other class. */
static inline __aicore__ void ce_factors(const ce_job *job, const ce_row *row)
{
    __ubuf__ float *factor = ce_at(job, CE_FACTOR), *rest = ce_at(job, CE_REST);
    __ubuf__ float *target = ce_at(job, CE_AT_TARGET), *q = ce_at(job, CE_Q);
    __ubuf__ float *bias = ce_at(job, CE_BIAS), *p = ce_at(job, CE_P);
    asc_add_scalar(factor, rest, row->hit + row->smooth, 8);
    asc_add_scalar(target, rest, row->bias * (job->class_weights - row->weight), 8);
    asc_mul_scalar(q, q, row->hit + row->bias * row->weight, 8);
    asc_duplicate(bias, row->bias, 8);
    ASC_THEN();
    asc_div(factor, factor, ce_at(job, CE_TOTAL), 8);
    asc_mul(target, target, p, 8);
    ASC_THEN();
    asc_sub(target, target, q, 8);
    ASC_THEN();
    if (job->flags & CE_TOKEN) {
        asc_mul(factor, factor, p, 8);
        asc_mul(target, target, p, 8);
        asc_mul(bias, bias, p, 8);
        ASC_THEN();
    }
    if (job->softcap > 0.0f) /* the target's gradient is used last of all */
        asc_mul(target, target, ce_at(job, CE_HIT_SLOPE), 8);
}

/* dx = (FACTOR exp(x - TOP) - BIAS w) slope: w 0 for ones, slope 0 for none. a: f32 to work in; a,
 * dx and x may be one.
 * The exponentials of a whole row are there already. */
static inline __aicore__ void ce_gradient(const ce_job *job, __ubuf__ float *dx, __ubuf__ float *a,
                                          __ubuf__ float *x, __ubuf__ float *w,
                                          __ubuf__ float *product, __ubuf__ float *slope,
                                          int64_t at, uint32_t n)
{
    __ubuf__ float *e = job->whole ? job->e : a;
    if (!job->whole) {
        ASC_WITH_BLOCK(asc_sub, e, x, ce_at(job, CE_TOP), 1, n, 0);
        ASC_THEN();
        if (job->scale != 1.0f) {
            asc_mul_scalar(e, e, job->scale, n);
            ASC_THEN();
        }
        asc_exp(e, e, n);
        ASC_THEN();
    }
    ASC_WITH_BLOCK(asc_mul, a, e, ce_at(job, CE_FACTOR), 1, n, 0);
    ASC_THEN();
    if (job->smoothing != 0.0f && w) {
        ASC_WITH_BLOCK(asc_mul, product, w, ce_at(job, CE_BIAS), 1, n, 0);
        ASC_THEN();
        asc_sub(a, a, product, n);
        ASC_THEN();
    } else if (job->smoothing != 0.0f) {
        ASC_WITH_BLOCK(asc_sub, a, a, ce_at(job, CE_BIAS), 1, n, 0);
        ASC_THEN();
    }
    if (slope) {
        asc_mul(dx, a, slope, n);
        ASC_THEN();
    }
    if (at >= 0 && at < n) {
        ce_set_lane(dx, at, ce_at(job, CE_AT_TARGET));
        ASC_THEN();
    }
}

#endif
