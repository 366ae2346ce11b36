/* src/simd/simd_part.h - less than a vector of elements: the ends of rows. Part of simd.h. */
#ifndef TG_SIMD_PART_H
#define TG_SIMD_PART_H

#include "simd_memory.h"

/* Less than VL * 4 bytes, or just as many. Out of line: it is called once a row at
 * most, from every loop. */
static __attribute__((noinline, unused)) void v_copy_part(void *to, const void *from, int64_t bytes)
{
#pragma GCC unroll 8
    for (int64_t step = 4 * VL; step > 1; step /= 2)
        if (bytes & step) {
            memcpy(to, from, (size_t)step);
            to = (char *)to + step;
            from = (const char *)from + step;
        }
}

/* The first n elements (n <= VL, 0 allowed), the rest `fill`; nothing past them is read. */
SIMD_INLINE vf v_load_n(el e, const void *p, int64_t i, int64_t n, float fill)
{
#if defined(__AVX512F__)
    const __mmask16 m = (__mmask16)((1u << n) - 1u);
    if (e == EL_F32)
        return (vf)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), m, (const float *)p + i);
    const vh h = (vh)_mm256_maskz_loadu_epi16(m, (const uint16_t *)p + i);
    const vf a = e == EL_BF16 ? v_from_bf16(h) : v_from_f16(h);
    return (vf)_mm512_mask_mov_ps(_mm512_set1_ps(fill), m, (__m512)a);
#else
    vf a = v_set(fill);
    if (e == EL_F32) {
#if defined(__AVX2__)
        const vi first = v_first(n);
        return v_select(first, (vf)_mm256_maskload_ps((const float *)p + i, (__m256i)first), a);
#else
        v_copy_part(&a, (const float *)p + i, 4 * n);
        return a;
#endif
    }
    vh h = {0};
    v_copy_part(&h, (const uint16_t *)p + i, 2 * n);
    return v_select(v_first(n), e == EL_BF16 ? v_from_bf16(h) : v_from_f16(h), a);
#endif
}

SIMD_INLINE void v_store_n(el e, void *p, int64_t i, int64_t n, vf a)
{
#if defined(__AVX512F__)
    const __mmask16 m = (__mmask16)((1u << n) - 1u);
    if (e == EL_F32)
        _mm512_mask_storeu_ps((float *)p + i, m, (__m512)a);
    else
        _mm256_mask_storeu_epi16((uint16_t *)p + i, m,
                                 (__m256i)(e == EL_BF16 ? v_to_bf16(a) : v_to_f16(a)));
#else
    if (e == EL_F32) {
#if defined(__AVX2__)
        _mm256_maskstore_ps((float *)p + i, (__m256i)v_first(n), (__m256)a);
#else
        v_copy_part((float *)p + i, &a, 4 * n);
#endif
        return;
    }
    const vh h = e == EL_BF16 ? v_to_bf16(a) : v_to_f16(a);
    v_copy_part((uint16_t *)p + i, &h, 2 * n);
#endif
}

/* Stores those lanes of a side by side whose key is above the limit, or NaN, and returns how many;
 * VL floats may be written. */
SIMD_INLINE int v_squeeze_above(float *to, vf key, vf limit, vf a)
{
#if defined(__AVX512F__)
    const __mmask16 above = _mm512_cmp_ps_mask((__m512)key, (__m512)limit, _CMP_NLE_UQ);
    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(above, (__m512)a));
    return __builtin_popcount(above);
#elif defined(__aarch64__)
    /* For each set of lanes those that move to the front, as numbers of their bytes. What follows
     * them is left over. */
    enum { A = 0x03020100, B = 0x07060504, C = 0x0b0a0908, D = 0x0f0e0d0c };
    static const uint32_t front[16][4] = {
        {0}, {A},    {B},    {A, B},    {C},    {A, C},    {B, C},    {A, B, C},
        {D}, {A, D}, {B, D}, {A, B, D}, {C, D}, {A, C, D}, {B, C, D}, {A, B, C, D}};
    const vu bit = {1, 2, 4, 8};
    const uint32_t lanes = vaddvq_u32((uint32x4_t)(bit & ~(vu)(key <= limit)));
    vst1q_u8((uint8_t *)to, vqtbl1q_u8((uint8x16_t)a, (uint8x16_t)vld1q_u32(front[lanes])));
    return __builtin_popcount(lanes);
#else
    int n = 0;
    if (!v_any(~(key <= limit)))
        return 0;
    for (int i = 0; i < VL; i++) {
        to[n] = a[i];
        n += !(key[i] <= limit[i]);
    }
    return n;
#endif
}

/* One element as float, and back with rounding. */
SIMD_INLINE float el_get(el e, const void *p, int64_t i)
{
    if (e == EL_F32)
        return ((const float *)p)[i];
    const vh h = {((const uint16_t *)p)[i]};
    return (e == EL_BF16 ? v_from_bf16(h) : v_from_f16(h))[0];
}

SIMD_INLINE void el_set(el e, void *p, int64_t i, float a)
{
    if (e == EL_F32)
        ((float *)p)[i] = a;
    else
        ((uint16_t *)p)[i] = (e == EL_BF16 ? v_to_bf16(v_set(a)) : v_to_f16(v_set(a)))[0];
}

#endif
