/* mixture_middle.h - the terms of the divergence of two distributions from their mixture where no
 * weight is small, and the gradient; for jsd and softmax_jsd. f32 in UB.
 *
 * Let B be the larger of P and Q, T B the smaller, n = log T, and w the smaller one's weight: beta
 * where that is P, 1 - beta where it is Q. With z = w (T - 1) and W = M/B = 1 + z,
 *   d = B (w T n - W log W),   log(M/Q) = log W + max(log P - log Q, 0).
 * W is rounded to s: log W = log s + (z - (s - 1)) / s, and W log W = s log s + (z - (s - 1)), of
 * which the difference is exact where it matters. In the first the divisor may be left out as s is
 * not small. T is rounded, too. The loss has no first order of n, so that n may be the logarithm
 * of T as it is; the gradient has, and takes T - 1 + T (n - log T) for it. */
#ifndef MIXTURE_MIDDLE_H
#define MIXTURE_MIDDLE_H

#include "mixture.h"

/* Of probabilities whose logarithms are -inf. Any product with 0 is 0. */
#define JSD_NONE (-1e30f)

/* Whether no weight is small. */
static inline __aicore__ int jsd_is_middle(float beta)
{
    return beta >= 0.0625f && beta <= 0.9375f;
}

/* a = max(x, y), c = n, and y = max(y - x, 0) if `differs`; t: scratch. The last ASC_THEN() is left
 * to the caller. */
static inline __aicore__ void jsd_order(__ubuf__ float *x, __ubuf__ float *y, __ubuf__ float *a,
                                        __ubuf__ float *c, __ubuf__ float *t, int differs,
                                        uint32_t n)
{
    asc_max_scalar(x, x, JSD_NONE, n);
    ASC_THEN();
    asc_max(a, x, y, n);
    asc_min(t, x, y, n);
    ASC_THEN();
    asc_sub(c, t, a, n);
    if (differs)
        asc_sub(y, a, x, n);
    ASC_THEN();
    asc_max_scalar(c, c, -JSD_FAR, n);
}

/* w = the smaller one's weight, from d = max(y - x, 0), in four steps, which stand beside others;
 * w may be d. ASC_THEN() is left to the caller. */
static inline __aicore__ void jsd_weight(__ubuf__ float *w, __ubuf__ float *d, int step, float beta,
                                         float rest, uint32_t n)
{
    if (step == 0)
        asc_mul_scalar(w, d, -ASC_LOWEST, n);
    else if (step == 1)
        asc_min_scalar(w, w, 1.0f, n);
    else if (step == 2)
        asc_mul_scalar(w, w, rest - beta, n);
    else
        asc_add_scalar(w, w, beta, n);
}

/* t = -d. x and y are used up; a, b, c: scratch. The last ASC_THEN() is left to the caller. */
static inline __aicore__ void jsd_middle_terms(__ubuf__ float *t, __ubuf__ float *x,
                                               __ubuf__ float *y, __ubuf__ float *a,
                                               __ubuf__ float *b, __ubuf__ float *c, float beta,
                                               float rest, uint32_t n)
{
    const int weighed = beta != rest;
    jsd_order(x, y, a, c, t, weighed, n);
    asc_exp(a, a, n); /* B */
    if (weighed)
        jsd_weight(y, y, 0, beta, rest, n);
    ASC_THEN();
    asc_exp(b, c, n); /* T */
    if (weighed)
        jsd_weight(y, y, 1, beta, rest, n);
    ASC_THEN();
    asc_log(t, b, n);
    asc_add_scalar(c, b, -1.0f, n);
    if (weighed)
        jsd_weight(y, y, 2, beta, rest, n);
    ASC_THEN();
    asc_mul(b, t, b, n);
    if (weighed) {
        jsd_weight(y, y, 3, beta, rest, n);
        ASC_THEN();
        asc_mul(c, c, y, n);
        asc_mul(b, b, y, n);
    } else {
        asc_mul_scalar(c, c, beta, n); /* z */
    }
    ASC_THEN();
    asc_add_scalar(t, c, 1.0f, n); /* s */
    ASC_THEN();
    asc_log(y, t, n);
    asc_add_scalar(x, t, -1.0f, n);
    ASC_THEN();
    asc_sub(c, x, c, n);
    asc_mul(y, y, t, n);
    ASC_THEN();
    asc_sub(y, y, c, n); /* W log W */
    ASC_THEN();
    asc_axpy(y, b, weighed ? -1.0f : -beta, n);
    ASC_THEN();
    asc_mul(t, y, a, n);
}

/* g = factor (1 - beta) Q log(M/Q), and t = -d if has_terms. x and y are used up; a, b, c, and
 * without terms t: scratch. The last ASC_THEN() is left to the caller. */
static inline __aicore__ void jsd_middle_gradient(__ubuf__ float *t, __ubuf__ float *g,
                                                  __ubuf__ float *x, __ubuf__ float *y,
                                                  __ubuf__ float *a, __ubuf__ float *b,
                                                  __ubuf__ float *c, float factor, float beta,
                                                  float rest, int has_terms, uint32_t n)
{
    const int weighed = beta != rest;
    jsd_order(x, y, a, c, t, 0, n);
    if (weighed)
        asc_sub(a, y, x, n);
    ASC_THEN();
    asc_exp(b, c, n); /* T */
    if (weighed)
        asc_max_scalar(a, a, 0.0f, n);
    ASC_THEN();
    asc_log(t, b, n);
    asc_add_scalar(g, b, -1.0f, n);
    if (weighed)
        jsd_weight(a, a, 0, beta, rest, n);
    ASC_THEN();
    asc_sub(t, c, t, n);
    if (weighed)
        jsd_weight(a, a, 1, beta, rest, n);
    ASC_THEN();
    asc_fma(g, b, t, n); /* T - 1 */
    if (weighed)
        jsd_weight(a, a, 2, beta, rest, n);
    if (has_terms)
        asc_mul(c, c, b, n);
    ASC_THEN();
    if (weighed) {
        jsd_weight(a, a, 3, beta, rest, n);
        ASC_THEN();
        asc_mul(g, g, a, n); /* z */
        if (has_terms)
            asc_mul(c, c, a, n);
    } else {
        asc_mul_scalar(g, g, beta, n);
        if (has_terms)
            asc_mul_scalar(c, c, beta, n);
    }
    ASC_THEN();
    asc_add_scalar(t, g, 1.0f, n); /* s */
    if (weighed)
        asc_max(a, x, y, n);
    ASC_THEN();
    asc_add_scalar(b, t, -1.0f, n);
    asc_sub(y, a, x, n);
    ASC_THEN();
    asc_log(t, t, n);
    asc_sub(g, g, b, n);
    asc_exp(x, x, n); /* Q */
    if (has_terms)
        asc_exp(a, a, n); /* B */
    ASC_THEN();
    asc_add(t, t, g, n); /* log W */
    ASC_THEN();
    asc_add(y, y, t, n);
    if (has_terms)
        asc_mul(b, b, t, n);
    ASC_THEN();
    asc_mul(x, x, y, n);
    if (has_terms)
        asc_add(t, t, b, n); /* W log W */
    ASC_THEN();
    asc_mul_scalar(g, x, rest * factor, n);
    if (!has_terms)
        return;
    asc_sub(t, t, c, n);
    ASC_THEN();
    asc_mul(t, t, a, n);
}

#endif
