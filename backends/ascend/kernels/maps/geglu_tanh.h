/* geglu_tanh.h - gelu(a) = a s, s = 1 / (1 + exp(-2 w)), on f32 in UB. */
#ifndef GEGLU_TANH_H
#define GEGLU_TANH_H

#include "shared/asc_common.h"

/* Half of the sigmoid's argument: u / 2 = w = GELU_LINEAR a + GELU_CUBIC a^3. */
#define GELU_LINEAR 0.7978845608f
#define GELU_CUBIC 0.0356774081f

/* a: gate; h, e: scratch. h becomes s: with h = exp(w), s = h h / (1 + h h). From
 * w = 9 on it is 1. */
static inline __aicore__ void gelu_sigmoid(__ubuf__ float *h, __ubuf__ float *a, __ubuf__ float *e,
                                           uint32_t n)
{
    asc_mul(h, a, a, n);
    ASC_THEN();
    asc_mul_scalar(h, h, GELU_CUBIC, n);
    ASC_THEN();
    asc_add_scalar(h, h, GELU_LINEAR, n);
    ASC_THEN();
    asc_mul(h, h, a, n);
    ASC_THEN();
    asc_min_scalar(h, h, 9.0f, n);
    ASC_THEN();
    asc_exp(h, h, n);
    ASC_THEN();
    asc_mul(e, h, h, n);
    ASC_THEN();
    asc_add_scalar(e, e, 1.0f, n);
    ASC_THEN();
    asc_div(e, h, e, n);
    ASC_THEN();
    asc_mul(h, h, e, n);
    ASC_THEN();
}

/* g: dy, a: gate; q, w, h: scratch. With h = exp(min(w, 0)), k = exp(-max(w, 0))
 * and d = 1 + (h k)^2,
 *   s = h h / d,   1 - s = k k / d:   g becomes dy s, and k (1 - s) u'.
 * Of u', a^2 is limited where s is 0 or 1, so that it stays finite. */
static inline __aicore__ void gelu_slopes(__ubuf__ float *g, __ubuf__ float *k, __ubuf__ float *a,
                                          __ubuf__ float *q, __ubuf__ float *w, __ubuf__ float *h,
                                          uint32_t n)
{
    asc_mul(q, a, a, n);
    ASC_THEN();
    asc_mul_scalar(k, q, GELU_CUBIC, n);
    ASC_THEN();
    asc_add_scalar(k, k, GELU_LINEAR, n);
    asc_min_scalar(q, q, 256.0f, n);
    ASC_THEN();
    asc_mul(w, a, k, n);
    asc_mul_scalar(q, q, 6.0f * GELU_CUBIC, n);
    ASC_THEN();
    asc_min_scalar(h, w, 0.0f, n);
    asc_max_scalar(k, w, 0.0f, n);
    ASC_THEN();
    asc_mul_scalar(k, k, -1.0f, n);
    asc_exp(h, h, n);
    ASC_THEN();
    asc_exp(k, k, n);
    asc_mul(g, g, h, n);
    asc_add_scalar(q, q, 2.0f * GELU_LINEAR, n); /* u' */
    ASC_THEN();
    asc_mul(w, h, k, n);
    asc_mul(g, g, h, n);
    ASC_THEN();
    asc_mul(h, q, k, n);
    asc_mul(w, w, w, n);
    ASC_THEN();
    asc_mul(k, h, k, n);
    asc_add_scalar(w, w, 1.0f, n); /* d */
    ASC_THEN();
    asc_div(g, g, w, n);
    asc_div(k, k, w, n);
    ASC_THEN();
}

/* The products behind it: dup = a dy s; k becomes dy gelu'(a) = dy s + dup (1 - s)
 * u'. dup may be a. */
static inline __aicore__ void gelu_tanh_products(__ubuf__ float *dup, __ubuf__ float *k,
                                                 __ubuf__ float *g, __ubuf__ float *a, uint32_t n)
{
    asc_mul(dup, g, a, n);
    ASC_THEN();
    asc_mul_add(k, dup, g, n);
    ASC_THEN();
}

#endif
