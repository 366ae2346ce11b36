/* cross_entropy_row.h - arithmetic of cross_entropy on pieces of a row, on one row, and on the results of 64 rows. f32.
 *
 * A block of UB, `lanes`, holds what a row needs beside its pieces: buffers of 64 floats by the names below.
 * What is one number for the row lies there as eight equal lanes ("block"), so that V computes with it and the
 * scalar unit waits for nothing. */
#ifndef CROSS_ENTROPY_ROW_H
#define CROSS_ENTROPY_ROW_H

#include "asc_ring.h"
#include "asc_rows.h"

/* MAX, SUM, WX: lane by lane, of the pieces so far; SUM leaves out the target. Blocks: HIT the target's logit, TOP the row's
 * maximum, OTHERS its SUM; TOTAL ... BIAS see ce_factors(). The rest: a lane a row, for ce_results(). */
enum {
    CE_MAX,
    CE_SUM,
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
enum { CE_BATCH = ASC_LANES }; /* rows whose results wait */

/* flags: what the host asks for */
enum {
    CE_MEAN = 1,     /* divide by the counts */
    CE_EACH = 2,     /* one dloss a row */
    CE_TOKEN = 4,    /* token_scaling */
    CE_ARGMAX = 8,   /* accuracy or predicted is wanted */
    CE_SAVED = 16,   /* backward: lse is given */
    CE_COUNTED = 32, /* the counts n and D are there */
    CE_CLASSES = 64  /* and W; else it is the number of classes */
};

/* A quotient of two small differences: 0 / 0 must be 1, and anything else must not notice. */
#define CE_TINY 1e-20f

typedef struct ce_job {
    int64_t flags, ignore_index, columns;
    float smoothing, z, softcap;
    float per_ce, per_z, class_weights; /* 1/D, 1/n, W: see src/ops/cross_entropy */
    __ubuf__ float *lanes, *e, *t, *s;  /* e, t, s: scratch of a piece */
} ce_job;

/* dlogits_i = (FACTOR exp(x_i - TOP) - bias w_i) slope_i, factors of the row without token scaling. */
typedef struct ce_row {
    int64_t target;
    float weight, hit, smooth, z, bias, lse;
} ce_row;

static inline __aicore__ __ubuf__ float *ce_at(const ce_job *job, int lanes)
{
    return job->lanes + lanes * ASC_LANES;
}

/* x = c tanh(r / c) with c tanh u = c (E - 1) / (E + 1), E = exp(2u); E - 1 as (E - 1) 2u / log E, which keeps the digits
 * of a small u; slope, if wanted, in t: 1 - tanh^2 = 4 E / (E + 1)^2. x may be r; t, s: scratch. */
static inline __aicore__ void ce_cap(__ubuf__ float *x, __ubuf__ float *t, __ubuf__ float *s,
                                     __ubuf__ float *r, float softcap, int slope, uint32_t n)
{
    asc_mul_scalar(x, r, 2.0f / softcap, n);
    ASC_THEN();
    asc_min_scalar(x, x, 80.0f, n);
    ASC_THEN();
    asc_max_scalar(x, x, -80.0f, n);
    ASC_THEN();
    asc_exp(t, x, n);
    ASC_THEN();
    asc_add_scalar(s, t, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(s, s, CE_TINY, n);
    ASC_THEN();
    asc_mul(s, s, x, n);
    ASC_THEN();
    asc_log(x, t, n);
    ASC_THEN();
    asc_add_scalar(x, x, CE_TINY, n);
    ASC_THEN();
    asc_div(s, s, x, n);
    ASC_THEN();
    asc_add_scalar(x, t, 1.0f, n);
    ASC_THEN();
    asc_div(s, s, x, n);
    if (slope) {
        asc_div(t, t, x, n);
        ASC_THEN();
        asc_div(t, t, x, n);
        ASC_THEN();
        asc_mul_scalar(t, t, 4.0f, n);
    }
    ASC_THEN();
    asc_mul_scalar(x, s, softcap, n);
    ASC_THEN();
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

/* ---- the first pass ---- */

/* The sum of w x: of x without w. A class of weight 0 adds nothing, even if its logit is -inf: x is limited from
 * below by 0 for it, by -inf for the others. */
static inline __aicore__ void ce_add_weighted(const ce_job *job, __ubuf__ float *x,
                                              __ubuf__ float *w, uint32_t n)
{
    __ubuf__ float *t = job->t;
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

/* at: the target's place in the piece, if 0 <= at < n. x may be job->e. */
static inline __aicore__ void ce_add_piece(const ce_job *job, __ubuf__ float *x, int64_t at,
                                           uint32_t n)
{
    __ubuf__ float *e = job->e, *max = ce_at(job, CE_MAX), *sum = ce_at(job, CE_SUM);
    __ubuf__ float *old = ce_at(job, CE_OLD);
    asc_copy((__ubuf__ uint32_t *)old, (__ubuf__ uint32_t *)max, ASC_LANES);
    ASC_THEN();
    ASC_FOLD(asc_max, max, x, 1, n, 0);
    ASC_THEN();
    asc_sub(old, old, max, ASC_LANES);
    ASC_WITH_LANES(asc_sub, e, x, max, n);
    ASC_THEN();
    asc_exp(old, old, ASC_LANES);
    asc_exp(e, e, n);
    ASC_THEN();
    asc_mul(sum, sum, old, ASC_LANES);
    if (at >= 0 && at < n)
        ce_set_lane_to(e, at, 0.0f);
    ASC_THEN();
    ASC_FOLD(asc_add, sum, e, 1, n, 0);
    ASC_THEN();
}

/* The first largest of a piece that has a NaN, which is never the largest: on the scalar unit, for it is rare. */
static inline __aicore__ int64_t ce_best_by_scalar(__ubuf__ float *x, uint32_t n, float *best)
{
    int64_t at = -1;
    for (uint32_t i = 0; i < n; i++) {
        const float value = x[i];
        if (value > *best || (at < 0 && value == *best)) {
            *best = value;
            at = i;
        }
    }
    asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);
    return at;
}

/* Whether the largest of this piece is above *best, and where it is. pairs: scratch. */
static inline __aicore__ int64_t ce_best(__ubuf__ float *x, __ubuf__ float *pairs, uint32_t n,
                                         int first, float *best)
{
    float value;
    uint32_t index;
    asc_repeat_reduce_max_value_index(pairs, x, n);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
    asc_get_reduce_max_cnt(value, index);
    if (value != value)
        return ce_best_by_scalar(x, n, best);
    if (!first && !(value > *best))
        return -1;
    *best = value;
    return index;
}

/* TOP and OTHERS from the lanes, and what ce_results() needs of row i of the batch. */
static inline __aicore__ void ce_join(const ce_job *job, const ce_row *row, int64_t i)
{
    __ubuf__ float *max = ce_at(job, CE_MAX), *sum = ce_at(job, CE_SUM);
    __ubuf__ float *value = ce_at(job, CE_VALUE), *top = ce_at(job, CE_TOP);
    asc_spread_max(top, value, max, 1);
    ASC_WITH_BLOCK(asc_sub, max, max, top, 1, ASC_LANES, 0);
    ce_set_lane(ce_at(job, CE_ROWS_TOP), i, top);
    ce_set_lane(ce_at(job, CE_ROWS_HIT), i, ce_at(job, CE_HIT));
    ce_set_lane_to(ce_at(job, CE_ROWS_WEIGHT), i, row->weight);
    ASC_THEN();
    asc_exp(max, max, ASC_LANES);
    ASC_THEN();
    asc_mul(sum, sum, max, ASC_LANES);
    ASC_THEN();
    asc_spread_sum(ce_at(job, CE_OTHERS), value, sum, 1);
    ce_set_lane(ce_at(job, CE_ROWS_OTHERS), i, ce_at(job, CE_OTHERS));
    if (job->smoothing != 0.0f)
        asc_repeat_reduce_sum(ce_at(job, CE_ROWS_WX) + i, ce_at(job, CE_WX), ASC_LANES);
    ASC_THEN();
}

/* ---- the gradient ---- */

/* P = exp(HIT - TOP) / TOTAL, Q = 1 - P without a difference, REST = smooth + z lse; TOTAL = OTHERS + exp(HIT - TOP). */
static inline __aicore__ void ce_shares(const ce_job *job, const ce_row *row)
{
    __ubuf__ float *p = ce_at(job, CE_P), *q = ce_at(job, CE_Q), *rest = ce_at(job, CE_REST);
    __ubuf__ float *total = ce_at(job, CE_TOTAL), *top = ce_at(job, CE_TOP);
    asc_sub(p, ce_at(job, CE_HIT), top, 8);
    ASC_THEN();
    asc_exp(p, p, 8);
    asc_duplicate(rest, row->smooth, 8);
    ASC_THEN();
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
        ASC_THEN();
        asc_add_scalar(rest, rest, row->smooth, 8);
    }
    ASC_THEN();
}

/* The same from a saved lse: TOP = lse, TOTAL = 1, Q = -(E - 1), E = exp(d), by (E - 1) d / log E. */
static inline __aicore__ void ce_shares_saved(const ce_job *job, const ce_row *row)
{
    __ubuf__ float *p = ce_at(job, CE_P), *q = ce_at(job, CE_Q), *d = ce_at(job, CE_OLD);
    __ubuf__ float *top = ce_at(job, CE_TOP), *e = ce_at(job, CE_VALUE);
    asc_duplicate(top, row->lse, 8);
    asc_duplicate(ce_at(job, CE_TOTAL), 1.0f, 8);
    asc_duplicate(ce_at(job, CE_REST), row->smooth + row->z * row->lse, 8);
    ASC_THEN();
    asc_sub(d, ce_at(job, CE_HIT), top, 8);
    ASC_THEN();
    asc_exp(p, d, 8);
    ASC_THEN();
    asc_max_scalar(d, d, -30.0f, 8);
    ASC_THEN();
    asc_exp(e, d, 8);
    ASC_THEN();
    asc_add_scalar(q, e, -1.0f, 8);
    ASC_THEN();
    asc_log(e, e, 8);
    ASC_THEN();
    asc_add_scalar(q, q, CE_TINY, 8);
    asc_add_scalar(e, e, CE_TINY, 8);
    asc_mul_scalar(d, d, -1.0f, 8);
    ASC_THEN();
    asc_mul(q, q, d, 8);
    ASC_THEN();
    asc_div(q, q, e, 8);
    ASC_THEN();
}

/* FACTOR, BIAS, and AT_TARGET, the target's whole gradient: (REST P - hit Q - bias w) slope. */
static inline __aicore__ void ce_factors(const ce_job *job, const ce_row *row)
{
    __ubuf__ float *factor = ce_at(job, CE_FACTOR), *rest = ce_at(job, CE_REST);
    __ubuf__ float *target = ce_at(job, CE_AT_TARGET), *q = ce_at(job, CE_Q);
    __ubuf__ float *bias = ce_at(job, CE_BIAS), *p = ce_at(job, CE_P);
    asc_add_scalar(factor, rest, row->hit, 8);
    asc_mul(target, rest, p, 8);
    asc_mul_scalar(q, q, row->hit, 8);
    asc_duplicate(bias, row->bias, 8);
    ASC_THEN();
    asc_div(factor, factor, ce_at(job, CE_TOTAL), 8);
    asc_sub(target, target, q, 8);
    ASC_THEN();
    asc_add_scalar(target, target, -row->bias * row->weight, 8);
    ASC_THEN();
    if (job->flags & CE_TOKEN) {
        asc_mul(factor, factor, p, 8);
        asc_mul(target, target, p, 8);
        asc_mul(bias, bias, p, 8);
        ASC_THEN();
    }
    if (job->softcap > 0.0f) {
        asc_mul(target, target, ce_at(job, CE_HIT_SLOPE), 8);
        ASC_THEN();
    }
}

/* dx = (FACTOR exp(x - TOP) - BIAS w) slope: w 0 for ones, slope 0 for none. a: f32 to work in; a, dx and x may be one. */
static inline __aicore__ void ce_gradient(const ce_job *job, __ubuf__ float *dx, __ubuf__ float *a,
                                          __ubuf__ float *x, __ubuf__ float *w,
                                          __ubuf__ float *product, __ubuf__ float *slope,
                                          int64_t at, uint32_t n)
{
    ASC_WITH_BLOCK(asc_sub, a, x, ce_at(job, CE_TOP), 1, n, 0);
    ASC_THEN();
    asc_exp(a, a, n);
    ASC_THEN();
    ASC_WITH_BLOCK(asc_mul, a, a, ce_at(job, CE_FACTOR), 1, n, 0);
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

/* ---- the results of a batch ---- */

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
