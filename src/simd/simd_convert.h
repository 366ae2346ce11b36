/* src/simd/simd_convert.h - between f32 and the 16-bit types. To nearest even; subnormals,
 * infinities and NaN stay at every level. Part of simd.h. */
#ifndef TG_SIMD_CONVERT_H
#define TG_SIMD_CONVERT_H

#include "simd_arithmetic.h"

SIMD_INLINE vf v_from_bf16(vh h)
{
#if defined(__AVX512F__)
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif defined(__AVX2__)
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#elif defined(__aarch64__)
    return (vf)vshll_n_u16((uint16x4_t)h, 16);
#else
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}

SIMD_INLINE vh v_narrow(vu a)
{
#if defined(__AVX512F__)
    return (vh)_mm512_cvtepi32_epi16((__m512i)a);
#elif defined(__AVX2__)
    const __m256i pairs = _mm256_packus_epi32((__m256i)a, (__m256i)a);
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
#else
    return __builtin_convertvector(a, vh);
#endif
}

/* Rounded to bf16, in the upper half of each lane; the lower half is left over. */
SIMD_INLINE vu v_bf16_high(vf a)
{
    const vu bits = (vu)a;
#if defined(__AVX512F__)
    const __mmask16 number = _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q);
    return (vu)_mm512_mask_add_epi32((__m512i)(bits | 0x400000u), number, (__m512i)(bits + 0x7fffu),
                                     (__m512i)(bits >> 16 & 1u));
#elif defined(__aarch64__)
    /* bit 16, moved to the top, is added to the bottom in one instruction */
    const vu up = (vu)vsraq_n_u32((uint32x4_t)(bits + 0x7fffu), (uint32x4_t)(bits << 15), 31);
    return (vu)v_select(a == a, (vf)up, (vf)(bits | 0x400000u));
#else
    return (vu)v_select(a != a, (vf)(bits | 0x400000u), (vf)(bits + 0x7fffu + (bits >> 16 & 1u)));
#endif
}

SIMD_INLINE vh v_to_bf16(vf a)
{
#if defined(__AVX512F__) && defined(__AVX512BW__)
    const __m512i all = (__m512i)a,
                  odd = _mm512_and_si512(_mm512_srli_epi32(all, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(all, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q);
    const __m512i whole = _mm512_mask_or_epi32(up, nan, all, _mm512_set1_epi32(0x400000));
    /* the upper halves: words 1, 3, 5, ... */
    const __m512i words = _mm512_setr_epi32(0x30001, 0x70005, 0xb0009, 0xf000d, 0x130011, 0x170015,
                                            0x1b0019, 0x1f001d, 0, 0, 0, 0, 0, 0, 0, 0);
    return (vh)_mm512_castsi512_si256(_mm512_permutexvar_epi16(words, whole));
#elif defined(__aarch64__)
    return (vh)vshrn_n_u32((uint32x4_t)v_bf16_high(a), 16);
#else
    const vu bits = (vu)a;
    const vu rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const vu quiet = bits >> 16 | 0x40u;
    const vu nan = (vu)(a != a);
    return v_narrow((quiet & nan) | (rounded & ~nan));
#endif
}

#if defined(__AVX512F__)
SIMD_INLINE vf v_from_f16(vh h)
{
    return (vf)_mm512_cvtph_ps((__m256i)h);
}

SIMD_INLINE vh v_to_f16(vf a)
{
    return (vh)_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__F16C__)
SIMD_INLINE vf v_from_f16(vh h)
{
    return (vf)_mm256_cvtph_ps((__m128i)h);
}

SIMD_INLINE vh v_to_f16(vf a)
{
    return (vh)_mm256_cvtps_ph((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__aarch64__)
SIMD_INLINE vf v_from_f16(vh h)
{
    return (vf)vcvt_f32_f16((float16x4_t)h);
}

SIMD_INLINE vh v_to_f16(vf a)
{
    return (vh)vcvt_f16_f32((float32x4_t)a);
}
#else
SIMD_INLINE vf v_from_f16(vh h)
{
    const vu bits = __builtin_convertvector(h, vu);
    const vu sign = (bits & 0x8000u) << 16;
    const vu magnitude = (bits & 0x7fffu) << 13;
    /* 2^112 moves the exponent's bias; it makes subnormals normal as well */
    const vf scaled = (vf)magnitude * v_set(0x1p112f);
    const vu special = (vu)((vi)(bits & 0x7c00u) == v_seti(0x7c00));
    return (vf)(sign | (vu)scaled | (special & 0x7f800000u));
}

SIMD_INLINE vh v_to_f16(vf a)
{
    const vu bits = (vu)a;
    const vu sign = bits >> 16 & 0x8000u;
    const vf magnitude = v_abs(a);
    const vu mbits = (vu)magnitude;
    /* normal results: round the mantissa to 10 bits, move the bias */
    const vu normal = (mbits + 0xfffu + (mbits >> 13 & 1u) - 0x38000000u) >> 13;
    /* subnormal results: adding 0.5 aligns the mantissa so that the addition itself rounds */
    const vu subnormal = (vu)(magnitude + v_set(0.5f)) - 0x3f000000u;
    const vu tiny = (vu)(magnitude < v_set(0x1p-14f));
    const vu huge = (vu)(magnitude >= v_set(65520.0f));
    const vu nan = (vu)(a != a);
    vu r = (subnormal & tiny) | (normal & ~tiny);
    r = (0x7c00u & huge) | (r & ~huge);
    r = ((0x7e00u | (mbits >> 13 & 0x3ffu)) & nan) | (r & ~nan);
    return v_narrow(r | sign);
}
#endif

/* Rounds to the type's precision and back. */
SIMD_INLINE vf v_round(el e, vf a)
{
    if (e == EL_BF16)
        return (vf)(v_bf16_high(a) & 0xffff0000u);
    return e == EL_F32 ? a : v_from_f16(v_to_f16(a));
}

#endif
