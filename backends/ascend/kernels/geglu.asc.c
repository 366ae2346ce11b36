/* geglu.asc.c - y = gelu(gate) up, in the tanh form and the exact one, and its gradients. Arithmetic is f32 in UB.
 *
 * There is neither tanh nor erf: both forms are built from exp and a quotient, so that far below zero nothing is a
 * difference and nothing is flushed that the result does not flush. Stages stand between two ASC_THEN(); of two
 * sources of one instruction one lies LOW, one HIGH (geglu.c). */
#include "asc_common.h"

/* Half of the sigmoid's argument: u / 2 = w = GELU_LINEAR a + GELU_CUBIC a^3. */
#define GELU_LINEAR 0.7978845608f
#define GELU_CUBIC 0.0356774081f

/* Beyond it the normal distribution is 0 or 1. */
#define GELU_FAR 30.0f

/* ---- tanh: gelu(a) = a s, s = 1 / (1 + exp(-2 w)) ---- */

/* a: gate; h, e: scratch. h becomes s: with h = exp(w), s = h h / (1 + h h). From w = 9 on it is 1. */
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

/* g: dy, a: gate; q, w, h: scratch. With h = exp(min(w, 0)), k = exp(-max(w, 0)) and d = 1 + (h k)^2,
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

/* The products behind it: dup = a dy s; k becomes dy gelu'(a) = dy s + dup (1 - s) u'. dup may be a. */
static inline __aicore__ void gelu_tanh_products(__ubuf__ float *dup, __ubuf__ float *k,
                                                 __ubuf__ float *g, __ubuf__ float *a, uint32_t n)
{
    asc_mul(dup, g, a, n);
    ASC_THEN();
    asc_mul_add(k, dup, g, n);
    ASC_THEN();
}

/* ---- exact: gelu(a) = a Phi(a) ----
 *
 * With m = |a|, Phi(-m) = e e p(m) / q(m), e = exp(-m^2 / 4); p and q of degree 4 and 5, q monic, are minimax on
 * m < 15 with a relative error of 2^-27. Their coefficients but the first lie in UB, a block for each. */

/* c: room for seven blocks */
static inline __aicore__ void gelu_constants(__ubuf__ float *c)
{
    asc_duplicate(c, 17.6715389f, 8); /* p */
    asc_duplicate(c + 8, 42.1963099f, 8);
    asc_duplicate(c + 16, 48.0286096f, 8);
    asc_duplicate(c + 24, 45.2821429f, 8); /* q */
    asc_duplicate(c + 32, 115.80151f, 8);
    asc_duplicate(c + 40, 161.035234f, 8);
    asc_duplicate(c + 48, 96.0572185f, 8);
    ASC_THEN();
}

/* p = p m + c, c a block: a repeat form, in counter mode as long as a tile */
#define GELU_STEP(p, m, c) asc_mul_add(p, m, c, 1, 1, 1, 0, 8, 8, 0)

/* m: |a|, limited. On return x = e and p = p(m) / q(m). */
static inline __aicore__ void gelu_normal(__ubuf__ float *p, __ubuf__ float *x, __ubuf__ float *m,
                                          __ubuf__ float *q, __ubuf__ float *c, uint32_t n)
{
    asc_mul_scalar(x, m, -0.25f, n);
    asc_mul_scalar(p, m, 0.39894656f, n);
    asc_add_scalar(q, m, 9.84391443f, n);
    ASC_THEN();
    asc_mul(x, x, m, n);
    asc_add_scalar(p, p, 3.92691927f, n);
    ASC_THEN();
    asc_exp(x, x, n);
    asc_set_mask_count();
    asc_set_vector_mask(0, n);
    GELU_STEP(q, m, c + 24);
    GELU_STEP(p, m, c);
    ASC_THEN();
    GELU_STEP(q, m, c + 32);
    GELU_STEP(p, m, c + 8);
    ASC_THEN();
    GELU_STEP(q, m, c + 40);
    GELU_STEP(p, m, c + 16);
    ASC_THEN();
    GELU_STEP(q, m, c + 48);
    ASC_THEN();
    asc_set_mask_norm();
    asc_div(p, p, q, n);
    ASC_THEN();
}

/* a: gate; m, x, p, q: scratch. m becomes |a| Phi(-|a|) but for a factor x, and a max(a, 0), with a product with 0
 * that makes NaN of -infinity, as the definition does. */
static inline __aicore__ void gelu_below(__ubuf__ float *m, __ubuf__ float *x, __ubuf__ float *a,
                                         __ubuf__ float *p, __ubuf__ float *q, __ubuf__ float *c,
                                         uint32_t n)
{
    asc_abs(m, a, n);
    ASC_THEN();
    asc_min_scalar(m, m, GELU_FAR, n);
    asc_leakyrelu(a, a, 0.0f, n);
    ASC_THEN();
    gelu_normal(p, x, m, q, c, n);
    asc_mul(m, m, x, n);
    ASC_THEN();
    asc_mul(m, m, p, n);
    ASC_THEN();
}

/* a: gate; q: scratch. On return m = e e, p = Phi(-|a|) / m, and r is 1 where a is positive, else 0. */
static inline __aicore__ void gelu_bells(__ubuf__ float *m, __ubuf__ float *p, __ubuf__ float *r,
                                         __ubuf__ float *a, __ubuf__ float *q, __ubuf__ float *x,
                                         __ubuf__ float *c, uint32_t n)
{
    asc_abs(m, a, n);
    asc_relu(r, a, n);
    ASC_THEN();
    asc_min_scalar(m, m, GELU_FAR, n);
    asc_mul_scalar(r, r, 3e38f, n);
    ASC_THEN();
    gelu_normal(p, x, m, q, c, n);
    asc_mul(m, x, x, n);
    asc_min_scalar(r, r, 1.0f, n);
    ASC_THEN();
}

/* The products behind it, with t = Phi(-|a|): Phi(a) = max(t, r - t), dup = dy a Phi(a), and m becomes
 * dy (Phi(a) + a e e / sqrt(2 pi)). a is used up; dup may be a. */
static inline __aicore__ void gelu_exact_products(__ubuf__ float *dup, __ubuf__ float *m,
                                                  __ubuf__ float *g, __ubuf__ float *a,
                                                  __ubuf__ float *p, __ubuf__ float *r,
                                                  __ubuf__ float *x, uint32_t n)
{
    asc_mul(p, p, m, n);
    asc_mul(x, m, a, n);
    ASC_THEN();
    asc_sub(m, r, p, n);
    asc_mul_scalar(x, x, 0.3989422804f, n);
    ASC_THEN();
    asc_max(m, p, m, n);
    ASC_THEN();
    asc_add(x, x, m, n);
    asc_mul(a, m, a, n);
    ASC_THEN();
    asc_mul(dup, a, g, n);
    asc_mul(m, x, g, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "geglu.asc.h"
#include "asc_each_type.h"
