/* softmax_logp.h - sums of a row of logits relative to its largest, which stands apart from them:
 * what of softmax_logp is of no type; see softmax_logp.asc.c. f32.
 *
 * With d = (x - max) / temperature, a lane has of its elements so far: COUNT of those with exp(d)
 * = 1, and of all others REST, the sum of exp(d). So 1 is never added to what is small beside it,
 * wherever the largest class is. GAPS is the sum of d exp(d), SQUARES that of exp(2 d) without the
 * counted ones, WHOLE that of the logits. All are relative to the lane's own maximum before the
 * row's end. Of numbers of the row there are blocks, eight equal lanes. */
#ifndef SOFTMAX_LOGP_H
#define SOFTMAX_LOGP_H

#include "cross_entropy_best.h"
#include "shared/asc_row_tile.h"
#include "softmax_logp.args.h"

enum {
    LOGP_MAX,
    LOGP_OLD,
    LOGP_COUNT,
    LOGP_REST,
    LOGP_GAPS,
    LOGP_SQUARES,
    LOGP_WHOLE,
    LOGP_F,
    LOGP_ONE,
    LOGP_SCRATCH,
    LOGP_VALUE,
    /* blocks; OTHERS: the sum of exp(d) of all but one of the largest, TOTAL: of all, LOG its
       logarithm, GAP the mean of -d */
    LOGP_TOP,
    LOGP_OTHERS,
    LOGP_TOTAL,
    LOGP_LOG,
    LOGP_GAP,
    LOGP_SUM,
    LOGP_A,
    LOGP_B,
    /* of the named classes, a lane each */
    LOGP_X,
    LOGP_SLOPE,
    LOGP_D,
    LOGP_P,
    LOGP_Q,
    LOGP_U,
    LOGP_OWN,
    LOGP_OF_OTHERS,
    LOGP_AT, /* 4 of them: the gradients at the named classes, a block each */
    /* a lane a row */
    LOGP_ROWS = LOGP_AT + 4,
    LOGP_ROWS_LSE,
    LOGP_ROWS_ENTROPY,
    LOGP_ROWS_MEAN,
    LOGP_ROWS_SQUARES,
    LOGP_LANES
};

/* exp of it is 0; a product of both is as well. */
#define LOGP_FLOOR -150.0f

typedef struct logp_job {
    int64_t columns, ignore_index, start;
    __gm__ int64_t *ids;
    int64_t nids;                    /* the row's target is a name behind these */
    int64_t begin, count;            /* names that are looked at together */
    int slice, gaps, squares, whole; /* which sums are wanted */
    float softcap, scale;            /* scale: 1 / temperature */
    __ubuf__ float *lanes, *e, *t, *s, *wide;
} logp_job;

static inline __aicore__ __ubuf__ float *logp_at(const logp_job *job, int lanes)
{
    return job->lanes + lanes * ASC_LANES;
}

/* Where a class is among the row's, -1: in another slice. */
static inline __aicore__ int64_t logp_place(const logp_job *job, int64_t id)
{
    const int64_t place = id - job->start;
    return place >= 0 && place < job->columns ? place : -1;
}

/* u = 1 where e, from 0 to 1, is 1; else 0. */
static inline __aicore__ void logp_is_one(__ubuf__ float *u, __ubuf__ float *e, uint32_t n)
{
    asc_mul_scalar(u, e, 16777216.0f, n);
    ASC_THEN();
    asc_add_scalar(u, u, -16777215.0f, n);
    ASC_THEN();
    asc_max_scalar(u, u, 0.0f, n);
    ASC_THEN();
}

/* d = the difference d of logits over the temperature, no less than the floor. */
static inline __aicore__ void logp_distance(const logp_job *job, __ubuf__ float *d, uint32_t n)
{
    if (job->scale != 1.0f) {
        asc_mul_scalar(d, d, job->scale, n);
        ASC_THEN();
    }
    asc_max_scalar(d, d, LOGP_FLOOR, n);
    ASC_THEN();
}

static inline __aicore__ void logp_begin_row(const logp_job *job)
{
    asc_duplicate(logp_at(job, LOGP_MAX), ASC_LOWEST, ASC_LANES);
    for (int i = LOGP_COUNT; i <= LOGP_WHOLE; i++)
        asc_duplicate(logp_at(job, i), 0.0f, ASC_LANES);
    ASC_THEN();
}

/* Lanes that were relative to a maximum are to one that is OLD below it. */
static inline __aicore__ void logp_rebase(const logp_job *job)
{
    __ubuf__ float *d = logp_at(job, LOGP_OLD), *f = logp_at(job, LOGP_F);
    __ubuf__ float *one = logp_at(job, LOGP_ONE), *t = logp_at(job, LOGP_SCRATCH);
    __ubuf__ float *count = logp_at(job, LOGP_COUNT), *rest = logp_at(job, LOGP_REST);
    __ubuf__ float *gaps = logp_at(job, LOGP_GAPS), *squares = logp_at(job, LOGP_SQUARES);
    logp_distance(job, d, ASC_LANES);
    asc_exp(f, d, ASC_LANES);
    asc_add(t, rest, count, ASC_LANES);
    ASC_THEN();
    asc_mul(t, t, d, ASC_LANES);
    ASC_THEN();
    asc_add(gaps, gaps, t, ASC_LANES);
    logp_is_one(one, f, ASC_LANES);
    asc_mul(gaps, gaps, f, ASC_LANES);
    asc_mul(t, f, f, ASC_LANES);
    asc_mul(rest, rest, f, ASC_LANES);
    ASC_THEN();
    asc_mul(squares, squares, t, ASC_LANES);
    asc_sub(f, f, one, ASC_LANES);
    ASC_THEN();
    asc_sub(t, t, one, ASC_LANES);
    ASC_THEN();
    asc_mul(t, t, count, ASC_LANES);
    asc_mul(f, f, count, ASC_LANES);
    ASC_THEN();
    asc_mul(count, count, one, ASC_LANES);
    asc_add(squares, squares, t, ASC_LANES);
    asc_add(rest, rest, f, ASC_LANES);
    ASC_THEN();
}

/* The sums of a piece, after softcap. x may be job->e. */
static inline __aicore__ void logp_add_piece(const logp_job *job, __ubuf__ float *x, uint32_t n)
{
    __ubuf__ float *max = logp_at(job, LOGP_MAX), *old = logp_at(job, LOGP_OLD);
    __ubuf__ float *d = job->e, *e = job->t, *u = job->s;
    asc_copy((__ubuf__ uint32_t *)old, (__ubuf__ uint32_t *)max, ASC_LANES);
    ASC_THEN();
    ASC_FOLD(asc_max, max, x, 1, n, 0);
    ASC_THEN();
    asc_sub(old, old, max, ASC_LANES);
    ASC_WITH_LANES(asc_sub, d, x, max, n);
    ASC_THEN();
    logp_distance(job, d, n);
    logp_rebase(job);
    asc_exp(e, d, n);
    ASC_THEN();
    logp_is_one(u, e, n);
    asc_sub(e, e, u, n);
    ASC_FOLD(asc_add, logp_at(job, LOGP_COUNT), u, 1, n, 0);
    ASC_THEN();
    ASC_FOLD(asc_add, logp_at(job, LOGP_REST), e, 1, n, 0);
    if (job->gaps)
        asc_mul(d, d, e, n);
    if (job->squares)
        asc_mul(u, e, e, n);
    ASC_THEN();
    if (job->gaps)
        ASC_FOLD(asc_add, logp_at(job, LOGP_GAPS), d, 1, n, 0);
    if (job->squares)
        ASC_FOLD(asc_add, logp_at(job, LOGP_SQUARES), u, 1, n, 0);
    ASC_THEN();
}

/* y = log(1 + x), without the digits that 1 + x loses; w: scratch. Blocks. */
static inline __aicore__ void logp_log1p(__ubuf__ float *y, __ubuf__ float *x, __ubuf__ float *w)
{
    asc_add_scalar(w, x, 1.0f, 8);
    ASC_THEN();
    asc_log(y, w, 8);
    ASC_THEN();
    asc_add_scalar(w, w, -1.0f, 8);
    asc_add_scalar(y, y, CE_TINY, 8);
    ASC_THEN();
    asc_add_scalar(w, w, CE_TINY, 8);
    ASC_THEN();
    asc_mul(y, y, x, 8);
    ASC_THEN();
    asc_div(y, y, w, 8);
    ASC_THEN();
}

/* OTHERS, TOTAL, LOG and GAP from the lanes. */
static inline __aicore__ void logp_join(const logp_job *job)
{
    __ubuf__ float *max = logp_at(job, LOGP_MAX), *top = logp_at(job, LOGP_TOP);
    __ubuf__ float *value = logp_at(job, LOGP_VALUE), *others = logp_at(job, LOGP_OTHERS);
    __ubuf__ float *total = logp_at(job, LOGP_TOTAL), *sum = logp_at(job, LOGP_SUM);
    __ubuf__ float *gap = logp_at(job, LOGP_GAP);
    asc_spread_max(top, value, max, 1);
    ASC_WITH_BLOCK(asc_sub, logp_at(job, LOGP_OLD), max, top, 1, ASC_LANES, 0);
    ASC_THEN();
    logp_rebase(job);
    asc_spread_sum(sum, value, logp_at(job, LOGP_COUNT), 1);
    asc_spread_sum(others, value, logp_at(job, LOGP_REST), 1);
    asc_spread_sum(gap, value, logp_at(job, LOGP_GAPS), 1);
    asc_add_scalar(sum, sum, -1.0f, 8);
    ASC_THEN();
    asc_add(others, others, sum, 8);
    asc_mul_scalar(gap, gap, -1.0f, 8);
    ASC_THEN();
    asc_add_scalar(total, others, 1.0f, 8);
    logp_log1p(logp_at(job, LOGP_LOG), others, logp_at(job, LOGP_A));
    asc_div(gap, gap, total, 8);
    ASC_THEN();
}

/* A result of row i of the batch: a block. */
static inline __aicore__ void logp_put(const logp_job *job, int rows, int64_t i,
                                       __ubuf__ float *block)
{
    ce_set_lane(logp_at(job, rows), i, block);
    ASC_THEN();
}

#endif
