/* cross_entropy_row.h - arithmetic of cross_entropy on the pieces of a row, up to its
 * maximum and sum. f32.
 *
 * A block of UB, `lanes`, holds what a row needs beside its pieces: buffers of job->batch floats,
 * mostly 64, by the names below. What is one number for the row lies there as eight equal lanes
 * ("block"), so that V computes with it and the scalar unit waits for nothing. */
#ifndef CROSS_ENTROPY_ROW_H
#define CROSS_ENTROPY_ROW_H

#include "cross_entropy.args.h"
#include "shared/asc_cap.h"
#include "shared/asc_ring.h"
#include "shared/asc_rows.h"

/* MAX, SUM, WX: lane by lane, of the pieces so far; SUM leaves out the target, and PART, the last
 * piece's. Blocks: HIT the target's logit, TOP the row's maximum, OTHERS its SUM; TOTAL ... BIAS
 * see ce_factors(). The rest: a lane a row, for ce_results(). */
enum {
    CE_MAX,
    CE_SUM,
    CE_PART,
    CE_WX,
    CE_OLD,
    CE_VALUE,
    CE_PICK,
    CE_HIT,
    CE_HIT_SLOPE,
    CE_HIT_SCRATCH,
    CE_TOP,
    CE_OTHERS,
    CE_P,
    CE_Q,
    CE_REST,
    CE_TOTAL,
    CE_FACTOR,
    CE_AT_TARGET,
    CE_BIAS,
    CE_ROWS_TOP,
    CE_ROWS_OTHERS,
    CE_ROWS_HIT,
    CE_ROWS_WX,
    CE_ROWS_WEIGHT,
    CE_ROWS_RIGHT,
    CE_ROWS_U,
    CE_ROWS_T,
    CE_ROWS_LSE,
    CE_ROWS_LOSS,
    CE_ROWS_Z,
    CE_LANES
};
/* A quotient of two small differences: 0 / 0 must be 1, and anything else must not notice. */
#define CE_TINY 1e-20f
/* A scale by which a trusted lse may be divided. */
#define CE_LEAST_SCALE 1e-30f

typedef struct ce_job {
    int64_t flags, ignore_index, columns;
    float smoothing, z, softcap, grad_scale, scale, unit;
    float roundings;                    /* roundings that the target's 1 - p may be off by */
    float per_ce, per_z, class_weights; /* 1/D, 1/n, W: see src/ops/cross_entropy */
    int whole;                          /* a row is one piece, read and then written */
    int64_t batch;                      /* floats of each buffer of `lanes`: rows of a batch */
    __ubuf__ float *lanes, *e, *t, *s;  /* e, t, s: scratch of a piece */
} ce_job;

/* dlogits_i = (FACTOR exp(x_i - TOP) - bias w_i) slope_i, factors of the row
 * without token scaling. */
typedef struct ce_row {
    int64_t target;
    float weight, hit, smooth, z, bias, lse;
} ce_row;

/* What a job is told of a call. */
static inline __aicore__ ce_job ce_job_of(int64_t columns, int64_t batch, ASC_PARAMS(CE_GIVEN))
{
    ce_job job = {0};
    job.flags = flags;
    job.ignore_index = ignore_index;
    job.columns = columns;
    job.smoothing = asc_f32(smoothing);
    job.z = asc_f32(z);
    job.softcap = asc_f32(softcap);
    job.grad_scale = asc_f32(grad_scale);
    job.scale = asc_f32(scale);
    job.unit = asc_f32(unit);
    job.batch = batch;
    return job;
}

static inline __aicore__ __ubuf__ float *ce_at(const ce_job *job, int lanes)
{
    return job->lanes + lanes * job->batch;
}

/* asc_cap() of logits: x = c tanh(r / c). */
static inline __aicore__ void ce_cap(__ubuf__ float *x, __ubuf__ float *t, __ubuf__ float *s,
                                     __ubuf__ float *r, float softcap, int slope, uint32_t n)
{
    asc_cap(x, t, s, r, 2.0f / softcap, softcap, slope, n);
}

/* x after softcap, in e if there is any. */
static inline __aicore__ __ubuf__ float *ce_capped(const ce_job *job, __ubuf__ float *x, int slope,
                                                   uint32_t n)
{
    if (job->softcap == 0.0f)
        return x;
    ce_cap(job->e, job->t, job->s, x, job->softcap, slope, n);
    return job->e;
}

/* Lane `at` of x[0 ... ] = the first lane of block. */
static inline __aicore__ void ce_set_lane(__ubuf__ float *x, int64_t at, __ubuf__ float *block)
{
    asc_set_vector_mask(0, (uint64_t)1 << at % ASC_LANES);
    asc_copy((__ubuf__ uint32_t *)(x + at / ASC_LANES * ASC_LANES), (__ubuf__ uint32_t *)block, 1,
             1, 0, 8, 8);
    ASC_UNCOUNTED();
}

static inline __aicore__ void ce_set_lane_to(__ubuf__ float *x, int64_t at, float value)
{
    asc_set_vector_mask(0, (uint64_t)1 << at % ASC_LANES);
    asc_duplicate(x + at / ASC_LANES * ASC_LANES, value, 1, 1, 8);
    ASC_UNCOUNTED();
}

/* Differences of logits, in two places, times the scale. ASC_THEN() stands behind it. */
static inline __aicore__ void ce_scale(const ce_job *job, __ubuf__ float *x, uint32_t n,
                                       __ubuf__ float *y, uint32_t m)
{
    if (job->scale == 1.0f)
        return;
    asc_mul_scalar(x, x, job->scale, n);
    asc_mul_scalar(y, y, job->scale, m);
    ASC_THEN();
}

/* ---- the first pass ---- */

/* The sum of w x: of x without w. A class of weight 0 adds nothing, even if its logit is -inf: x is
 * limited from below by 0 for it, by -inf for the others. */
static inline __aicore__ void ce_add_weighted(const ce_job *job, __ubuf__ float *x,
                                              __ubuf__ float *w, uint32_t n)
{
    __ubuf__ float *t = job->softcap > 0.0f ? job->s : job->t; /* t may keep slopes */
    if (w) {
        asc_abs(t, w, n);
        ASC_THEN();
        asc_mul_scalar(t, t, ASC_LOWEST, n);
        ASC_THEN();
        asc_mul_scalar(t, t, -ASC_LOWEST, n);
        ASC_THEN();
        asc_max(t, x, t, n);
        ASC_THEN();
        asc_mul(t, t, w, n);
        ASC_THEN();
        x = t;
    }
    ASC_FOLD(asc_add, ce_at(job, CE_WX), x, 1, n, 0);
    ASC_THEN();
}

/* Before a piece, beside other work: OLD keeps MAX, and SUM takes in the piece before. */
static inline __aicore__ void ce_begin_piece(const ce_job *job, int first)
{
    __ubuf__ float *max = ce_at(job, CE_MAX), *sum = ce_at(job, CE_SUM);
    if (first) {
        asc_duplicate(max, ASC_LOWEST, ASC_LANES);
        asc_duplicate(ce_at(job, CE_OLD), ASC_LOWEST, ASC_LANES);
        asc_duplicate(sum, 0.0f, ASC_LANES);
        asc_duplicate(ce_at(job, CE_WX), 0.0f, ASC_LANES);
    } else {
        asc_copy((__ubuf__ uint32_t *)ce_at(job, CE_OLD), (__ubuf__ uint32_t *)max, ASC_LANES);
        asc_add(sum, sum, ce_at(job, CE_PART), ASC_LANES);
    }
}

static inline __aicore__ void ce_raise_max(const ce_job *job, __ubuf__ float *x, uint32_t n)
{
    ASC_FOLD(asc_max, ce_at(job, CE_MAX), x, 1, n, 0);
    ASC_THEN();
}

/* PART is its sum, and SUM that of the pieces before, relative to MAX. at: the target's place in
 * the piece, if 0 <= at < n. x may be job->e. */
static inline __aicore__ void ce_add_piece(const ce_job *job, __ubuf__ float *x, int64_t at,
                                           uint32_t n)
{
    __ubuf__ float *e = job->e, *max = ce_at(job, CE_MAX), *sum = ce_at(job, CE_SUM);
    __ubuf__ float *old = ce_at(job, CE_OLD), *part = ce_at(job, CE_PART);
    asc_sub(old, old, max, ASC_LANES);
    ASC_WITH_LANES(asc_sub, e, x, max, n);
    ASC_THEN();
    ce_scale(job, old, ASC_LANES, e, n);
    asc_duplicate(part, 0.0f, ASC_LANES);
    asc_exp(old, old, ASC_LANES);
    asc_exp(e, e, n);
    ASC_THEN();
    if (at >= 0 && at < n) {
        ce_set_lane_to(e, at, 0.0f);
        ASC_THEN();
    }
    asc_mul(sum, sum, old, ASC_LANES);
    ASC_FOLD(asc_add, part, e, 1, n, 0);
    ASC_THEN();
}

/* The same of a row in one piece: relative to TOP, and e keeps exp(x - TOP), 0 for the target,
 * for the gradient. */
static inline __aicore__ void ce_add_whole(const ce_job *job, __ubuf__ float *x, int64_t at,
                                           uint32_t n)
{
    __ubuf__ float *e = job->e, *top = ce_at(job, CE_TOP), *p = ce_at(job, CE_P);
    asc_spread_max(top, ce_at(job, CE_VALUE), ce_at(job, CE_MAX), 1);
    ASC_WITH_BLOCK(asc_sub, e, x, top, 1, n, 0);
    asc_sub(p, ce_at(job, CE_HIT), top, 8);
    ASC_THEN();
    ce_scale(job, p, 8, e, n);
    asc_exp(e, e, n);
    asc_exp(p, p, 8);
    ASC_THEN();
    ce_set_lane_to(e, at, 0.0f);
    ASC_THEN();
    ASC_FOLD(asc_add, ce_at(job, CE_SUM), e, 1, n, 0);
    ASC_THEN();
}

/* ---- the row ---- */

/* TOP, OTHERS, and exp(HIT - TOP) in P, from the lanes; and what ce_results() needs of
 * row i of the batch. */
static inline __aicore__ void ce_join(const ce_job *job, const ce_row *row, int64_t i)
{
    __ubuf__ float *max = ce_at(job, CE_MAX), *sum = ce_at(job, CE_SUM);
    __ubuf__ float *value = ce_at(job, CE_VALUE), *top = ce_at(job, CE_TOP);
    __ubuf__ float *p = ce_at(job, CE_P);
    if (!job->whole) {
        asc_add(sum, sum, ce_at(job, CE_PART), ASC_LANES);
        asc_spread_max(top, value, max, 1);
        ASC_WITH_BLOCK(asc_sub, max, max, top, 1, ASC_LANES, 0);
        asc_sub(p, ce_at(job, CE_HIT), top, 8);
        ASC_THEN();
        ce_scale(job, p, 8, max, ASC_LANES);
        asc_exp(max, max, ASC_LANES);
        asc_exp(p, p, 8);
        ASC_THEN();
        asc_mul(sum, sum, max, ASC_LANES);
        ASC_THEN();
    }
    ce_set_lane(ce_at(job, CE_ROWS_TOP), i, top);
    ce_set_lane(ce_at(job, CE_ROWS_HIT), i, ce_at(job, CE_HIT));
    ce_set_lane_to(ce_at(job, CE_ROWS_WEIGHT), i, row->weight);
    asc_spread_sum(ce_at(job, CE_OTHERS), value, sum, 1);
    ce_set_lane(ce_at(job, CE_ROWS_OTHERS), i, ce_at(job, CE_OTHERS));
    if (job->smoothing != 0.0f)
        asc_repeat_reduce_sum(ce_at(job, CE_ROWS_WX) + i, ce_at(job, CE_WX), ASC_LANES);
    ASC_THEN();
}

#endif
