/* src/rows/odds.h - a row of logits and its target in double: what the definitions of cross_entropy
 * and fused_linear_cross_entropy stand on. Plain C. */
#ifndef TG_ROWS_ODDS_H
#define TG_ROWS_ODDS_H

#include <math.h>
#include <stdint.h>

/* The first of the largest. NaN is never the largest; of nothing else the first. */
static inline int64_t odds_argmax(const double *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}

/* lse = max + log_sum. The two stay apart, so that a common offset of the logits costs no digits.
 * log_sum is log1p of the other classes' sum: it keeps its digits where that is small. */
typedef struct odds_sum {
    double max, log_sum;
} odds_sum;

static inline odds_sum odds_sum_of(const double *x, int64_t n, int64_t best)
{
    double others = x[best] - x[best], any_nan = 0; /* NaN where there is no finite largest */
    for (int64_t i = 0; i < n; i++) {
        others += i == best ? 0 : exp(x[i] - x[best]);
        any_nan += isnan(x[i]) ? NAN : 0;
    }
    return (odds_sum){x[best] + any_nan, log1p(others)};
}

static inline double odds_lse(const odds_sum *s)
{
    return s->max > -INFINITY ? s->max + s->log_sum : s->max;
}

/* The logarithm of the probability of a class with this logit. */
static inline double odds_log_p(double x, const odds_sum *s)
{
    return x - s->max - s->log_sum;
}

/* 1 - p of the target, from the other classes: no difference of numbers near 1. y -1: another slice
 * of the vocabulary has it. */
static inline double odds_doubt(const double *x, int64_t n, int64_t y, const odds_sum *s)
{
    double sum = isfinite(s->log_sum) ? 0 : NAN;
    for (int64_t i = 0; i < n; i++)
        sum += i == y ? 0 : exp(odds_log_p(x[i], s));
    return sum;
}

/* -log p of the target whose logit is x. */
static inline double odds_minus_log_p(double x, double doubt, const odds_sum *s)
{
    return doubt < 0.5 ? -log1p(-doubt) : -odds_log_p(x, s);
}

#endif
