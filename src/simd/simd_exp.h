/* src/simd/simd_exp.h - exponentials. Part of simd.h. */
#ifndef TG_SIMD_EXP_H
#define TG_SIMD_EXP_H

#include "simd_arithmetic.h"

/* exp(x) = 2^n (1 + part), |part| < 0.42. n is held as n + 1.5 * 2^23, which is
 * how it was rounded to
 * an integer. part has a relative error of an ulp or so, however small it is. */
typedef struct v_exp_parts {
    vf shifted_n, part;
} v_exp_parts;

/* x in [-104, 89] or NaN */
SIMD_INLINE v_exp_parts v_exp_split(vf x)
{
    /* x = n ln 2 + r, |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds to an integer */
    const vf magic = v_set(12582912.0f);
    const vf t = x * v_set(1.44269504f) + magic;
    const vf n = t - magic;
    const vf r = (x - n * v_set(0.693145751953125f)) - n * v_set(1.428606765330187e-06f);
    /* exp(r) = 1 + r + r^2 q(r); q: minimax of degree 4, relative error 3.3e-9 */
    vf q = v_set(0.0013813144760206342f);
    q = q * r + v_set(0.008369418792426586f);
    q = q * r + v_set(0.04166845604777336f);
    q = q * r + v_set(0.16666515171527863f);
    q = q * r + v_set(0.4999999403953552f);
    return (v_exp_parts){t, q * (r * r) + r};
}

/* p 2^n, for n in [-150, 128] as v_exp_split gives it */
SIMD_INLINE vf v_exp_scale(vf p, vf shifted_n)
{
    const vf magic = v_set(12582912.0f);
#if defined(__AVX512F__)
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)(shifted_n - magic));
#else
    /* 2^n in two factors, so that neither overflows and subnormal results round once */
    const vi n = (vi)shifted_n - (vi)magic;
    const vi half = n >> 1;
    const vf a = (vf)((half + 127) << 23), b = (vf)((n - half + 127) << 23);
    return p * a * b;
#endif
}

/* exp(x) for x in [-104, 89] or NaN, at most 1 ulp or so. */
SIMD_INLINE vf v_exp_within(vf x)
{
    const v_exp_parts e = v_exp_split(x);
    return v_exp_scale(e.part + v_set(1.0f), e.shifted_n);
}

/* exp(x), at most 1 ulp or so; 0 for -inf and below -104, +inf from 88.73 on, NaN stays NaN. */
SIMD_INLINE vf v_exp(vf x)
{
    /* v_max and v_min give their second operand where the first is NaN, so x comes second */
    return v_exp_within(v_min(v_set(89.0f), v_max(v_set(-104.0f), x)));
}

/* exp(x) for x <= 89 or NaN, but 0 below -87 instead of the subnormal numbers near there, which
 * processors are slow to make and to multiply. */
SIMD_INLINE vf v_exp_normal(vf x)
{
    const vf p = v_exp_within(v_max(v_set(-87.0f), x));
    return v_select(x < v_set(-87.0f), v_set(0.0f), p);
}

#if defined(__AVX512F__)
/* Entry k of 32, where t is n + 1.5 * 2^18 with n a multiple of 1/32 and 32 n is k modulo 32:
 * that sum leaves 32 n in the low bits, of which the permutation takes five. unit times the
 * entry; unit is a constant. */
SIMD_INLINE vf v_look_up(const float table[32], vf t, float unit)
{
    const vf low = (vf)_mm512_load_ps(table) * unit, high = (vf)_mm512_load_ps(table + 16) * unit;
    return (vf)_mm512_permutex2var_ps((__m512)low, (__m512i)t, (__m512)high);
}

/* unit 2^(n - floor(n)) */
SIMD_INLINE vf v_root_of_two(vf t, float unit)
{
    static const float roots[32] __attribute__((aligned(64))) = {
        0x1.000000p+0f, 0x1.059b0ep+0f, 0x1.0b5586p+0f, 0x1.11301ep+0f, 0x1.172b84p+0f,
        0x1.1d4874p+0f, 0x1.2387a6p+0f, 0x1.29e9e0p+0f, 0x1.306fe0p+0f, 0x1.371a74p+0f,
        0x1.3dea64p+0f, 0x1.44e086p+0f, 0x1.4bfdaep+0f, 0x1.5342b6p+0f, 0x1.5ab07ep+0f,
        0x1.6247ecp+0f, 0x1.6a09e6p+0f, 0x1.71f75ep+0f, 0x1.7a1148p+0f, 0x1.82589ap+0f,
        0x1.8ace54p+0f, 0x1.93737cp+0f, 0x1.9c4918p+0f, 0x1.a5503cp+0f, 0x1.ae89fap+0f,
        0x1.b7f770p+0f, 0x1.c199bep+0f, 0x1.cb720ep+0f, 0x1.d5818ep+0f, 0x1.dfc974p+0f,
        0x1.ea4afap+0f, 0x1.f50766p+0f};
    return v_look_up(roots, t, unit);
}

/* What rounding left of those, relative to them. */
SIMD_INLINE vf v_root_of_two_rest(vf t)
{
    static const float rest[32] __attribute__((aligned(64))) = {
        0.0000000e+00f,  -4.7084576e-08f, 4.6285471e-08f,  -5.5604225e-08f, -1.1992157e-08f,
        -4.8776062e-08f, 4.7297824e-08f,  -3.4814427e-08f, 3.1934182e-08f,  -2.6886665e-08f,
        3.6210572e-08f,  1.1184210e-09f,  -3.0990719e-08f, -2.6383010e-08f, -7.4752133e-09f,
        -4.2456357e-08f, 1.7114271e-08f,  2.3001967e-08f,  -3.0476834e-08f, -1.6538538e-08f,
        5.2333342e-09f,  -3.5920646e-08f, 6.1075918e-09f,  -3.1140544e-08f, -1.4719605e-08f,
        -2.8218102e-08f, -5.2587952e-09f, -6.3603873e-09f, -6.1282597e-09f, -2.4880409e-08f,
        5.1406093e-09f,  -8.6972669e-09f};
    return v_look_up(rest, t, 1.0f);
}
#endif

/* exp(x) for x <= 0 or NaN, with less work than v_exp: 0 below -104. Relative error
 * 2^-22 + |x| 2^-28. */
SIMD_INLINE vf v_exp_nonpositive(vf x)
{
#if defined(__AVX512F__)
    /* x = n ln 2 + r with n a multiple of 1/32, so |r| <= ln 2 / 64, and
     * exp(x) = 2^floor(n) * 2^(n - floor(n)) * exp(r). Adding 1.5 * 2^18 rounds to multiples of
     * 1/32. scalef itself takes the floor of n. */
    const vf clamped = v_max(v_set(-104.0f), x), magic = v_set(0x1.8p18f);
    const vf t = clamped * v_set(1.44269504f) + magic, n = t - magic;
    const vf r = clamped - n * v_set(0.693147182464599609375f);
    const vf q = r * (r * v_set(0.5f) + v_set(1.0000146645f)); /* exp(r) - 1, error 5e-8 */
    const vf power = v_root_of_two(t, 1.0f);
    return (vf)_mm512_scalef_ps((__m512)(power * q + power), (__m512)n);
#else
    return v_exp(x);
#endif
}

/* ---- many exponentials relative to one point, as softmax and its losses need them ----
 *
 * v_exp_from(x, o) is exp(x - o.at), about 1.2 ulp besides the rounding of (x - at) log2(e), so
 * meant for x not far above `at`, and for |at| up to V_ORIGIN_FAR: beyond, o.at lies too far from
 * the point asked for. Below 2^-126 the result may be 0; 0 for -inf; above 2^127 it is some larger
 * number; NaN stays NaN. Much cheaper than v_exp: where there is FMA, log2(e) (x - at) is one
 * instruction, for which o.at lies within a rounding error of the point asked for. */
#define V_ORIGIN_FAR 0x1p20f

typedef struct v_origin {
    double at;
    vf scaled;
} v_origin;

SIMD_INLINE v_origin v_origin_at(float at)
{
#if defined(__FMA__) || defined(__aarch64__)
    const float scaled = at * 1.44269504f;
    return (v_origin){(double)scaled / 1.44269504f, v_set(scaled)};
#else
    return (v_origin){at, v_set(at)};
#endif
}

/* 2^y, about 1.2 ulp. Below 2^-126 the result may be 0; 0 for -inf; above 2^127 it is some larger
 * number; NaN stays NaN. */
SIMD_INLINE vf v_exp2(vf y)
{
#if defined(__AVX512F__)
    const vf r = (vf)_mm512_reduce_ps((__m512)y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    y = v_min(v_set(127.5f), v_max(v_set(-126.5f), y));
#if defined(__AVX2__)
    const vf n = (vf)_mm256_floor_ps((__m256)y);
#elif defined(__aarch64__)
    const vf n = (vf)vrndmq_f32((float32x4_t)y);
#else
    const vf magic = v_set(12582912.0f);
    const vf n = (y - v_set(0.5f) + magic) - magic;
#endif
    const vf r = y - n;
#endif
    /* 2^r on [0, 1], exact at 0, relative error 8e-8 */
    vf p = v_set(0.00186713004950434f);
    p = p * r + v_set(0.00901703070849180f);
    p = p * r + v_set(0.0557999126613140f);
    p = p * r + v_set(0.240164443850517f);
    p = p * r + v_set(0.693151295185089f);
    p = p * r + v_set(1.0f);
#if defined(__AVX512F__)
    /* p 2^floor(y), and 0 instead of subnormal numbers: whoever multiplies those waits for them */
    const __mmask16 normal = _mm512_cmp_ps_mask((__m512)y, (__m512)v_set(-126.0f), _CMP_NLT_UQ);
    return (vf)_mm512_maskz_scalef_ps(normal, (__m512)p, (__m512)y);
#else
    return p * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
#endif
}

SIMD_INLINE vf v_exp_from(vf x, v_origin o)
{
#if defined(__AVX512F__)
    return v_exp2((vf)_mm512_fmsub_ps((__m512)x, (__m512)v_set(1.44269504f), (__m512)o.scaled));
#elif defined(__FMA__) && defined(__AVX2__)
    return v_exp2((vf)_mm256_fmsub_ps((__m256)x, (__m256)v_set(1.44269504f), (__m256)o.scaled));
#elif defined(__aarch64__)
    return v_exp2((vf)vfmaq_n_f32((float32x4_t)-o.scaled, (float32x4_t)x, 1.44269504f));
#else
    return v_exp2((x - o.scaled) * v_set(1.44269504f));
#endif
}

/* scale exp(x) for x in [-120, 88] or NaN, scale a power of two, all factors of it normal: relative
 * error (|x| + 4) 2^-24. Less work than v_exp; 0 may stand for an exp(x) below 2^-126. */
SIMD_INLINE vf v_exp_scaled(vf x, float scale)
{
#if defined(__AVX512F__)
    const vf log2e = v_set(1.44269504f), magic = v_set(0x1.8p18f);
    const vf t = x * log2e + magic, n = t - magic, r = x * log2e - n;
    /* 2^r for |r| <= 1/64, exact at 0, relative error 5e-8 */
    vf p = v_set(0.24022641777992249f * scale);
    p = p * r + v_set(0.6931573152542114f * scale);
    p = p * r + v_set(scale);
    return (vf)_mm512_scalef_ps((__m512)(v_root_of_two(t, 1.0f) * p), (__m512)n);
#else
    return v_exp_from(x, v_origin_at(0.0f)) * v_set(scale);
#endif
}

#endif
