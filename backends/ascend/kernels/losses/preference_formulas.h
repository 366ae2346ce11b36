/* preference_formulas.h - losses of preferences and their derivatives:
 * src/ops/preference_loss/preference_loss_shared.c in f32 on V. Every function here ends with
 * ASC_THEN(). */
#ifndef PREFERENCE_FORMULAS_H
#define PREFERENCE_FORMULAS_H

#include "preference_loss.h"

/* ---- losses of x: loss, and in by_a its derivative by x ---- */

static inline __aicore__ void preference_logarithms(const preference *j)
{
    preference_log_logistic(j, j->t[0], j->x, 1.0f);
    preference_log_logistic(j, j->t[1], j->x, -1.0f);
    preference_scale(j->loss, j->t[0], j->p, j->n);
    preference_add(j->loss, j->t[1], j->q, j->n);
    preference_logistic(j, j->t[0], j->x, 1.0f);
    preference_logistic(j, j->t[1], j->x, -1.0f);
    preference_scale(j->by_a, j->t[1], j->p, j->n);
    preference_add(j->by_a, j->t[0], -j->q, j->n);
}

/* 0 x is what carries NaN. */
static inline __aicore__ void preference_hinge(const preference *j)
{
    preference_scale(j->by_a, j->x, -1.0f, j->n);
    preference_shift(j->by_a, j->by_a, 1.0f, j->n);
    asc_max_scalar(j->loss, j->by_a, 0.0f, j->n);
    preference_scale(j->t[0], j->x, 0.0f, j->n);
    preference_add(j->loss, j->t[0], 1.0f, j->n);
    preference_positive(j->by_a, j->by_a, j->n);
    preference_scale(j->by_a, j->by_a, -1.0f, j->n);
    preference_add(j->by_a, j->t[0], 1.0f, j->n);
}

static inline __aicore__ void preference_divergence(const preference *j)
{
    preference_log_logistic(j, j->t[0], j->x, 1.0f);
    preference_log_logistic(j, j->t[1], j->x, -1.0f);
    preference_shift(j->loss, j->t[0], -j->p, j->n);
    preference_shift(j->t[1], j->t[1], -j->q, j->n);
    preference_logistic(j, j->t[0], j->x, 1.0f);
    preference_logistic(j, j->t[2], j->x, -1.0f);
    preference_times(j->loss, j->t[0], j->n);
    preference_times(j->t[1], j->t[2], j->n);
    preference_add(j->loss, j->t[1], 1.0f, j->n);
    preference_shift(j->by_a, j->x, j->q - j->p, j->n);
    preference_times(j->by_a, j->t[0], j->n);
    preference_times(j->by_a, j->t[2], j->n);
}

/* m exp(-x) is one exponential: exp(-x) overflows where m is as small. */
static inline __aicore__ void preference_discopop(const preference *j)
{
    __ubuf__ float *decay = j->t[0], *rest = j->t[1], *log = j->t[2], *down = j->t[3];
    preference_log_logistic(j, decay, j->x, j->p);
    asc_sub(decay, decay, j->x, j->n);
    ASC_THEN();
    asc_exp(decay, decay, j->n);
    preference_logistic(j, rest, j->x, -j->p);
    preference_log_logistic(j, log, j->x, 1.0f);
    preference_logistic(j, down, j->x, -1.0f);
    asc_mul(j->loss, rest, log, j->n);
    asc_mul(down, rest, down, j->n);
    ASC_THEN();
    asc_sub(j->loss, decay, j->loss, j->n);
    preference_slope(j, j->by_a, j->x, j->p);
    preference_scale(j->by_a, j->by_a, j->p, j->n);
    preference_times(j->by_a, log, j->n);
    preference_add(j->by_a, down, -1.0f, j->n);
    preference_scale(rest, rest, j->p, j->n);
    preference_shift(rest, rest, -1.0f, j->n);
    preference_times(rest, decay, j->n);
    preference_add(j->by_a, rest, 1.0f, j->n);
}

/* ---- losses of a and b: loss, by_a, by_b ---- */

static inline __aicore__ void preference_each(const preference *j)
{
    preference_log_logistic(j, j->t[0], j->a, j->beta);
    preference_scale(j->loss, j->t[0], j->p, j->n);
    preference_log_logistic(j, j->t[0], j->a, -j->beta);
    preference_add(j->loss, j->t[0], j->q, j->n);
    preference_log_logistic(j, j->t[0], j->b, -j->beta);
    preference_add(j->loss, j->t[0], j->r, j->n);
    preference_logistic(j, j->t[0], j->a, -j->beta);
    preference_scale(j->by_a, j->t[0], j->p * j->beta, j->n);
    preference_logistic(j, j->t[0], j->a, j->beta);
    preference_add(j->by_a, j->t[0], -j->q * j->beta, j->n);
    preference_logistic(j, j->t[0], j->b, j->beta);
    preference_scale(j->by_b, j->t[0], -j->r * j->beta, j->n);
}

static inline __aicore__ void preference_squares(const preference *j)
{
    asc_add_scalar(j->t[0], j->a, -j->p, j->n);
    preference_shift(j->t[1], j->b, j->p, j->n);
    asc_mul(j->loss, j->t[0], j->t[0], j->n);
    asc_mul(j->t[2], j->t[1], j->t[1], j->n);
    asc_mul_scalar(j->by_a, j->t[0], 2.0f, j->n);
    preference_scale(j->by_b, j->t[1], 2.0f, j->n);
    preference_add(j->loss, j->t[2], 1.0f, j->n);
}

static inline __aicore__ void preference_zero(const preference *j)
{
    preference_logistic(j, j->loss, j->a, -j->beta);
    preference_logistic(j, j->t[0], j->b, j->beta);
    preference_add(j->loss, j->t[0], 1.0f, j->n);
    preference_slope(j, j->by_a, j->a, j->beta);
    preference_slope(j, j->by_b, j->b, j->beta);
    asc_mul_scalar(j->by_a, j->by_a, -j->beta, j->n);
    preference_scale(j->by_b, j->by_b, j->beta, j->n);
}

/* y = s(k a) - s(b), d = b - k a: of two that are nearly the same by
 *   s(k a) s(-b) (1 - exp(d)), or -s(-k a) s(b) (1 - exp(-d)) where d is positive. */
static inline __aicore__ void preference_between(const preference *j, __ubuf__ float *y,
                                                 __ubuf__ float *a, float k, __ubuf__ float *b,
                                                 __ubuf__ float *d)
{
    __ubuf__ float *below = j->t[1], *above = j->t[2], *t = j->t[3];
    asc_abs(t, d, j->n);
    ASC_THEN();
    preference_scale(t, t, -1.0f, j->n);
    preference_expm1(j, y, t);
    preference_logistic(j, below, a, k);
    preference_logistic(j, t, b, -1.0f);
    preference_times(below, t, j->n);
    preference_logistic(j, above, a, -k);
    preference_logistic(j, t, b, 1.0f);
    preference_times(above, t, j->n);
    preference_add(above, below, 1.0f, j->n);
    preference_positive(t, d, j->n);
    preference_times(above, t, j->n);
    preference_add(above, below, -1.0f, j->n);
    preference_times(y, above, j->n);
}

/* The difference of two slopes is that of the functions, of a and x, times that of -a and x. kl and
 * sign, of which pairs have none, are scratch. */
static inline __aicore__ void preference_down(const preference *j)
{
    __ubuf__ float *d = j->kl, *other = j->sign;
    preference_logistic(j, j->loss, j->a, j->beta);
    preference_logistic(j, j->t[0], j->x, -1.0f);
    preference_add(j->loss, j->t[0], 1.0f, j->n);
    preference_scale(d, j->b, -j->beta, j->n);
    preference_shift(d, d, -j->gamma, j->n);
    preference_between(j, j->by_a, j->a, j->beta, j->x, d);
    preference_add(d, j->a, 2.0f * j->beta, j->n);
    preference_between(j, other, j->a, -j->beta, j->x, d);
    preference_times(j->by_a, other, j->n);
    preference_scale(j->by_a, j->by_a, j->beta, j->n);
    preference_slope(j, j->by_b, j->x, 1.0f);
    preference_scale(j->by_b, j->by_b, j->beta, j->n);
}

/* c, at most nearly certain; less = exp(c) - 1; odds += k (c - ln(1 - exp(c))). */
static inline __aicore__ void preference_odds_of(const preference *j, __ubuf__ float *c,
                                                 __ubuf__ float *less, float k)
{
    asc_min_scalar(c, c, PREFERENCE_CERTAIN, j->n);
    ASC_THEN();
    preference_expm1(j, less, c);
    preference_scale(j->t[0], less, -1.0f, j->n);
    asc_log(j->t[0], j->t[0], j->n);
    ASC_THEN();
    preference_add(j->x, j->t[0], -k, j->n);
}

/* x becomes the logarithm of the odds' ratio, from a and b, which are used up. */
static inline __aicore__ void preference_odds(const preference *j)
{
    preference_scale(j->x, j->x, 0.0f, j->n);
    preference_odds_of(j, j->a, j->by_a, 1.0f);
    preference_odds_of(j, j->b, j->by_b, -1.0f);
    asc_sub(j->t[0], j->a, j->b, j->n);
    ASC_THEN();
    preference_add(j->x, j->t[0], 1.0f, j->n);
    preference_log_logistic(j, j->loss, j->x, 1.0f);
    preference_scale(j->loss, j->loss, -j->beta, j->n);
    preference_logistic(j, j->t[0], j->x, -1.0f);
    preference_scale(j->t[0], j->t[0], j->beta, j->n);
    asc_div(j->by_a, j->t[0], j->by_a, j->n);
    asc_div(j->by_b, j->t[0], j->by_b, j->n);
    ASC_THEN();
    preference_scale(j->by_b, j->by_b, -1.0f, j->n);
}

/* x: u; sign: 1 of a sequence that is preferred, -1 of another. */
static inline __aicore__ void preference_one(const preference *j)
{
    asc_sub(j->x, j->a, j->kl, j->n);
    ASC_THEN();
    preference_times(j->x, j->sign, j->n);
    preference_scale(j->x, j->x, j->beta, j->n);
    preference_logistic(j, j->loss, j->x, -1.0f);
    preference_slope(j, j->by_a, j->x, 1.0f);
    preference_times(j->by_a, j->sign, j->n);
    preference_scale(j->by_a, j->by_a, -j->beta, j->n);
}

/* ---- the whole ---- */

/* by_a, the derivative by x, becomes those by a and by b. */
static inline __aicore__ void preference_of_difference(const preference *j)
{
    preference_scale(j->by_b, j->by_a, -j->beta, j->n);
    preference_scale(j->by_a, j->by_a, j->beta, j->n);
}

/* loss, x, by_a and by_b of a and b. */
static inline __aicore__ void preference_losses(const preference *j)
{
    if (j->formula == PREFERENCE_ONE) {
        preference_one(j);
        return;
    }
    asc_sub(j->x, j->a, j->b, j->n);
    ASC_THEN();
    preference_scale(j->x, j->x, j->beta, j->n);
    preference_shift(j->x, j->x, -j->gamma, j->n);
    if (j->formula == PREFERENCE_LOGARITHMS)
        preference_logarithms(j);
    else if (j->formula == PREFERENCE_HINGE)
        preference_hinge(j);
    else if (j->formula == PREFERENCE_DIVERGENCE)
        preference_divergence(j);
    else if (j->formula == PREFERENCE_DISCOPOP)
        preference_discopop(j);
    else if (j->formula == PREFERENCE_EACH)
        preference_each(j);
    else if (j->formula == PREFERENCE_SQUARES)
        preference_squares(j);
    else if (j->formula == PREFERENCE_ZERO)
        preference_zero(j);
    else if (j->formula == PREFERENCE_DOWN)
        preference_down(j);
    else
        preference_odds(j);
    if (j->formula <= PREFERENCE_DISCOPOP)
        preference_of_difference(j);
}

#endif
