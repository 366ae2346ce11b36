/* softmax_kl_div.h - what of softmax_kl_div is of no type; see softmax_kl_div.asc.c. */
#ifndef SOFTMAX_KL_DIV_H
#define SOFTMAX_KL_DIV_H

#include "shared/asc_any.h"
#include "shared/asc_ring.h"
#include "shared/exponentials.h"
#include "softmax_kl_div.args.h"
#include "terms.h"

/* Numbers of a row, 64 lanes each. Lane by lane: MAX of the logits, SUM of exponentials, MASS, the
 * target's sum, TERMS of the loss; sums of exponentials and terms are relative to the lane's
 * maximum. Blocks: TOP, the row's maximum, TOTAL of the exponentials and its LOG, ALL of the mass,
 * LEVEL, what exponentials are multiplied by for the gradient, ROW, the row's loss. LOSS: of all
 * rows, in lane 0. u and v are folded into even ones, and a meets odd ones: in other groups of
 * banks. */
enum {
    SKL_MAX,
    SKL_TOP,
    SKL_SUM,
    SKL_LEVEL,
    SKL_MASS,
    SKL_OLD,
    SKL_TERMS,
    SKL_VALUE,
    SKL_SHIFT,
    SKL_FALL,
    SKL_TOTAL,
    SKL_LOG,
    SKL_ALL,
    SKL_ROW,
    SKL_LOSS,
    SKL_PART
};

/* careful: of a target of 0 the term is 0 even if the logit is -inf. It takes some time, and begins
 * with the first row that needs it. */
typedef struct skl_job {
    int64_t target_type, out;
    int loss, careful;
    float scale, factor, least;
    __ubuf__ float *u, *v, *a, *lanes;
} skl_job;

static inline __aicore__ __ubuf__ float *skl_at(const skl_job *job, int lanes)
{
    return job->lanes + lanes * ASC_LANES;
}

static inline __aicore__ void skl_begin_row(const skl_job *job)
{
    asc_duplicate(skl_at(job, SKL_MAX), ASC_LOWEST, ASC_LANES);
    asc_duplicate(skl_at(job, SKL_SUM), 0.0f, ASC_LANES);
    asc_duplicate(skl_at(job, SKL_MASS), 0.0f, ASC_LANES);
    asc_duplicate(skl_at(job, SKL_TERMS), 0.0f, ASC_LANES);
    ASC_THEN();
}

/* a = log max(v, least), of differences d in u that are infinite nowhere where v is 0: their
 * exponentials are 0 as well. */
static inline __aicore__ void skl_be_careful(const skl_job *job, uint32_t n)
{
    __ubuf__ float *u = job->u, *v = job->v, *a = job->a;
    asc_abs(a, v, n);
    ASC_THEN();
    asc_mul_scalar(a, a, ASC_LOWEST, n); /* 0, or as good as -inf */
    ASC_THEN();
    asc_mul_scalar(a, a, -ASC_LOWEST, n);
    ASC_THEN();
    asc_add_scalar(a, a, -1e30f, n);
    ASC_THEN();
    asc_max(u, u, a, n);
    ASC_THEN();
    asc_max_scalar(a, v, job->least, n);
    ASC_THEN();
    asc_log(a, a, n);
    ASC_THEN();
}

/* Before the sums of a piece, beside what computes u and v. */
static inline __aicore__ void skl_begin_piece(const skl_job *job)
{
    asc_copy((__ubuf__ uint32_t *)skl_at(job, SKL_OLD), (__ubuf__ uint32_t *)skl_at(job, SKL_MAX),
             ASC_LANES);
}

/* The sums of a piece whose logits are u and whose target is v; all are used up. What terms fall
 * by where a lane's maximum has risen is the rise times the lane's mass so far; a lane that has
 * nothing yet may be infinitely far below. */
static inline __aicore__ void skl_add_piece(const skl_job *job, uint32_t n)
{
    __ubuf__ float *u = job->u, *v = job->v, *a = job->a;
    __ubuf__ float *max = skl_at(job, SKL_MAX), *sum = skl_at(job, SKL_SUM);
    __ubuf__ float *mass = skl_at(job, SKL_MASS), *terms = skl_at(job, SKL_TERMS);
    __ubuf__ float *old = skl_at(job, SKL_OLD), *shift = skl_at(job, SKL_SHIFT);
    __ubuf__ float *fall = skl_at(job, SKL_FALL);
    const int quick = job->loss && !job->careful;
    ASC_FOLD(asc_max, max, u, 1, n, 0);
    if (quick)
        asc_max_scalar(a, v, job->least, n);
    ASC_THEN();
    asc_sub(old, old, max, ASC_LANES);
    ASC_WITH_LANES(asc_sub, u, u, max, n);
    if (quick)
        asc_log(a, a, n);
    ASC_THEN();
    exponentials_scale(job->scale, old, ASC_LANES, u, n);
    if (job->loss && job->careful)
        skl_be_careful(job, n);
    asc_exp(shift, old, ASC_LANES);
    asc_max_scalar(fall, old, ASC_LOWEST, ASC_LANES);
    if (job->loss)
        asc_sub(a, a, u, n);
    ASC_THEN();
    asc_mul(fall, fall, mass, ASC_LANES);
    asc_mul(sum, sum, shift, ASC_LANES);
    asc_exp(u, u, n);
    ASC_THEN();
    asc_sub(terms, terms, fall, ASC_LANES);
    ASC_FOLD(asc_add, mass, v, 1, n, 0);
    ASC_FOLD(asc_add, sum, u, 1, n, 0);
    ASC_THEN();
    if (job->loss) {
        asc_mul(v, a, v, n);
        ASC_THEN();
        ASC_FOLD(asc_add, terms, v, 1, n, 0);
        ASC_THEN();
    }
}

/* The row's blocks, from its lanes. */
static inline __aicore__ void skl_join(const skl_job *job)
{
    __ubuf__ float *max = skl_at(job, SKL_MAX), *value = skl_at(job, SKL_VALUE);
    __ubuf__ float *mass = skl_at(job, SKL_MASS), *terms = skl_at(job, SKL_TERMS);
    __ubuf__ float *total = skl_at(job, SKL_TOTAL), *log = skl_at(job, SKL_LOG);
    __ubuf__ float *all = skl_at(job, SKL_ALL), *row = skl_at(job, SKL_ROW);
    __ubuf__ float *level = skl_at(job, SKL_LEVEL), *fall = skl_at(job, SKL_FALL);
    exponentials_top(skl_at(job, SKL_TOP), value, max, job->scale);
    asc_max_scalar(fall, max, ASC_LOWEST, ASC_LANES);
    ASC_THEN();
    asc_mul(fall, fall, mass, ASC_LANES);
    ASC_THEN();
    asc_sub(terms, terms, fall, ASC_LANES);
    exponentials_total(total, value, max, skl_at(job, SKL_SUM));
    asc_spread_sum(all, value, mass, 1);
    asc_spread_sum(row, value, terms, 1);
    asc_div(level, all, total, 8);
    asc_log(log, total, 8);
    ASC_THEN();
    asc_mul_scalar(level, level, job->factor, 8);
    asc_mul(log, log, all, 8);
    ASC_THEN();
    asc_add(row, row, log, 8);
    ASC_THEN();
}

/* Whether the row's loss is NaN. S waits for V. */
static inline __aicore__ int skl_is_nan(const skl_job *job)
{
    ASC_FENCE(PIPE_V, PIPE_S);
    const float loss = skl_at(job, SKL_ROW)[0];
    ASC_FENCE(PIPE_S, PIPE_V);
    return loss != loss;
}

/* a = the gradient of a piece whose logits are a and whose target is v, which is used up: exactly 0
 * where a class has all of the mass. */
static inline __aicore__ void skl_gradient(const skl_job *job, uint32_t n)
{
    __ubuf__ float *a = job->a, *v = job->v, *level = skl_at(job, SKL_LEVEL);
    ASC_WITH_BLOCK(asc_sub, a, a, skl_at(job, SKL_TOP), 1, n, 0);
    asc_mul_scalar(v, v, -job->factor, n);
    ASC_THEN();
    if (job->scale != 1.0f) {
        asc_mul_scalar(a, a, job->scale, n);
        ASC_THEN();
    }
    asc_exp(a, a, n);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_mul_add(a, level, v, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
    ASC_THEN();
}

#endif
