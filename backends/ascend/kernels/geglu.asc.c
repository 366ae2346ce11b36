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
 * With m = |a|, Phi(-m) = e p(m) / q(m), e = exp(-m^2 / 2); p of degree d, q monic of degree d + 1, both minimax for the
 * relative error in m < 14.3: of 2^-16 (d = 2), 2^-24 (d = 3), 2^-27 (d = 4). Each type's results are as exact
 * with its own fit as its rounding lets one see. */

enum { GELU_TERMS = 5 };

typedef struct gelu_fit {
    int degree;
    int roots; /* 1: e as the square of exp(-m^2 / 4), which reaches into the subnormal numbers of f32 */
    float
        shift; /* 0: else e is exp(shift) times as large, for the same reason, and p as much smaller */
    float p[GELU_TERMS], q[GELU_TERMS]; /* from the highest power on; q without its 1 */
} gelu_fit;

/* 2^-12 is in p's coefficients, and 12 ln 2 is the shift. */
#define GELU_SHIFT 8.317766167f
#define GELU_SHIFTED(c) ((c)*0x1p-12f)

static inline __aicore__ gelu_fit gelu_fit_of_2(void)
{
    const gelu_fit fit = {
        2,
        0,
        GELU_SHIFT,
        {GELU_SHIFTED(0.399574168f), GELU_SHIFTED(1.82051054f), GELU_SHIFTED(3.3538797f)},
        {4.60472843f, 8.99651684f, 6.70765115f}};
    return fit;
}

static inline __aicore__ gelu_fit gelu_fit_of_3(void)
{
    const gelu_fit fit = {3,
                          0,
                          GELU_SHIFT,
                          {GELU_SHIFTED(0.39880717f), GELU_SHIFTED(2.99878857f),
                           GELU_SHIFTED(9.48457433f), GELU_SHIFTED(13.8800702f)},
                          {7.50571665f, 24.9263425f, 41.1184287f, 27.7601421f}};
    return fit;
}

static inline __aicore__ gelu_fit gelu_fit_of_4(void)
{
    const gelu_fit fit = {4,
                          1,
                          0.0f,
                          {0.39894656f, 3.92691927f, 17.6715389f, 42.1963099f, 48.0286096f},
                          {9.84391443f, 45.2821429f, 115.80151f, 161.035234f, 96.0572185f}};
    return fit;
}

/* c: room for 8 blocks: the coefficients that mul_add takes, and the shift. scale: of p, here and in gelu_normal() */
static inline __aicore__ void gelu_constants(const gelu_fit *fit, float scale, __ubuf__ float *c)
{
    for (int i = 2; i <= fit->degree; i++)
        asc_duplicate(c + 8 * (i - 2), scale * fit->p[i], 8);
    for (int i = 1; i <= fit->degree; i++)
        asc_duplicate(c + 8 * (2 + i), fit->q[i], 8);
    asc_duplicate(c + 56, fit->shift, 8);
    ASC_THEN();
}

/* p = p m + c, c a block: a repeat form, in counter mode as long as a tile */
#define GELU_STEP(p, m, c) asc_mul_add(p, m, c, 1, 1, 1, 0, 8, 8, 0)

/* m: |a|, limited. On return x is exp(-m^2 / 4), or e, p = p(m) and q = q(m). */
static inline __aicore__ void gelu_normal(const gelu_fit *fit, float scale, __ubuf__ float *p,
                                          __ubuf__ float *x, __ubuf__ float *m, __ubuf__ float *q,
                                          __ubuf__ float *c, uint32_t n)
{
    asc_mul_scalar(x, m, fit->roots ? -0.25f : -0.5f, n);
    asc_mul_scalar(p, m, scale * fit->p[0], n);
    asc_add_scalar(q, m, fit->q[0], n);
    ASC_THEN();
    asc_add_scalar(p, p, scale * fit->p[1], n);
    asc_set_mask_count();
    asc_set_vector_mask(0, n);
    GELU_STEP(x, m, c + 56);
    for (int i = 1; i <= fit->degree; i++) {
        GELU_STEP(q, m, c + 8 * (2 + i));
        if (i > 1)
            GELU_STEP(p, m, c + 8 * (i - 2));
        if (i == 2)
            asc_exp(x, x, 1, 1, 1, 8, 8);
        ASC_THEN();
    }
    asc_set_mask_norm();
}

/* a: gate; h, x, p, q: scratch. h becomes gelu(a) as max(a, 0) - |a| Phi(-|a|), max(a, 0) with a product with 0
 * that makes NaN of -infinity, as the definition does. */
static inline __aicore__ void gelu_exact(const gelu_fit *fit, __ubuf__ float *h, __ubuf__ float *x,
                                         __ubuf__ float *a, __ubuf__ float *p, __ubuf__ float *q,
                                         __ubuf__ float *c, uint32_t n)
{
    asc_abs(h, a, n);
    ASC_THEN();
    asc_min_scalar(h, h, GELU_FAR, n);
    asc_leakyrelu(a, a, 0.0f, n);
    ASC_THEN();
    gelu_normal(fit, -1.0f, p, x, h, q, c, n);
    asc_div(p, p, q, n);
    asc_mul(h, h, x, n);
    ASC_THEN();
    if (fit->roots) {
        asc_mul(p, p, x, n);
        ASC_THEN();
    }
    asc_mul_add(h, p, a, n);
    ASC_THEN();
}

/* From the density of the normal distribution to e as it is in UB. */
static inline __aicore__ float gelu_bell_scale(const gelu_fit *fit)
{
    return fit->roots ? 2.506628275f : 2.506628275f * 0x1p12f;
}

/* a: gate; q: scratch. On return m is the density, p = Phi(-|a|), and r is 1 where a is positive, else 0. */
static inline __aicore__ void gelu_bells(const gelu_fit *fit, __ubuf__ float *m, __ubuf__ float *p,
                                         __ubuf__ float *r, __ubuf__ float *a, __ubuf__ float *q,
                                         __ubuf__ float *x, __ubuf__ float *c, uint32_t n)
{
    asc_abs(m, a, n);
    asc_relu(r, a, n);
    ASC_THEN();
    asc_min_scalar(m, m, GELU_FAR, n);
    asc_mul_scalar(r, r, 3e38f, n);
    ASC_THEN();
    asc_min_scalar(r, r, 1.0f, n);
    gelu_normal(fit, gelu_bell_scale(fit), p, x, m, q, c, n);
    asc_div(p, p, q, n);
    if (fit->roots) {
        asc_mul(x, x, x, n);
        ASC_THEN();
    }
    asc_mul_scalar(m, x, 1.0f / gelu_bell_scale(fit), n);
    ASC_THEN();
    asc_mul(p, p, m, n);
    ASC_THEN();
}

/* The products behind it, Phi(a) = max(p, r - p), dup = dy a Phi(a),
 * and m becomes dy (Phi(a) + a m). r is used up; dup may be a. */
static inline __aicore__ void gelu_exact_products(__ubuf__ float *dup, __ubuf__ float *m,
                                                  __ubuf__ float *g, __ubuf__ float *a,
                                                  __ubuf__ float *p, __ubuf__ float *r,
                                                  __ubuf__ float *x, uint32_t n)
{
    asc_sub(r, r, p, n);
    ASC_THEN();
    asc_max(r, p, r, n);
    ASC_THEN();
    asc_mul_add(m, a, r, n);
    asc_mul(x, r, a, n);
    ASC_THEN();
    asc_mul(dup, x, g, n);
    asc_mul(m, m, g, n);
    ASC_THEN();
}

/* Forward, a rounding to 8 bits hides what the shortest fit is off by; backward, gelu' passes through zero. */
#define gelu_forward_fit_f32 gelu_fit_of_4
#define gelu_forward_fit_bf16 gelu_fit_of_2
#define gelu_forward_fit_f16 gelu_fit_of_3
#define gelu_backward_fit_f32 gelu_fit_of_4
#define gelu_backward_fit_bf16 gelu_fit_of_3
#define gelu_backward_fit_f16 gelu_fit_of_3

#define ASC_TEMPLATE "geglu.asc.h"
#include "asc_each_type.h"
