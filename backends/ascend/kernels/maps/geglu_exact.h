/* geglu_exact.h - gelu(a) = a Phi(a), on f32 in UB.
 *
 * With m = |a|, Phi(-m) = lead e p(m) / q(m), e = exp(-m^2 / 2), p and q monic. The first three
 * fits are minimax for the relative error in m < 14.3, of 2^-16, 2^-24 and 2^-27. That of f16 has
 * 2^-20, growing with m^2 from m = 1.4 on as what the rounding of a gate does to the result, and
 * ends at m = 7.3: beyond, the largest up makes the smallest number of f16 of it. Each type's
 * results are as exact with its own fit as its rounding lets one see. */
#ifndef GEGLU_EXACT_H
#define GEGLU_EXACT_H

#include "shared/asc_common.h"

enum { GELU_P = 4, GELU_Q = 5 };

typedef struct gelu_fit {
    int p_degree, q_degree;
    /* So that nothing is flushed that the result does not flush: e as the square of exp(-m^2 / 4),
     * or exp(shift) times as large, and lead as much smaller. */
    int roots;
    float shift;
    float lead;
    float p[GELU_P], q[GELU_Q]; /* from the second highest power on */
} gelu_fit;

static inline __aicore__ gelu_fit gelu_fit_of_2(void)
{
    const gelu_fit fit = {2,
                          3,
                          0,
                          8.317766167f, /* 12 ln 2 */
                          0.399574168f * 0x1p-12f,
                          {4.55612671f, 8.39363495f},
                          {4.60472843f, 8.99651684f, 6.70765115f}};
    return fit;
}

static inline __aicore__ gelu_fit gelu_fit_of_3(void)
{
    const gelu_fit fit = {3,
                          4,
                          0,
                          8.317766167f,
                          0.39880717f * 0x1p-12f,
                          {7.51939496f, 23.7823566f, 34.8039636f},
                          {7.50571665f, 24.9263425f, 41.1184287f, 27.7601421f}};
    return fit;
}

static inline __aicore__ gelu_fit gelu_fit_of_4(void)
{
    const gelu_fit fit = {4,
                          5,
                          1,
                          0.0f,
                          0.39894656f,
                          {9.84322128f, 44.2955039f, 105.769329f, 120.388579f},
                          {9.84391443f, 45.2821429f, 115.80151f, 161.035234f, 96.0572185f}};
    return fit;
}

/* lead, which is -3.83618119e-4, is in e but for its sign. */
static inline __aicore__ gelu_fit gelu_fit_of_f16(void)
{
    const gelu_fit fit = {3,
                          3,
                          0,
                          -7.86586298f,
                          -1.0f,
                          {-1062.40114f, -5464.31864f, -12450.8054f},
                          {5.46261578f, 11.8147649f, 9.55270084f}};
    return fit;
}

/* Beyond it the normal distribution is 0 or 1. */
#define GELU_FAR 30.0f

/* Blocks of 8 words: the coefficients that mul_add takes, the shift, and a mask of 16 bits. */
enum { GELU_P_BLOCK = 0, GELU_Q_BLOCK = 3, GELU_SHIFT_BLOCK = 7, GELU_MASK_BLOCK = 8 };

static inline __aicore__ void gelu_constants(const gelu_fit *fit, __ubuf__ float *c)
{
    for (int i = 1; i < fit->p_degree; i++)
        asc_duplicate(c + 8 * (GELU_P_BLOCK + i - 1), fit->p[i], 8);
    for (int i = 1; i < fit->q_degree; i++)
        asc_duplicate(c + 8 * (GELU_Q_BLOCK + i - 1), fit->q[i], 8);
    asc_duplicate(c + 8 * GELU_SHIFT_BLOCK, fit->shift, 8);
    asc_duplicate((__ubuf__ uint16_t *)(c + 8 * GELU_MASK_BLOCK), (uint16_t)0x7fff, 16);
    ASC_THEN();
}

/* p = p m + c, c a block: a repeat form, in counter mode as long as a tile */
#define GELU_STEP(p, m, c, block) asc_mul_add(p, m, (c) + 8 * (block), 1, 1, 1, 0, 8, 8, 0)

/* m: |a|, limited. On return x is exp(-m^2 / 4), or e, p = scale p(m) and q = q(m). A scale other
 * than 1 needs a q of higher degree than p. */
static inline __aicore__ void gelu_normal(const gelu_fit *fit, float scale, __ubuf__ float *p,
                                          __ubuf__ float *x, __ubuf__ float *m, __ubuf__ float *q,
                                          __ubuf__ float *c, uint32_t n)
{
    asc_mul_scalar(x, m, fit->roots ? -0.25f : -0.5f, n);
    asc_add_scalar(p, m, fit->p[0], n);
    asc_add_scalar(q, m, fit->q[0], n);
    ASC_THEN();
    asc_set_mask_count();
    asc_set_vector_mask(0, n);
    GELU_STEP(x, m, c, GELU_SHIFT_BLOCK);
    for (int i = 1; i < fit->q_degree; i++) {
        GELU_STEP(q, m, c, GELU_Q_BLOCK + i - 1);
        if (i < fit->p_degree)
            GELU_STEP(p, m, c, GELU_P_BLOCK + i - 1);
        else if (scale != 1.0f)
            asc_mul_scalar(p, p, scale, 1, 1, 1, 8, 8);
        if (i == 2)
            asc_exp(x, x, 1, 1, 1, 8, 8);
        ASC_THEN();
    }
    asc_set_mask_norm();
}

/* h = |gate|, limited, and max(gate, 0), with a product with 0 that makes NaN of
 * -infinity, as the definition
 * does. f32 and f16: max(gate, 0) where gate is; bf16, which has no arithmetic: in r. scratch:
 * as large as gate. */
static inline __aicore__ void gelu_parts_f32(__ubuf__ float *h, __ubuf__ float *r,
                                             __ubuf__ float *gate, __ubuf__ float *scratch,
                                             __ubuf__ float *c, uint32_t n)
{
    asc_abs(h, gate, n);
    ASC_THEN();
    asc_min_scalar(h, h, GELU_FAR, n);
    asc_leakyrelu(gate, gate, 0.0f, n);
    ASC_THEN();
    (void)r, (void)scratch, (void)c;
}

/* Of 16 bits, twice as many a cycle: the magnitude's bits are ordered as integers are. */
static inline __aicore__ void gelu_magnitude(__ubuf__ uint16_t *m, __ubuf__ uint16_t *bits,
                                             __ubuf__ float *c, uint32_t n)
{
    asc_set_mask_count();
    asc_set_vector_mask(0, n);
    asc_and(m, bits, (__ubuf__ uint16_t *)(c + 8 * GELU_MASK_BLOCK), 1, 1, 1, 0, 8, 8, 0);
    asc_set_mask_norm();
}

static inline __aicore__ void gelu_parts_bf16(__ubuf__ float *h, __ubuf__ float *r,
                                              __ubuf__ bfloat16_t *gate,
                                              __ubuf__ bfloat16_t *scratch, __ubuf__ float *c,
                                              uint32_t n)
{
    __ubuf__ int16_t *m = (__ubuf__ int16_t *)scratch;
    gelu_magnitude((__ubuf__ uint16_t *)scratch, (__ubuf__ uint16_t *)gate, c, n);
    ASC_THEN();
    asc_min_scalar(m, m, (int16_t)0x41f0, n); /* GELU_FAR */
    asc_bfloat162float(r, gate, n);
    ASC_THEN();
    asc_bfloat162float(h, scratch, n);
    asc_leakyrelu(r, r, 0.0f, n);
    ASC_THEN();
}

static inline __aicore__ void gelu_parts_f16(__ubuf__ float *h, __ubuf__ float *r,
                                             __ubuf__ half *gate, __ubuf__ half *scratch,
                                             __ubuf__ float *c, uint32_t n)
{
    __ubuf__ int16_t *m = (__ubuf__ int16_t *)scratch;
    gelu_magnitude((__ubuf__ uint16_t *)scratch, (__ubuf__ uint16_t *)gate, c, n);
    ASC_THEN();
    asc_min_scalar(m, m, (int16_t)0x4f80, n); /* GELU_FAR */
    asc_leakyrelu(gate, gate, (half)0.0f, n);
    ASC_THEN();
    asc_half2float(h, scratch, n);
    ASC_THEN();
    (void)r;
}

/* h: |a|, limited; x, p, q: scratch. h becomes |a| e, and p its factor but for lead. */
static inline __aicore__ void gelu_tail(const gelu_fit *fit, __ubuf__ float *h, __ubuf__ float *x,
                                        __ubuf__ float *p, __ubuf__ float *q, __ubuf__ float *c,
                                        uint32_t n)
{
    gelu_normal(fit, 1.0f, p, x, h, q, c, n);
    asc_div(p, p, q, n);
    asc_mul(h, h, x, n);
    ASC_THEN();
    if (fit->roots) {
        asc_mul(p, p, x, n);
        ASC_THEN();
    }
}

/* gelu(a) = max(a, 0) - |a| Phi(-|a|). Returns where it is. */
static inline __aicore__ __ubuf__ float *gelu_join_f32(const gelu_fit *fit, __ubuf__ float *h,
                                                       __ubuf__ float *p, __ubuf__ float *r,
                                                       __ubuf__ float *gate, uint32_t n)
{
    asc_mul(p, h, p, n);
    ASC_THEN();
    asc_axpy(gate, p, -fit->lead, n);
    ASC_THEN();
    (void)r;
    return gate;
}

static inline __aicore__ __ubuf__ float *gelu_join_bf16(const gelu_fit *fit, __ubuf__ float *h,
                                                        __ubuf__ float *p, __ubuf__ float *r,
                                                        __ubuf__ bfloat16_t *gate, uint32_t n)
{
    (void)gate;
    return gelu_join_f32(fit, h, p, r, r, n);
}

/* That of f16 is a sum with what is half, and p negative. */
static inline __aicore__ __ubuf__ float *gelu_join_f16(const gelu_fit *fit, __ubuf__ float *h,
                                                       __ubuf__ float *p, __ubuf__ float *r,
                                                       __ubuf__ half *gate, uint32_t n)
{
    asc_mul(h, h, p, n);
    ASC_THEN();
    asc_axpy(h, gate, (half)1.0f, n);
    ASC_THEN();
    (void)fit, (void)r;
    return h;
}

/* From the density of the normal distribution to e as it is in UB. */
static inline __aicore__ float gelu_bell_scale(const gelu_fit *fit)
{
    return fit->roots ? 2.506628275f : 2.506628275f * 0x1p12f;
}

/* a: gate; q: scratch. On return m is the density, p = Phi(-|a|), and r is 1 where a is
 * positive, else 0. */
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
    gelu_normal(fit, fit->lead * gelu_bell_scale(fit), p, x, m, q, c, n);
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

#endif
