/* src/simd/simd_arithmetic.h - vectors of float: arithmetic, comparisons and sums over
 * lanes. Part of simd.h. */
#ifndef TG_SIMD_ARITHMETIC_H
#define TG_SIMD_ARITHMETIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* VL, and how many vectors the registers hold */
#if defined(__AVX512F__)
#define VL 16
#define SIMD_REGISTERS 32
#elif defined(__AVX2__)
#define VL 8
#define SIMD_REGISTERS 16
#elif defined(__aarch64__)
#define VL 4
#define SIMD_REGISTERS 32
#else
#define VL 4
#define SIMD_REGISTERS 16
#endif

#define SIMD_INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef uint16_t vh __attribute__((vector_size(2 * VL)));
typedef float vf_mem __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint16_t vh_mem __attribute__((vector_size(2 * VL), aligned(2), may_alias));

typedef struct vf2 {
    vf a, b;
} vf2;

typedef enum el { EL_F32, EL_BF16, EL_F16 } el;

SIMD_INLINE int el_size(el e)
{
    return e == EL_F32 ? 4 : 2;
}

/* Calls fn(EL_..., args) with a constant type. fn: SIMD_INLINE. */
#define EL_SPECIALIZE(e, fn, ...)     \
    do {                              \
        if ((e) == EL_F32)            \
            fn(EL_F32, __VA_ARGS__);  \
        else if ((e) == EL_BF16)      \
            fn(EL_BF16, __VA_ARGS__); \
        else                          \
            fn(EL_F16, __VA_ARGS__);  \
    } while (0)

/* ---- arithmetic: + - * / and comparisons are the compiler's own ---- */

SIMD_INLINE vf v_set(float x)
{
    return x - (vf){0};
}

SIMD_INLINE vi v_seti(int32_t x)
{
    return x - (vi){0};
}

/* mask lanes are all ones or all zeros, as comparisons give them */
SIMD_INLINE vf v_select(vi mask, vf yes, vf no)
{
#if defined(__aarch64__)
    return (vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)yes, (float32x4_t)no);
#else
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
#endif
}

/* yes where the sign bit of a is set: one or two instructions */
SIMD_INLINE vf v_if_negative(vf a, vf yes, vf no)
{
#if defined(__AVX512DQ__)
    return (vf)_mm512_mask_mov_ps((__m512)no, _mm512_movepi32_mask((__m512i)a), (__m512)yes);
#elif defined(__AVX2__)
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)a);
#else
    return v_select((vi)a >> 31, yes, no);
#endif
}

/* The larger; b where either is NaN. */
SIMD_INLINE vf v_max(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return v_select(a > b, a, b);
#endif
}

/* The smaller; b where either is NaN. */
SIMD_INLINE vf v_min(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return v_select(a < b, a, b);
#endif
}

SIMD_INLINE vf v_abs(vf a)
{
    return (vf)((vi)a & v_seti(0x7fffffff));
}

/* 1 / a, within 1 ulp, for normal a with a normal reciprocal; NaN stays NaN. Where division is
 * slow, this is not. */
SIMD_INLINE vf v_recip(vf a)
{
#if defined(__AVX512F__)
    /* 14 bits, doubled by one Newton step */
    const vf r = (vf)_mm512_rcp14_ps((__m512)a);
    return r + r * (v_set(1.0f) - a * r);
#elif defined(__aarch64__)
    /* 8 bits, doubled by each of two Newton steps; the second one rounds once, at its end */
    const float32x4_t x = (float32x4_t)a, half = vrecpeq_f32(x),
                      most = vmulq_f32(half, vrecpsq_f32(x, half));
    return (vf)vfmaq_f32(most, most, vfmsq_f32(vdupq_n_f32(1.0f), x, most));
#else
    return v_set(1.0f) / a;
#endif
}

SIMD_INLINE vf v_minus_abs(vf a)
{
    return (vf)((vu)a | 0x80000000u);
}

/* |a| with the sign of b */
SIMD_INLINE vf v_copysign(vf a, vf b)
{
    const vi magnitude = v_seti(0x7fffffff); /* bits of a where it is set, of b elsewhere */
#if defined(__AVX512F__)
    return (vf)_mm512_ternarylogic_epi32((__m512i)magnitude, (__m512i)a, (__m512i)b, 0xca);
#else
    return v_select(magnitude, a, b);
#endif
}

SIMD_INLINE vf v_sqrt(vf a)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)a);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)a);
#elif defined(__SSE2__)
    return (vf)_mm_sqrt_ps((__m128)a);
#elif defined(__aarch64__)
    return (vf)vsqrtq_f32((float32x4_t)a);
#else
    for (int i = 0; i < VL; i++)
        a[i] = sqrtf(a[i]);
    return a;
#endif
}

/* Lane numbers 0, 1, 2, ... */
SIMD_INLINE vi v_iota(void)
{
    vi r = {0};
    for (int i = 0; i < VL; i++)
        r[i] = i;
    return r;
}

/* Mask of the first n lanes. */
SIMD_INLINE vi v_first(int64_t n)
{
    return v_iota() < v_seti((int32_t)(n < VL ? n : VL));
}

/* 1 if any lane of the mask is set, else 0. */
SIMD_INLINE int v_any(vi mask)
{
#if defined(__AVX512DQ__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(__SSE2__)
    return _mm_movemask_ps((__m128)mask) != 0;
#elif defined(__aarch64__)
    return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < VL; i++)
        any |= mask[i];
    return any != 0;
#endif
}

/* ---- reductions over lanes, in a fixed order ---- */

/* a[i] + a[i + 8], then + 4, + 2, + 1: halves of what is left */
SIMD_INLINE float v_sum(vf a)
{
#if defined(__AVX512F__)
    const __m256 b =
        _mm256_add_ps(_mm512_castps512_ps256((__m512)a), _mm512_extractf32x8_ps((__m512)a, 1));
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
#elif defined(__AVX2__)
    const __m128 c =
        _mm_add_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
#elif defined(__SSE2__)
    const __m128 c = (__m128)a;
#endif
#if defined(__SSE2__)
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
#elif defined(__aarch64__)
    const float32x4_t b = (float32x4_t)a;
    return vaddv_f32(vadd_f32(vget_low_f32(b), vget_high_f32(b)));
#else
    return (a[0] + a[2]) + (a[1] + a[3]);
#endif
}

/* The same for the larger. */
SIMD_INLINE float v_hmax(vf a)
{
#if defined(__AVX512F__)
    const __m256 b =
        _mm256_max_ps(_mm512_castps512_ps256((__m512)a), _mm512_extractf32x8_ps((__m512)a, 1));
    const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
#elif defined(__AVX2__)
    const __m128 c =
        _mm_max_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
#elif defined(__SSE2__)
    const __m128 c = (__m128)a;
#endif
#if defined(__SSE2__)
    const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
#elif defined(__aarch64__)
    const float32x2_t b = vget_low_f32((float32x4_t)a), c = vget_high_f32((float32x4_t)a);
    const float32x2_t d = vbsl_f32(vcgt_f32(b, c), b, c);
    return d[0] > d[1] ? d[0] : d[1];
#else
    const float d = a[0] > a[2] ? a[0] : a[2], e = a[1] > a[3] ? a[1] : a[3];
    return d > e ? d : e;
#endif
}

#endif
