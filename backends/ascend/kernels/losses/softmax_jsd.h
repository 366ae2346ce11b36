/* softmax_jsd.h - what of softmax_jsd's rows in pieces is of no type; see softmax_jsd.asc.c. */
#ifndef SOFTMAX_JSD_H
#define SOFTMAX_JSD_H

#include "mixture_middle.h"
#include "shared/asc_any.h"
#include "shared/asc_ring.h"
#include "shared/exponentials.h"
#include "softmax_jsd.args.h"

/* Numbers of a row, 64 lanes each. Of student and teacher: MAX and SUM of exponentials, lane by
 * lane; TOP and LOG, blocks of the maximum and of the logarithm of the sum. BEST: of the
 * teacher. MASS: the sum of the student's probabilities, which a mean of slopes is divided by.
 * LOSS: of all rows. */
enum {
    SJSD_MAX,
    SJSD_SUM,
    SJSD_TOP,
    SJSD_LOG,
    SJSD_TEACHER, /* as many for the teacher */
    SJSD_OLD = 2 * SJSD_TEACHER,
    SJSD_VALUE,
    SJSD_BEST,
    SJSD_SLOPE,
    SJSD_MIDDLE,
    SJSD_MEAN,
    SJSD_BLOCKS, /* scratch: six */
    SJSD_LOSS = SJSD_BLOCKS + 6,
    SJSD_PART = SOFTMAX_JSD_LANES - 1,
    SJSD_MASS = SJSD_OLD
};

typedef struct sjsd_job {
    int64_t kind;
    int near; /* teacher hardly knows the likeliest class: slopes are given less -log(1 - beta) */
    float scale, factor, beta, rest, odds, log_rest;
    __ubuf__ float *u, *v, *t, *a, *b, *c, *lanes;
} sjsd_job;

static inline __aicore__ __ubuf__ float *sjsd_at(const sjsd_job *job, int lanes)
{
    return job->lanes + lanes * ASC_LANES;
}

/* x = (x - TOP) scale - LOG, of the student or of the teacher. */
static inline __aicore__ void sjsd_log_softmax(const sjsd_job *job, __ubuf__ float *x, int of,
                                               uint32_t n)
{
    ASC_WITH_BLOCK(asc_sub, x, x, sjsd_at(job, of + SJSD_TOP), 1, n, 0);
    ASC_THEN();
    if (job->scale != 1.0f) {
        asc_mul_scalar(x, x, job->scale, n);
        ASC_THEN();
    }
    ASC_WITH_BLOCK(asc_sub, x, x, sjsd_at(job, of + SJSD_LOG), 1, n, 0);
    ASC_THEN();
}

/* Slopes of a mixture in a, from logarithms u and v, which are limited: -log(1 + beta (exp(D) -
 * 1)), D = v - u, or less -log(1 - beta) -log(1 + odds exp(D)). b, c, t: scratch. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ void sjsd_mixture_slopes(const sjsd_job *job, __ubuf__ float *u,
                                                  __ubuf__ float *v, __ubuf__ float *a,
                                                  __ubuf__ float *b, __ubuf__ float *c,
                                                  __ubuf__ float *t, uint32_t n)
{
    jsd_difference(a, b, u, v, JSD_FAR - 17.0f, n); /* odds are up to 2^24 */
    if (job->near) {
        asc_mul_scalar(t, b, job->odds, n);
        ASC_THEN();
        asc_add_scalar(b, t, 1.0f, n);
    } else {
        jsd_expm1(t, a, b, c, n);
        asc_mul_scalar(t, t, job->beta, n);
        asc_mul_scalar(b, b, job->beta, n);
        ASC_THEN();
        asc_add_scalar(b, b, job->rest, n);
    }
    ASC_THEN();
    jsd_log1p(t, b, c, n);
    ASC_THEN();
    asc_mul_scalar(a, t, -1.0f, n);
}

/* The student's probabilities in b, slopes in a; of beta 0, which has none, both probabilities'
 * difference in a. Used up: t, c, and for beta 1 u and v. */
static inline __aicore__ void sjsd_slopes(const sjsd_job *job, __ubuf__ float *u, __ubuf__ float *v,
                                          __ubuf__ float *a, __ubuf__ float *b, __ubuf__ float *c,
                                          __ubuf__ float *t, uint32_t n)
{
    if (job->kind == SOFTMAX_JSD_REVERSE) {
        divergence_of_logs(t, b, u, v, a, 1.0f, 1, n);
    } else if (job->kind == SOFTMAX_JSD_MIXTURE) {
        sjsd_mixture_slopes(job, u, v, a, b, c, t, n);
        asc_exp(b, u, n);
    } else {
        asc_exp(a, u, n);
        asc_exp(b, v, n);
        ASC_THEN();
        asc_sub(a, a, b, n);
    }
    ASC_THEN();
}

/* BEST, lane by lane: the largest of the teacher's logits v where the student's u
 * is at its maximum. */
static inline __aicore__ void sjsd_best(const sjsd_job *job, uint32_t n)
{
    ASC_WITH_BLOCK(asc_sub, job->u, job->u, sjsd_at(job, SJSD_TOP), 1, n, 0);
    ASC_THEN();
    asc_mul_scalar(job->u, job->u, -ASC_LOWEST, n); /* 0, or as good as -inf */
    ASC_THEN();
    asc_mul_scalar(job->u, job->u, -ASC_LOWEST, n);
    ASC_THEN();
    asc_add(job->u, job->u, job->v, n);
    ASC_THEN();
    ASC_FOLD(asc_max, sjsd_at(job, SJSD_BEST), job->u, 1, n, 0);
    ASC_THEN();
}

/* MIDDLE: the slope of the student's likeliest class; MASS is 0. Of a mixture's row without a
 * likely class it is 0, or -log(1 - beta) where the teacher knows more than the student and so
 * hardly most of the classes: those of nearly all classes lie there, and the likeliest's may be far
 * from them. */
static inline __aicore__ void sjsd_set_middle(sjsd_job *job)
{
    __ubuf__ float *scratch = sjsd_at(job, SJSD_BLOCKS), *middle = sjsd_at(job, SJSD_MIDDLE);
    __ubuf__ float *u = scratch, *v = scratch + ASC_LANES, *b = scratch + 2 * ASC_LANES;
    __ubuf__ float *c = scratch + 3 * ASC_LANES, *t = scratch + 4 * ASC_LANES;
    asc_duplicate(sjsd_at(job, SJSD_MASS), 0.0f, ASC_LANES);
    for (job->near = 0;; job->near = 1) {
        asc_add_scalar(u, sjsd_at(job, SJSD_TOP), 0.0f, 8);
        asc_spread_max(v, sjsd_at(job, SJSD_VALUE), sjsd_at(job, SJSD_BEST), 1);
        sjsd_log_softmax(job, u, 0, 8);
        sjsd_log_softmax(job, v, SJSD_TEACHER, 8);
        sjsd_slopes(job, u, v, middle, b, c, t, 8);
        if (job->kind != SOFTMAX_JSD_MIXTURE || job->near)
            return;
        asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
        const float slope = middle[0], log = sjsd_at(job, SJSD_LOG)[0];
        const float teacher_log = sjsd_at(job, SJSD_TEACHER + SJSD_LOG)[0];
        asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);
        if (log > 0.5f) {
            job->near = teacher_log < log - 1.0f;
            asc_duplicate(middle, 0.0f, 8);
            ASC_THEN();
            return;
        }
        if (!(slope > -0.5f * job->log_rest))
            return;
    }
}

/* SLOPE += b (a - MIDDLE), MASS += b; a is used up. */
static inline __aicore__ void sjsd_add_slopes(const sjsd_job *job, uint32_t n)
{
    ASC_WITH_BLOCK(asc_sub, job->a, job->a, sjsd_at(job, SJSD_MIDDLE), 1, n, 0);
    ASC_THEN();
    asc_mul(job->a, job->a, job->b, n);
    ASC_THEN();
    ASC_FOLD(asc_add, sjsd_at(job, SJSD_SLOPE), job->a, 1, n, 0);
    ASC_FOLD(asc_add, sjsd_at(job, SJSD_MASS), job->b, 1, n, 0);
    ASC_THEN();
}

/* MEAN of the slopes. The probabilities of a row share the rounding of their logarithms, and so
 * does their sum: in the quotient it is gone. Where nearly all slopes lie near the mean, but far
 * from MIDDLE, it would be large beside what is left of them. */
static inline __aicore__ void sjsd_set_mean(const sjsd_job *job)
{
    __ubuf__ float *mean = sjsd_at(job, SJSD_MEAN), *mass = sjsd_at(job, SJSD_BLOCKS);
    asc_spread_sum(mean, sjsd_at(job, SJSD_VALUE), sjsd_at(job, SJSD_SLOPE), 1);
    asc_spread_sum(mass, sjsd_at(job, SJSD_VALUE), sjsd_at(job, SJSD_MASS), 1);
    asc_div(mean, mean, mass, 8);
    ASC_THEN();
}

/* LOSS += the terms of a piece whose logarithms are u and v, which are used up; in t
 * if `there` already. */
static inline __aicore__ void sjsd_add_loss(const sjsd_job *job, int there, uint32_t n)
{
    if (job->kind == SOFTMAX_JSD_MIXTURE && jsd_is_middle(job->beta)) {
        jsd_middle_terms(job->t, job->u, job->v, job->a, job->b, job->c, job->beta, job->rest, n);
        ASC_THEN();
        asc_mul_scalar(job->t, job->t, -1.0f, n);
    } else if (job->kind == SOFTMAX_JSD_MIXTURE)
        jsd_mixture(job->t, 0, job->u, job->v, job->a, job->b, job->c, 0.0f, job->beta, job->rest,
                    n);
    else if (job->kind == SOFTMAX_JSD_FORWARD)
        divergence_of_logs(job->t, 0, job->v, job->u, job->a, 0.0f, 1, n);
    else if (!there)
        divergence_of_logs(job->t, 0, job->u, job->v, job->a, 0.0f, 1, n);
    ASC_THEN();
    ASC_FOLD(asc_add, sjsd_at(job, SJSD_LOSS), job->t, 1, n, 0);
}

/* a = the gradient of a piece whose logarithms are u and v. */
static inline __aicore__ void sjsd_gradient(const sjsd_job *job, uint32_t n)
{
    sjsd_slopes(job, job->u, job->v, job->a, job->b, job->c, job->t, n);
    if (job->kind != SOFTMAX_JSD_FORWARD) {
        ASC_WITH_BLOCK(asc_sub, job->a, job->a, sjsd_at(job, SJSD_MIDDLE), 1, n, 0);
        ASC_THEN();
        ASC_WITH_BLOCK(asc_sub, job->a, job->a, sjsd_at(job, SJSD_MEAN), 1, n, 0);
        ASC_THEN();
        asc_mul(job->a, job->a, job->b, n);
        ASC_THEN();
    }
    asc_mul_scalar(job->a, job->a, job->factor, n);
    ASC_THEN();
}

/* Before a row, and after its first pass; ASC_THEN() is left to what reads the next piece. */
static inline __aicore__ void sjsd_begin_row(const sjsd_job *job)
{
    for (int of = 0; of <= SJSD_TEACHER; of += SJSD_TEACHER) {
        asc_duplicate(sjsd_at(job, of + SJSD_MAX), ASC_LOWEST, ASC_LANES);
        asc_duplicate(sjsd_at(job, of + SJSD_SUM), 0.0f, ASC_LANES);
    }
    asc_duplicate(sjsd_at(job, SJSD_BEST), ASC_LOWEST, ASC_LANES);
    asc_duplicate(sjsd_at(job, SJSD_SLOPE), 0.0f, ASC_LANES);
}

static inline __aicore__ void sjsd_join(const sjsd_job *job)
{
    for (int of = 0; of <= SJSD_TEACHER; of += SJSD_TEACHER) {
        __ubuf__ float *log = sjsd_at(job, of + SJSD_LOG);
        exponentials_join(sjsd_at(job, of + SJSD_TOP), log, sjsd_at(job, SJSD_VALUE),
                          sjsd_at(job, of + SJSD_MAX), sjsd_at(job, of + SJSD_SUM), job->scale);
        asc_log(log, log, 8);
    }
}

#endif
