/* src/simd/simd_sigmoid.h - what is made of one exponential: sigmoid, silu, tanh,
 * erfc. Part of simd.h. */
#ifndef TG_SIMD_SIGMOID_H
#define TG_SIMD_SIGMOID_H

#include "simd_exp.h"

/* 1 / (1 + exp(-x)); exact 0 and 1 far out, subnormal numbers below -87 */
SIMD_INLINE vf v_sigmoid(vf x)
{
    /* exp(-|x|) cannot overflow, as exp(-x) does where the sigmoid is still a number */
    const vf power = v_exp(v_minus_abs(x)), large = v_set(1.0f) / (v_set(1.0f) + power);
    return v_if_negative(x, power * large, large);
}

/* 1 / (1 + exp(-x)) and 1 / (1 + exp(x)), which is 1 less the first, by one exponential.
 * exp(-|x|) cannot overflow, 1 + exp(-|x|) lies in [1, 2], and neither result cancels. */
typedef struct v_logistic {
    vf value, rest;
} v_logistic;

SIMD_INLINE v_logistic v_logistic_of(vf x)
{
    const vf power = v_exp_nonpositive(v_minus_abs(x));
    const vf large = v_recip(v_set(1.0f) + power), small = power * large;
    return (v_logistic){v_if_negative(x, small, large), v_if_negative(x, large, small)};
}

/* x / (1 + exp(-x)), within 4 ulp where |x| < 20, 7 ulp down to -87; -0 below -104. NaN stays NaN,
 * and -inf gives it, as the formula does. */
SIMD_INLINE vf v_silu(vf x)
{
#if defined(__AVX512F__)
    /* The exponential goes as in v_exp_nonpositive. 1 + exp is kept times 2^-64, so that neither it
     * nor its reciprocal overflows or becomes subnormal at |x| <= 126. */
    const vf near = (vf)_mm512_range_ps((__m512)x, (__m512)v_set(126.0f), 2); /* x's sign */
    const vf magic = v_set(0x1.8p18f);
    const vf t = magic - near * v_set(1.44269504f), n = t - magic;
    const vf r = n * v_set(0.693147182464599609375f) + near; /* exp(-x) = 2^n exp(-r) */
    const vf q = (r * v_set(0.5f) - v_set(1.0000146645f)) * r + v_set(1.0f);
    const vf power = (vf)_mm512_scalef_ps((__m512)v_root_of_two(t, 0x1p-64f), (__m512)n);
    return x * (v_recip(power * q + v_set(0x1p-64f)) * v_set(0x1p-64f));
#else
    /* exp(-|x|) cannot overflow, 1 + exp(-|x|) lies in [1, 2] */
    const vf power = v_exp(v_minus_abs(x)), large = v_recip(v_set(1.0f) + power);
    return x * v_if_negative(x, power * large, large);
#endif
}

/* tanh(x) and its derivative 1 - tanh(x)^2, each within its own relative error: 5 * 2^-24, and
 * (5 + 2|x|) 2^-24. NaN stays NaN. */
typedef struct v_tanhs {
    vf tanh, slope;
} v_tanhs;

SIMD_INLINE v_tanhs v_tanh_slope(vf x)
{
    /* p = exp(-2|x|) and p - 1, from which the rest follows by sums without cancellation:
     * tanh |x| = (1 - p) / (1 + p) and 1 - tanh^2 = 4 p / (1 + p)^2 */
    const vf y = v_max(v_set(-104.0f), v_minus_abs(x + x)), one = v_set(1.0f);
#if defined(__AVX512F__)
    /* as in v_exp_nonpositive; q is exp(r) - 1, relative error 1.4e-8 */
    const vf magic = v_set(0x1.8p18f), t = y * v_set(1.44269504f) + magic, n = t - magic;
    const vf r = y - n * v_set(0.693147182464599609375f);
    const vf q = (r * v_set(0.16666667f) + v_set(0.50000367f)) * (r * r) + r;
    const vf power = (vf)_mm512_scalef_ps((__m512)v_root_of_two(t, 1.0f), (__m512)n);
    const vf p = power * q + power,
             p_minus_1 = power * q + (power * v_root_of_two_rest(t) + (power - one));
#else
    const v_exp_parts e = v_exp_split(y);
    const vf power = v_exp_scale(one, e.shifted_n);
    const vf p = power * e.part + power, p_minus_1 = power * e.part + (power - one);
#endif
    const vf s = v_recip(one + p), twice = s + s;
    return (v_tanhs){v_copysign(p_minus_1 * s, x), twice * twice * p};
}

SIMD_INLINE vf v_tanh(vf x)
{
    return v_tanh_slope(x).tanh;
}

/* tanh(x) alone, with two thirds of the work; relative error 6 * 2^-24, so up to 1 + 2^-23. NaN
 * stays NaN. */
SIMD_INLINE vf v_tanh_rational(vf x)
{
    /* x p(x^2) / q(x^2) on [-9, 9], where tanh rounds to 1: minimax, relative error 2.1e-8 */
    const vf near = v_min(v_set(9.0f), v_max(v_set(-9.0f), x)), u = near * near;
    vf p = v_set(1.3354634731399528e-08f);
    p = p * u + v_set(2.060906081169378e-05f);
    p = p * u + v_set(0.0034955868031829596f);
    p = p * u + v_set(0.13381025195121765f);
    p = p * u + v_set(1.0f);
    vf q = v_set(7.776546908644377e-07f);
    q = q * u + v_set(0.0003285632701590657f);
    q = q * u + v_set(0.025876976549625397f);
    q = q * u + v_set(0.46714338660240173f);
    q = q * u + v_set(1.0f);
    return near * p * v_recip(q);
}

/* The normal distribution at -|x|: bell = exp(-x^2 / 2), and tail = its integral from -infinity to
 * -|x|, divided by sqrt(2 pi). Relative errors (1 + x^2) 2^-22 and (1 + x^2)
 * 2^-21. NaN stays NaN. */
typedef struct v_normals {
    vf bell, tail;
} v_normals;

SIMD_INLINE v_normals v_normal(vf x)
{
    const vf m = v_min(v_set(15.0f), v_abs(x)); /* where both are 0 */
    const vf bell = v_exp_nonpositive(m * m * v_set(-0.5f));
    /* tail / bell falls from 1/2 like 1 / m: with t = 1 / (1 + 0.346 m) it is t q(1 - t); q:
     * minimax of degree 8, relative error 2.2e-8 */
    const vf scaled = m * v_set(0.346f), t = v_recip(v_set(1.0f) + scaled), s = scaled * t;
    vf q = v_set(-0.02857433259487152f);
    q = q * s + v_set(0.08339162915945053f);
    q = q * s + v_set(-0.05204221233725548f);
    q = q * s + v_set(-0.02057555504143238f);
    q = q * s + v_set(-0.06970731914043427f);
    q = q * s + v_set(0.0963611751794815f);
    q = q * s + v_set(0.2821767032146454f);
    q = q * s + v_set(-0.6530102491378784f);
    q = q * s + v_set(0.5f);
    return (v_normals){bell, bell * t * q};
}

/* erfc(x); relative error (5 + 5 x^2) 2^-24. NaN stays NaN. */
SIMD_INLINE vf v_erfc(vf x)
{
    const vf twice = v_normal(x * v_set(1.41421356f)).tail * v_set(2.0f);
    return v_if_negative(x, v_set(2.0f) - twice, twice);
}

#endif
