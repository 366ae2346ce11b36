/* grpo_loss.h - what the kernels of grpo_loss share: a call, numbers of a sequence,
 * pieces of tokens. f32. */
#ifndef GRPO_LOSS_H
#define GRPO_LOSS_H

#include "grpo_loss.args.h"
#include "terms.h"

/* A quotient of two small differences: 0 / 0 must be 1, and anything else must not notice. */
#define GRPO_TINY 1e-20f
#define GRPO_MOST 3.4028234664e38f      /* the largest number */
#define GRPO_MOST_LOG 20.0f             /* to which logarithms of ratios are limited in phi */
#define GRPO_LEAST_LOG (-18.420680744f) /* log 1e-8 */

/* A call. */
typedef struct grpo_job {
    int64_t policy, flags;
    int forward, has_old, has_ref;
    float beta, low, high, delta, pos, neg, lambda_pos, lambda_neg;
    float upstream; /* of all tokens */
    __ubuf__ float *logp, *old, *ref, *ratio, *each_upstream, *rho, *loss, *kl, *clipped, *direct,
        *by_rho, *a, *b;
    __ubuf__ int32_t *kept;  /* all bits, or none */
    __ubuf__ int32_t *rated; /* the same of tokens that the ratio is made of; may be kept */
    __ubuf__ float *lanes, *value;
} grpo_job;

/* What the tokens of a sequence have in common: see there. */
typedef struct grpo_sequence {
    float advantage, kept, rho, phi, weight;
    float rated; /* tokens that rho is made of */
    float ratio; /* 1 if each token has its own */
} grpo_sequence;

/* Sums over a sequence, and over all that a block has: lanes of them. */
enum { GRPO_KEPT, GRPO_MOVED, GRPO_SHARED, GRPO_LOSS, GRPO_KL, GRPO_CLIPPED, GRPO_RATED };

static inline __aicore__ __ubuf__ float *grpo_lanes(const grpo_job *job, int which)
{
    return job->lanes + which * ASC_LANES;
}

/* ---- numbers of a sequence, on the scalar unit ---- */

static inline __aicore__ float grpo_take(const grpo_job *job)
{
    asc_sync();
    const float value = job->value[0];
    asc_sync();
    return value;
}

static inline __aicore__ float grpo_sum(const grpo_job *job, int which)
{
    ASC_THEN();
    asc_repeat_reduce_sum(job->value, grpo_lanes(job, which), ASC_LANES);
    return grpo_take(job);
}

/* As the square of that of the half, which is not flushed to 0 where it is subnormal. */
static inline __aicore__ float grpo_exp(const grpo_job *job, float x)
{
    asc_duplicate(job->value, 0.5f * x, 8);
    ASC_THEN();
    asc_exp(job->value, job->value, 8);
    const float root = grpo_take(job);
    return root * root;
}

static inline __aicore__ float grpo_log(const grpo_job *job, float x)
{
    asc_duplicate(job->value, x, 8);
    ASC_THEN();
    asc_log(job->value, job->value, 8);
    return grpo_take(job);
}

/* Comparisons are such that NaN is carried. */
static inline __aicore__ float grpo_clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static inline __aicore__ float grpo_at_least_1(float n)
{
    return n < 1.0f ? 1.0f : n;
}

static inline __aicore__ float grpo_phi(const grpo_job *job, float advantage, float log_ratio)
{
    const float k = advantage >= 0.0f ? job->pos : job->neg;
    const float given = advantage >= 0.0f ? job->lambda_pos : job->lambda_neg;
    const float lambda = given < 1e-4f ? 1e-4f : given;
    const float w = grpo_clamp(log_ratio, GRPO_LEAST_LOG, GRPO_MOST_LOG);
    const float phi = grpo_exp(job, lambda + k * w - lambda * grpo_exp(job, w));
    return phi > 3.402823466e+38f ? 0.0f : phi;
}

/* ---- pieces ---- */

/* What left-out tokens have becomes 0, NaN too. */
static inline __aicore__ void grpo_keep(__ubuf__ float *x, __ubuf__ int32_t *kept, uint32_t n)
{
    asc_and((__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)x, (__ubuf__ uint16_t *)kept, 2 * n);
}

static inline __aicore__ void grpo_clear_left_out(const grpo_job *job, __ubuf__ float *x,
                                                  uint32_t n)
{
    grpo_keep(x, job->kept, n);
}

/* x = 1 where it is above 0, else 0, also where it is NaN. */
static inline __aicore__ void grpo_is_positive(__ubuf__ float *x, uint32_t n)
{
    asc_max_scalar(x, x, 0.0f, n);
    ASC_THEN();
    asc_mul_scalar(x, x, -ASC_LOWEST, n);
    ASC_THEN();
    asc_mul_scalar(x, x, -ASC_LOWEST, n);
    ASC_THEN();
    asc_min_scalar(x, x, 1.0f, n);
    ASC_THEN();
    asc_float2int32_rn((__ubuf__ int32_t *)x, x, n);
    ASC_THEN();
    asc_int322float(x, (__ubuf__ int32_t *)x, n);
    ASC_THEN();
}

/* log rho of each token, which is in `old` then; 0 without old_logp. */
static inline __aicore__ void grpo_log_rho(const grpo_job *job, uint32_t n)
{
    if (job->has_old)
        asc_sub(job->old, job->logp, job->old, n);
    else
        asc_duplicate(job->old, 0.0f, n);
    ASC_THEN();
}

/* The piece's part of the numbers of tokens and of the sum that is compared: of log rho, at
 * TG_SEQUENCE_LEVEL; or of its limited values and those of the ratios. */
static inline __aicore__ void grpo_compare(const grpo_job *job, uint32_t n)
{
    grpo_log_rho(job, n);
    if (job->policy == GRPO_VESPO) {
        asc_max_scalar(job->old, job->old, -GRPO_MOST_LOG, n);
        if (job->flags & GRPO_RATIO_EACH)
            asc_log(job->ratio, job->ratio, n);
        ASC_THEN();
        asc_min_scalar(job->old, job->old, GRPO_MOST_LOG, n);
        if (job->flags & GRPO_RATIO_EACH) {
            asc_max_scalar(job->ratio, job->ratio, GRPO_LEAST_LOG, n);
            ASC_THEN();
            asc_min_scalar(job->ratio, job->ratio, GRPO_MOST_LOG, n);
            ASC_THEN();
            asc_add(job->old, job->old, job->ratio, n);
        }
        ASC_THEN();
    }
    asc_duplicate(job->a, 1.0f, n);
    asc_duplicate(job->b, 1.0f, n);
    grpo_keep(job->old, job->rated, n);
    ASC_THEN();
    grpo_keep(job->a, job->kept, n);
    grpo_keep(job->b, job->rated, n);
    ASC_THEN();
    ASC_FOLD(asc_add, grpo_lanes(job, GRPO_KEPT), job->a, 1, n, 0);
    ASC_FOLD(asc_add, grpo_lanes(job, GRPO_RATED), job->b, 1, n, 0);
    ASC_FOLD(asc_add, grpo_lanes(job, GRPO_MOVED), job->old, 1, n, 0);
}

#endif
