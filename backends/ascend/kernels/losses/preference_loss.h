/* preference_loss.h - what the losses of preferences are made of, a lane a loss, in f32 on V. Every
 * function here ends with ASC_THEN(). */
#ifndef PREFERENCE_LOSS_H
#define PREFERENCE_LOSS_H

#include "preference_loss.args.h"
#include "shared/asc_any.h"
#include "shared/asc_rows.h"

/* A quotient of two small numbers: 0 / 0 must be 1, and anything else must not notice. */
#define PREFERENCE_TINY 1e-20f
/* -2^-24: a sequence that is certain has no finite odds, and counts as nearly so. */
#define PREFERENCE_CERTAIN (-5.9604644775390625e-8f)

/* a and b: log-probabilities less the reference's; x: the margin. */
typedef struct preference {
    int64_t formula;
    uint32_t n;
    float beta, gamma, p, q, r;
    __ubuf__ float *a, *b, *kl, *sign, *loss, *x, *by_a, *by_b;
    __ubuf__ float *t[4], *s0, *s1; /* scratch: of formulas, and of the functions below */
} preference;

/* y = factor x */
static inline __aicore__ void preference_scale(__ubuf__ float *y, __ubuf__ float *x, float factor,
                                               uint32_t n)
{
    asc_mul_scalar(y, x, factor, n);
    ASC_THEN();
}

/* y = x + c */
static inline __aicore__ void preference_shift(__ubuf__ float *y, __ubuf__ float *x, float c,
                                               uint32_t n)
{
    asc_add_scalar(y, x, c, n);
    ASC_THEN();
}

/* y += factor x */
static inline __aicore__ void preference_add(__ubuf__ float *y, __ubuf__ float *x, float factor,
                                             uint32_t n)
{
    asc_axpy(y, x, factor, n);
    ASC_THEN();
}

static inline __aicore__ void preference_times(__ubuf__ float *y, __ubuf__ float *x, uint32_t n)
{
    asc_mul(y, y, x, n);
    ASC_THEN();
}

/* y = 1 where x is above 0, however little, else 0 */
static inline __aicore__ void preference_positive(__ubuf__ float *y, __ubuf__ float *x, uint32_t n)
{
    asc_max_scalar(y, x, 0.0f, n);
    ASC_THEN();
    preference_scale(y, y, -ASC_LOWEST, n);
    preference_scale(y, y, -ASC_LOWEST, n);
    asc_min_scalar(y, y, 1.0f, n);
    ASC_THEN();
}

/* y = s(k x), k 1 or -1 or another factor; y is not x. */
static inline __aicore__ void preference_logistic(const preference *j, __ubuf__ float *y,
                                                  __ubuf__ float *x, float k)
{
    asc_duplicate(j->s0, 1.0f, j->n);
    preference_scale(y, x, -k, j->n);
    asc_exp(y, y, j->n);
    ASC_THEN();
    preference_shift(y, y, 1.0f, j->n);
    asc_div(y, j->s0, y, j->n);
    ASC_THEN();
}

/* y = s(k x) s(-k x) */
static inline __aicore__ void preference_slope(const preference *j, __ubuf__ float *y,
                                               __ubuf__ float *x, float k)
{
    preference_logistic(j, j->s1, x, k);
    preference_logistic(j, y, x, -k);
    preference_times(y, j->s1, j->n);
}

/* y = ln(1 + e), e at least 0 and at most 1, or at least -1/2: ln u e / (u - 1), u = 1 + e, keeps
 * the digits of a small one. y, e and scratch are apart. */
static inline __aicore__ void preference_log1p(__ubuf__ float *y, __ubuf__ float *e,
                                               __ubuf__ float *scratch, uint32_t n)
{
    preference_shift(scratch, e, 1.0f, n);
    asc_log(y, scratch, n);
    ASC_THEN();
    preference_shift(scratch, scratch, -1.0f, n);
    asc_add_scalar(y, y, PREFERENCE_TINY, n);
    preference_shift(scratch, scratch, PREFERENCE_TINY, n);
    asc_div(y, y, scratch, n);
    ASC_THEN();
    preference_times(y, e, n);
}

/* y = ln s(k x) = min(k x, 0) - ln(1 + exp(-|k x|)); y is not x. */
static inline __aicore__ void preference_log_logistic(const preference *j, __ubuf__ float *y,
                                                      __ubuf__ float *x, float k)
{
    asc_abs(j->s0, x, j->n);
    ASC_THEN();
    preference_scale(j->s0, j->s0, k < 0.0f ? k : -k, j->n);
    asc_exp(j->s0, j->s0, j->n);
    ASC_THEN();
    preference_log1p(y, j->s0, j->s1, j->n);
    preference_scale(j->s0, x, k, j->n);
    asc_min_scalar(j->s0, j->s0, 0.0f, j->n);
    ASC_THEN();
    asc_sub(y, j->s0, y, j->n);
    ASC_THEN();
}

/* y = exp(c) - 1, c at most 0: (E - 1) c / ln E, E = exp(c), with c from -30 on, below which it is
 * -1. */
static inline __aicore__ void preference_expm1(const preference *j, __ubuf__ float *y,
                                               __ubuf__ float *c)
{
    asc_max_scalar(j->s1, c, -30.0f, j->n);
    ASC_THEN();
    asc_exp(y, j->s1, j->n);
    ASC_THEN();
    asc_log(j->s0, y, j->n);
    ASC_THEN();
    preference_shift(y, y, -1.0f, j->n);
    asc_add_scalar(y, y, PREFERENCE_TINY, j->n);
    preference_shift(j->s0, j->s0, PREFERENCE_TINY, j->n);
    preference_times(y, j->s1, j->n);
    asc_div(y, y, j->s0, j->n);
    ASC_THEN();
}

#endif
