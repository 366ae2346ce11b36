/* grpo_token.h - the losses of tokens and their derivatives, a lane a token:
 * src/ops/grpo_loss/grpo_loss_shared.c in f32 on V. */
#ifndef GRPO_TOKEN_H
#define GRPO_TOKEN_H

#include "grpo_loss.h"

/* ---- the policy's part: loss, clipped, direct, by_rho ---- */

static inline __aicore__ void grpo_clip(const grpo_job *job, float advantage, uint32_t n)
{
    __ubuf__ float *capped = job->a, *chosen = job->b, *held = job->by_rho;
    asc_min_scalar(capped, job->rho, job->delta, n);
    asc_max_scalar(chosen, job->rho, job->low, n);
    ASC_THEN();
    asc_min_scalar(chosen, chosen, job->high, n);
    ASC_THEN();
    if (advantage < 0.0f)
        asc_max(chosen, chosen, capped, n);
    else
        asc_min(chosen, chosen, capped, n);
    if (advantage < 0.0f) {
        asc_mul_scalar(job->clipped, job->rho, -1.0f, n);
        ASC_THEN();
        asc_add_scalar(job->clipped, job->clipped, job->low, n);
    } else if (advantage > 0.0f) {
        asc_add_scalar(job->clipped, job->rho, -job->high, n);
    } else {
        asc_duplicate(job->clipped, 0.0f, n);
    }
    ASC_THEN();
    asc_mul_scalar(job->loss, chosen, -advantage, n);
    asc_sub(held, chosen, job->rho, n);
    asc_duplicate(job->direct, 0.0f, n);
    ASC_THEN();
    asc_abs(held, held, n); /* by a bound that does not move with rho */
    ASC_THEN();
    grpo_is_positive(held, n);
    asc_mul_scalar(held, held, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(held, held, 1.0f, n);
    ASC_THEN();
    asc_mul(job->by_rho, held, job->loss, n);
    grpo_is_positive(job->clipped, n);
}

static inline __aicore__ void grpo_cispo(const grpo_job *job, float advantage, uint32_t n)
{
    asc_min_scalar(job->direct, job->rho, job->high, n);
    asc_duplicate(job->by_rho, 0.0f, n);
    if (advantage > 0.0f)
        asc_add_scalar(job->clipped, job->rho, -job->high, n);
    else
        asc_duplicate(job->clipped, 0.0f, n);
    ASC_THEN();
    asc_mul_scalar(job->direct, job->direct, -advantage, n);
    ASC_THEN();
    asc_mul(job->loss, job->direct, job->logp, n);
    grpo_is_positive(job->clipped, n);
}

/* With E = exp(-z), z = t (rho - 1): the sigmoid is s = 1 / (1 + E), and s (1 - s) = s (E s). */
static inline __aicore__ void grpo_sapo(const grpo_job *job, float advantage, uint32_t n)
{
    const float t = advantage > 0.0f ? job->pos : job->neg;
    __ubuf__ float *e = job->a, *s = job->b;
    asc_add_scalar(e, job->rho, -1.0f, n);
    asc_duplicate(s, 1.0f, n);
    asc_duplicate(job->clipped, 0.0f, n);
    asc_duplicate(job->direct, 0.0f, n);
    ASC_THEN();
    asc_mul_scalar(e, e, -t, n);
    ASC_THEN();
    asc_min_scalar(e, e, 87.0f, n);
    ASC_THEN();
    asc_exp(e, e, n);
    ASC_THEN();
    asc_add_scalar(job->loss, e, 1.0f, n);
    ASC_THEN();
    asc_div(s, s, job->loss, n);
    ASC_THEN();
    asc_mul(e, e, s, n);
    asc_mul_scalar(job->loss, s, -advantage * 4.0f / t, n);
    ASC_THEN();
    asc_mul_scalar(s, s, -advantage * 4.0f, n);
    ASC_THEN();
    asc_mul(job->by_rho, e, s, n);
    ASC_THEN();
    asc_mul(job->by_rho, job->by_rho, job->rho, n);
    ASC_THEN();
}

static inline __aicore__ void grpo_vespo(const grpo_job *job, const grpo_sequence *s, uint32_t n)
{
    asc_duplicate(job->direct, -s->phi * s->advantage, n);
    asc_mul_scalar(job->loss, job->logp, -s->phi * s->advantage, n);
    asc_duplicate(job->by_rho, 0.0f, n);
    asc_duplicate(job->clipped, 0.0f, n);
    ASC_THEN();
}

/* loss, direct and by_rho times is_ratio. */
static inline __aicore__ void grpo_times_ratio(const grpo_job *job, float ratio, uint32_t n)
{
    if (job->flags & GRPO_RATIO_EACH) {
        asc_mul(job->loss, job->loss, job->ratio, n);
        asc_mul(job->direct, job->direct, job->ratio, n);
        asc_mul(job->by_rho, job->by_rho, job->ratio, n);
    } else {
        asc_mul_scalar(job->loss, job->loss, ratio, n);
        asc_mul_scalar(job->direct, job->direct, ratio, n);
        asc_mul_scalar(job->by_rho, job->by_rho, ratio, n);
    }
    ASC_THEN();
}

/* ---- the divergence ---- */

/* x = exp(u) - 1: for u within 30 by (E - 1) u / log E, E = exp(u), which keeps the digits of a
 * small one; beyond it exp(u), less
 * what makes that the smaller of the two within. e: scratch. */
static inline __aicore__ void grpo_expm1(__ubuf__ float *x, __ubuf__ float *u, __ubuf__ float *e,
                                         __ubuf__ float *near, uint32_t n)
{
    asc_max_scalar(near, u, -30.0f, n);
    ASC_THEN();
    asc_min_scalar(near, near, 30.0f, n);
    ASC_THEN();
    asc_exp(e, near, n);
    ASC_THEN();
    asc_add_scalar(x, e, -1.0f, n);
    ASC_THEN();
    asc_log(e, e, n);
    ASC_THEN();
    asc_add_scalar(x, x, GRPO_TINY, n);
    asc_add_scalar(e, e, GRPO_TINY, n);
    ASC_THEN();
    asc_mul(x, x, near, n);
    ASC_THEN();
    asc_div(x, x, e, n);
    asc_exp(near, u, n);
    ASC_THEN();
    asc_add_scalar(near, near, -1e5f, n);
    ASC_THEN();
    asc_max(x, x, near, n);
    ASC_THEN();
}

/* kl, and what it adds to loss and its derivatives. ref becomes u = ref - logp, old the difference
 * of exponential and 1. A sequence of one token has a rho of that token's own, unless others make
 * it. */
static inline __aicore__ void grpo_divergence(const grpo_job *job, const grpo_sequence *s,
                                              uint32_t n)
{
    const int corrected = (job->flags & GRPO_CORRECTED) != 0;
    const int own = !(job->flags & GRPO_SEQUENCE) || (s->kept == 1.0f && job->rated == job->kept);
    __ubuf__ float *u = job->ref, *grown = job->old;
    asc_sub(u, job->ref, job->logp, n);
    ASC_THEN();
    grpo_expm1(grown, u, job->a, job->b, n);
    asc_min_scalar(job->a, u, GRPO_MOST, n); /* kl is infinite where u is */
    ASC_THEN();
    asc_sub(job->kl, grown, job->a, n);
    ASC_THEN();
    if (corrected) {
        asc_mul(job->kl, job->kl, job->rho, n);
        asc_mul(grown, grown, job->rho, n);
        asc_mul(u, u, job->rho, n);
        ASC_THEN();
    }
    if (job->beta == 0.0f)
        return;
    asc_axpy(job->loss, job->kl, job->beta, n);
    if (corrected && own) { /* both paths in one: their sum cancels */
        asc_axpy(job->direct, u, -job->beta, n);
    } else {
        asc_axpy(job->direct, grown, -job->beta, n);
        if (corrected)
            asc_axpy(job->by_rho, job->kl, job->beta, n);
    }
    ASC_THEN();
}

/* ---- a piece of tokens ---- */

/* loss, kl, clipped, direct and by_rho of a piece whose numbers have been copied in. */
static inline __aicore__ void grpo_tokens(const grpo_job *job, const grpo_sequence *s, uint32_t n)
{
    grpo_log_rho(job, n);
    if (job->flags & GRPO_SEQUENCE)
        asc_duplicate(job->rho, s->rho, n);
    else
        asc_exp(job->rho, job->old, n);
    ASC_THEN();
    if (job->policy == GRPO_CLIP)
        grpo_clip(job, s->advantage, n);
    else if (job->policy == GRPO_CISPO)
        grpo_cispo(job, s->advantage, n);
    else if (job->policy == GRPO_SAPO)
        grpo_sapo(job, s->advantage, n);
    else
        grpo_vespo(job, s, n);
    if (job->policy != GRPO_VESPO)
        grpo_times_ratio(job, s->ratio, n);
    if (job->has_ref)
        grpo_divergence(job, s, n);
}

/* The weights of a piece's gradients are in `a`. */
static inline __aicore__ void grpo_weights(const grpo_job *job, const grpo_sequence *s, uint32_t n)
{
    if (job->flags & GRPO_DLOSS_EACH)
        asc_mul_scalar(job->a, job->each_upstream, s->weight, n);
    else
        asc_duplicate(job->a, s->weight * job->upstream, n);
    ASC_THEN();
}

#endif
