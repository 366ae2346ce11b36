/* mixture.h - the terms of the divergence of two distributions from their mixture, for jsd and
 * softmax_jsd; see jsd.asc.c. f32 in UB. */
#ifndef MIXTURE_H
#define MIXTURE_H

#include "divergence.h"

/* A quotient of two small differences: 0 / 0 must be 1, and anything else must not notice. */
#define JSD_TINY 1e-20f

/* Logarithms below this are that of 0 for f32; and exp() of no less and no more
 * is representable. */
#define JSD_LOWEST (-120.0f)
#define JSD_FAR 87.0f

/* z = z log1p(z) / z, W = 1 + z as its own sum: where z is near -1, 1 + z has lost what W's digits
 * were, and where it is near 0, log W / (W - 1) is that of any W next to it. W and c are used up.
 * The last ASC_THEN() is left to the caller. */
static inline __aicore__ void jsd_log1p(__ubuf__ float *z, __ubuf__ float *w, __ubuf__ float *c,
                                        uint32_t n)
{
    asc_log(c, w, n);
    ASC_THEN();
    asc_add_scalar(w, w, -1.0f, n);
    asc_add_scalar(c, c, JSD_TINY, n);
    ASC_THEN();
    asc_add_scalar(w, w, JSD_TINY, n);
    ASC_THEN();
    asc_div(z, z, w, n);
    ASC_THEN();
    asc_mul(z, z, c, n);
}

/* d = y - x within least and most, e = exp(d); e may be d. */
static inline __aicore__ void jsd_odds(__ubuf__ float *d, __ubuf__ float *e, __ubuf__ float *x,
                                       __ubuf__ float *y, float least, float most, uint32_t n)
{
    asc_sub(d, y, x, n);
    ASC_THEN();
    asc_min_scalar(d, d, most, n);
    ASC_THEN();
    asc_max_scalar(d, d, least, n);
    ASC_THEN();
    asc_exp(e, d, n);
    ASC_THEN();
}

/* a = D = y - x within -JSD_FAR and `far`, b = exp(D); x and y are limited. */
static inline __aicore__ void jsd_difference(__ubuf__ float *a, __ubuf__ float *b,
                                             __ubuf__ float *x, __ubuf__ float *y, float far,
                                             uint32_t n)
{
    asc_max_scalar(x, x, JSD_LOWEST, n);
    asc_max_scalar(y, y, JSD_LOWEST, n);
    ASC_THEN();
    jsd_odds(a, b, x, y, -JSD_FAR, far, n);
}

/* t = exp(D) - 1 = (b - 1) (D / log b), from a = D, which is used up, and b =
 * exp(D). c: scratch. */
static inline __aicore__ void jsd_expm1(__ubuf__ float *t, __ubuf__ float *a, __ubuf__ float *b,
                                        __ubuf__ float *c, uint32_t n)
{
    asc_log(c, b, n);
    asc_add_scalar(t, b, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(c, c, JSD_TINY, n);
    asc_add_scalar(t, t, JSD_TINY, n);
    ASC_THEN();
    asc_div(a, a, c, n);
    ASC_THEN();
    asc_mul(t, t, a, n);
    ASC_THEN();
}

/* b = M/P = beta + (1 - beta) exp(-D), the sum that log(M/P) is the logarithm of: 1 + (1 - beta)
 * (exp(-D) - 1) has lost what beta is. x, y and far as in jsd_difference(), which has limited them.
 * The last ASC_THEN() is left to the caller. */
static inline __aicore__ void jsd_teacher_quotient(__ubuf__ float *b, __ubuf__ float *x,
                                                   __ubuf__ float *y, float far, float beta,
                                                   float rest, uint32_t n)
{
    jsd_odds(b, b, y, x, -far, JSD_FAR, n);
    asc_mul_scalar(b, b, rest, n);
    ASC_THEN();
    asc_add_scalar(b, b, beta, n);
}

/* x and y are used up; a, b, c: scratch. */
static inline __aicore__ void jsd_mixture(__ubuf__ float *t, __ubuf__ float *g, __ubuf__ float *x,
                                          __ubuf__ float *y, __ubuf__ float *a, __ubuf__ float *b,
                                          __ubuf__ float *c, float factor, float beta, float rest,
                                          uint32_t n)
{
    jsd_difference(a, b, x, y, JSD_FAR, n);
    jsd_expm1(t, a, b, c, n);
    asc_div(a, t, b, n); /* exp(-D) - 1, negated */
    ASC_THEN();
    asc_mul_scalar(t, t, beta, n);
    asc_mul_scalar(b, b, beta, n);
    asc_mul_scalar(a, a, -rest, n);
    ASC_THEN();
    asc_add_scalar(b, b, rest, n);
    ASC_THEN();
    jsd_log1p(t, b, c, n); /* log(M/Q) */
    ASC_THEN();
    jsd_teacher_quotient(b, x, y, JSD_FAR, beta, rest, n);
    asc_exp(x, x, n);
    asc_exp(y, y, n);
    ASC_THEN();
    jsd_log1p(a, b, c, n); /* log(M/P) */
    asc_mul(t, t, x, n);
    ASC_THEN();
    asc_mul(a, a, y, n);
    if (g)
        asc_mul_scalar(g, t, -rest * factor, n);
    ASC_THEN();
    asc_mul_scalar(t, t, -rest, n);
    ASC_THEN();
    asc_axpy(t, a, -beta, n);
}

#endif
