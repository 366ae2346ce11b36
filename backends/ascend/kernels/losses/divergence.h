/* divergence.h - w (log w - y), the terms of a Kullback-Leibler divergence, for kl_div and the two
 * ends of jsd. f32 in UB. */
#ifndef DIVERGENCE_H
#define DIVERGENCE_H

#include "terms.h"

/* t = exp(l) (l - y), the weight exp(l) times `factor` in g; l and y are used up. Where the weight
 * is 0 the term is, even if y is
 * -inf: y is limited from below by 0 there, by -inf elsewhere. An exp(l) below 2^-126 is 0. a:
 * scratch. ASC_THEN() is left to the caller. */
static inline __aicore__ void divergence_of_logs(__ubuf__ float *t, __ubuf__ float *g,
                                                 __ubuf__ float *l, __ubuf__ float *y,
                                                 __ubuf__ float *a, float factor, int has_terms,
                                                 uint32_t n)
{
    asc_exp(t, l, n);
    if (has_terms)
        asc_max_scalar(a, l, -1e30f, n); /* for -inf */
    ASC_THEN();
    if (g)
        asc_mul_scalar(g, t, factor, n);
    if (has_terms) {
        asc_mul_scalar(l, t, ASC_LOWEST, n);
        ASC_THEN();
        asc_mul_scalar(l, l, -ASC_LOWEST, n);
        ASC_THEN();
        asc_max(y, y, l, n);
        ASC_THEN();
        asc_sub(a, a, y, n);
        ASC_THEN();
        asc_mul(t, t, a, n);
    }
}

/* The same of a weight that is given itself: t = w (log(max(w, least)) - y). */
static inline __aicore__ void divergence_of_weights(__ubuf__ float *t, __ubuf__ float *g,
                                                    __ubuf__ float *w, __ubuf__ float *y,
                                                    __ubuf__ float *a, float factor, float least,
                                                    int has_terms, uint32_t n)
{
    if (g)
        asc_mul_scalar(g, w, factor, n);
    if (has_terms) {
        asc_abs(a, w, n);
        asc_max_scalar(t, w, least, n);
        ASC_THEN();
        asc_mul_scalar(a, a, ASC_LOWEST, n);
        asc_log(t, t, n);
        ASC_THEN();
        asc_mul_scalar(a, a, -ASC_LOWEST, n);
        ASC_THEN();
        asc_max(a, y, a, n);
        ASC_THEN();
        asc_sub(t, t, a, n);
        ASC_THEN();
        asc_mul(t, t, w, n);
    }
}

#endif
