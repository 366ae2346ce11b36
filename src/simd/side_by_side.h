/* src/simd/side_by_side.h - functions of several vectors side by side.
 *
 * A processor looks ahead over so many operations, finished or not. In a long chain of them that
 * wait for each other it finds little else to do, and a compiler leaves the chains of two vectors
 * one behind the other. Here each statement is for all vectors before the next one: of
 * softmax_jsd's terms two side by side take a quarter less time on a Zen 5. n is a constant, 4 at
 * most.
 */
#ifndef TG_SIMD_SIDE_BY_SIDE_H
#define TG_SIMD_SIDE_BY_SIDE_H

#include "simd.h"

#define V_EACH(n) _Pragma("GCC unroll 4") for (int k = 0; k < (n); k++)

/* scale exp(x) for n vectors x in [-120, 88] or NaN, scale a power of two, all factors of it
 * normal: relative error (|x| + 4) 2^-24. Less work than v_exp; 0 may stand for an exp(x) below
 * 2^-126. */
SIMD_INLINE void v_exp_scaled_each(int n, const vf *x, float scale, vf *result)
{
#if defined(__AVX512F__)
    const vf log2e = v_set(1.44269504f), magic = v_set(0x1.8p18f);
    vf t[4], whole[4], r[4], p[4];
    V_EACH(n) t[k] = x[k] * log2e + magic;
    V_EACH(n) whole[k] = t[k] - magic;
    V_EACH(n) r[k] = x[k] * log2e - whole[k];
    /* 2^r for |r| <= 1/64, exact at 0, relative error 5e-8 */
    V_EACH(n)
    p[k] = v_set(0.24022641777992249f * scale) * r[k] + v_set(0.6931573152542114f * scale);
    V_EACH(n) p[k] = p[k] * r[k] + v_set(scale);
    V_EACH(n) p[k] = v_root_of_two(t[k], 1.0f) * p[k];
    V_EACH(n) result[k] = (vf)_mm512_scalef_ps((__m512)p[k], (__m512)whole[k]);
#else
    V_EACH(n) result[k] = v_exp_from(x[k], v_origin_at(0.0f)) * v_set(scale);
#endif
}

/* exp(x) in a and exp(x) - 1 in b, for n vectors x in [-87, 0] or NaN: relative errors of about
 * (1 + |x|) 2^-24, and 2 ulp. No step has a subnormal result, which takes processors a hundred
 * times as long. */
SIMD_INLINE void v_exp_expm1_each(int n, const vf *x, vf2 *result)
{
    vf t[4], whole[4], r[4], q[4], power[4];
#if defined(__AVX512F__)
    /* x = whole ln 2 + r; where whole is 0, r is x and nothing but q rounds */
    const vf magic = v_set(0x1.8p18f);
    V_EACH(n) t[k] = x[k] * v_set(1.44269504f) + magic;
    V_EACH(n) whole[k] = t[k] - magic;
    V_EACH(n) r[k] = x[k] - whole[k] * v_set(0.693147182464599609375f);
    V_EACH(n)
    power[k] = (vf)_mm512_scalef_ps((__m512)v_root_of_two(t[k], 1.0f), (__m512)whole[k]);
    /* exp(r) - 1 for |r| <= ln 2 / 64, relative error 1.3e-8, and what power lacks: power - 1
     * must be that of 2^whole */
    V_EACH(n) q[k] = v_set(0.166666672f) * r[k] + v_set(0.500003695f);
    V_EACH(n) q[k] = q[k] * r[k] + v_set(1.0f);
    V_EACH(n) q[k] = q[k] * r[k] + v_root_of_two_rest(t[k]);
#else
    const vf magic = v_set(12582912.0f);
    V_EACH(n) whole[k] = x[k] * v_set(1.44269504f);
    V_EACH(n) t[k] = whole[k] + magic;
    V_EACH(n) r[k] = whole[k] - (t[k] - magic);
    V_EACH(n) power[k] = (vf)(((vi)t[k] - (vi)magic + 127) << 23);
    /* 2^r - 1 = r p(r) for |r| <= 1/2; p: minimax of degree 5, relative error 1e-8 */
    V_EACH(n) q[k] = v_set(0.000154035122250206768f) * r[k] + v_set(0.00133907352574169636f);
    V_EACH(n) q[k] = q[k] * r[k] + v_set(0.00961823761463165283f);
    V_EACH(n) q[k] = q[k] * r[k] + v_set(0.0555035732686519623f);
    V_EACH(n) q[k] = q[k] * r[k] + v_set(0.240226492285728455f);
    V_EACH(n) q[k] = q[k] * r[k] + v_set(0.693147182464599609f);
    V_EACH(n) q[k] = q[k] * r[k];
#endif
    V_EACH(n) result[k].a = q[k] * power[k] + power[k];
    V_EACH(n) result[k].b = q[k] * power[k] + (power[k] - v_set(1.0f));
}

#endif
