/* src/simd/simd_log.h - log, and the pair exp(x) - 1, log(1 + x), which keeps its digits where both
 * are small. Part of simd.h. */
#ifndef TG_SIMD_LOG_H
#define TG_SIMD_LOG_H

#include "simd_exp.h"

/* x = 2^k m, m in [3/4, 3/2). For 0 and infinity k is infinite and m is 1; below 0 m is NaN. */
typedef struct v_parts {
    vf k, m;
} v_parts;

SIMD_INLINE v_parts v_split(vf x)
{
#if defined(__AVX512F__)
    const __m512 m = _mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
    return (v_parts){(vf)_mm512_getexp_ps((__m512)x) - (vf)_mm512_getexp_ps(m), (vf)m};
#else
    const vi subnormal = x < v_set(0x1p-126f);
    const vu bits = (vu)v_select(subnormal, x * v_set(0x1p23f), x);
    const vi k = (vi)(bits - 0x3f400000u) >> 23;
    const vi shift = subnormal & 23;
    vf m = (vf)(bits - ((vu)k << 23)), e = __builtin_convertvector(k - shift, vf);
    const vf infinite = v_set(INFINITY);
    const vi ends = (x == v_set(0.0f)) | (x == infinite);
    e = v_select(ends, v_select(x == infinite, infinite, -infinite), e);
    m = v_select(ends, v_set(1.0f), m);
    return (v_parts){e, v_select(x >= v_set(0.0f), m, v_set(NAN))};
#endif
}

/* k ln 2 + log(1 + f), f in [-1/4, 1/2) */
SIMD_INLINE vf v_log_parts(vf k, vf f)
{
    /* log(1 + f) = f - f^2 / 2 + f^3 p(f); p: minimax of degree 6, relative error
     * of the whole 4e-8 */
    vf p = v_set(0.05559725314378738f);
    p = p * f + v_set(-0.12114137411117554f);
    p = p * f + v_set(0.14904440939426422f);
    p = p * f + v_set(-0.16788817942142487f);
    p = p * f + v_set(0.19982320070266724f);
    p = p * f + v_set(-0.24996361136436462f);
    p = p * f + v_set(0.33333471417427063f);
    p = p * f + v_set(-0.5f);
    return k * v_set(0.693147181f) + ((p * f) * f + f); /* f * f could be subnormal */
}

/* log(x), about 1.5 ulp, also of subnormal x; -inf for 0, NaN below. */
SIMD_INLINE vf v_log(vf x)
{
    const v_parts s = v_split(x);
    return v_log_parts(s.k, s.m - v_set(1.0f));
}

/* log(1 + x) for x >= -1 or NaN, 3 ulp of the result at most, however small x is. */
SIMD_INLINE vf v_log1p(vf x)
{
    const v_parts s = v_split(v_set(1.0f) + x);
    /* around 1, x itself has the digits that 1 + x has lost */
    return v_log_parts(s.k, v_select(s.k == v_set(0.0f), x, s.m - v_set(1.0f)));
}

/* exp(x) in a and exp(x) - 1 in b, for x in [-200, 0] or NaN: relative errors of about
 * (1 + |x|) 2^-24, and 2 ulp. exp(x) below 2^-125 may be 0: no step has a subnormal result, which
 * takes processors a hundred times as long. */
SIMD_INLINE vf2 v_exp_expm1(vf x)
{
#if defined(__AVX512F__)
    /* x = n ln 2 + r; where n is 0, r is x and nothing but q rounds */
    const vf magic = v_set(0x1.8p18f), t = x * v_set(1.44269504f) + magic, n = t - magic;
    const vf r = x - n * v_set(0.693147182464599609375f);
    const __mmask16 normal =
        _mm512_cmp_ps_mask((__m512)n, _mm512_set1_ps(-125.0f), _CMP_NLT_UQ); /* NaN, too */
    const vf power = (vf)_mm512_maskz_scalef_ps(normal, (__m512)v_root_of_two(t, 1.0f), (__m512)n);
    /* exp(r) - 1 for |r| <= ln 2 / 64, relative error 1.3e-8, and what power lacks: power - 1
     * must be that of 2^n */
    vf q = v_set(0.166666672f);
    q = q * r + v_set(0.500003695f);
    q = q * r + v_set(1.0f);
    q = q * r + v_root_of_two_rest(t);
#else
    /* 2^-127 is 0 */
    const vf y = v_max(v_set(-127.0f), x * v_set(1.44269504f)), magic = v_set(12582912.0f);
    const vf t = y + magic, n = t - magic;
    const vf power = (vf)(((vi)t - (vi)magic + 127) << 23);
    /* 2^r - 1 = r p(r) for |r| <= 1/2; p: minimax of degree 5, relative error 1e-8 */
    const vf r = y - n;
    vf p = v_set(0.000154035122250206768f);
    p = p * r + v_set(0.00133907352574169636f);
    p = p * r + v_set(0.00961823761463165283f);
    p = p * r + v_set(0.0555035732686519623f);
    p = p * r + v_set(0.240226492285728455f);
    p = p * r + v_set(0.693147182464599609f);
    const vf q = p * r;
#endif
    return (vf2){q * power + power, q * power + (power - v_set(1.0f))};
}

#endif
