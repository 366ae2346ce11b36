/* src/rows/mixture.h - one class of two distributions P and Q and their mixture M = beta P + (1 -
 * beta) Q, 0 < beta < 1: how far the logarithm of M lies above the larger one's, and the class's
 * part of the divergence, to as many digits as the difference of the logarithms has. */
#ifndef TG_ROWS_MIXTURE_H
#define TG_ROWS_MIXTURE_H

#include <math.h>

#include "simd.h"

enum { MIXTURE_SERIES = 5 };

typedef struct mixture_constants {
    float beta, rest, odds; /* rest: 1 - beta; odds: beta / rest */
    float log_beta, log_rest;
    float series[MIXTURE_SERIES]; /* of the loss over M, from the square of the difference on */
} mixture_constants;

/* The logarithm of 1 + beta (exp(d) - 1) is the sum of k_j d^j / j!, k_j the cumulants of a coin of
 * weight beta, and the loss over M is the sum of k_j d^j (j - 1) / j!. */
static inline mixture_constants mixture_constants_of(double given)
{
    /* kept from 0, where a mixture would be 0 beside a probability of 0 */
    const double beta = fmin(fmax(given, 0x1p-24), 1 - 0x1p-24), rest = 1 - beta;
    const double v = beta * rest, skew = v * (rest - beta);
    return (mixture_constants){.beta = (float)beta,
                               .rest = (float)rest,
                               .odds = (float)(beta / rest),
                               .log_beta = (float)log(beta),
                               .log_rest = (float)log(rest),
                               .series = {(float)(v / 2), (float)(skew / 3),
                                          (float)(v * (1 - 6 * v) / 8),
                                          (float)(skew * (1 - 12 * v) / 30),
                                          (float)(v * (1 - 30 * v + 120 * v * v) / 144)}};
}

/* Weights of 1/2; such that neither is nearly 1; any. What is known of them when a kernel is
 * compiled spares it work. */
typedef enum mixture_kind { MIXTURE_EVEN, MIXTURE_MODERATE, MIXTURE_ANY } mixture_kind;

static inline mixture_kind mixture_kind_of(double beta)
{
    return beta == 0.5                        ? MIXTURE_EVEN
           : fmin(beta, 1 - beta) >= 1.0 / 16 ? MIXTURE_MODERATE
                                              : MIXTURE_ANY;
}

/* log M - log E is part + rest, where rest is 0 or a constant. */
typedef struct mixture {
    vf loss; /* over E */
    vf part, rest;
} mixture;

/* The loss over M where P and Q nearly agree. For even weights the odd terms are 0. */
SIMD_INLINE vf mixture_near(mixture_kind kind, const mixture_constants *c, vf d)
{
    const int step = kind == MIXTURE_EVEN ? 2 : 1;
    const vf square = d * d, by = kind == MIXTURE_EVEN ? square : d;
    vf near = v_set(c->series[MIXTURE_SERIES - 1]);
    for (int i = MIXTURE_SERIES - 1 - step; i >= 0; i -= step)
        near = near * by + v_set(c->series[i]);
    return near * square;
}

/* E is the larger of the two probabilities, w the weight of the smaller in the mixture and r the
 * other one, d the logarithm of P less that of Q,
 * n = -|d|, power exp(n) and exp(n) - 1, t the first of them. M = E m, m = r + w t = t + r (1 - t),
 * and with l the logarithm of m the loss
 * is E (w t n - l m). Where t is small l is log r + log(1 + w t / r), and else log(1 + w (t - 1)).
 * But where w is nearly 1 and t not small, M and the smaller one are nearly equal: l is n + log(1 +
 * r (1 - t) / t), and with the last for l the loss is E (-r n - l m). Where P and Q nearly agree
 * the terms of the loss cancel, and it is a series. */
SIMD_INLINE mixture mixture_of(mixture_kind kind, const mixture_constants *c, vf d, vf n, vf2 power)
{
    const int even = kind == MIXTURE_EVEN, any = kind == MIXTURE_ANY;
    const vf t = power.a, zero = v_set(0.0f), half = v_set(0.5f);
    const vf w = even ? half : v_if_negative(d, v_set(c->beta), v_set(c->rest));
    const vf r = even ? half : v_if_negative(d, v_set(c->rest), v_set(c->beta));
    const vf odds = even ? v_set(1.0f) : v_if_negative(d, v_set(c->odds), v_set(1 / c->odds));
    const vf log_r =
        even ? v_set(c->log_rest) : v_if_negative(d, v_set(c->log_rest), v_set(c->log_beta));
    const vf far = t - (any ? v_min(r, half) : half); /* its sign: t is small */
    const vf between = r * power.b, m = t - between;
    vf argument = v_if_negative(far, odds * t, w * power.b), slope = w * t, of_n = zero;
    if (any) {
        const vi agrees = (w > r) & (far >= zero);
        argument = v_select(agrees, -between * v_recip(t), argument);
        slope = v_select(agrees, -r, slope);
        of_n = v_select(agrees, n, zero);
    }
    /* of even weights it is in [-1/4, 1/2) */
    const vf l = even ? v_log_parts(zero, argument) : v_log1p(argument);
    const vf rest = v_if_negative(far, log_r, zero);
    const vf apart = slope * n - (rest + l) * m;
    return (mixture){v_select(n > v_set(-0.1875f), mixture_near(kind, c, d) * m, apart),
                     any ? l + of_n : l, rest};
}

#endif
