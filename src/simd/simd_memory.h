/* src/simd/simd_memory.h - element i of an array of type e; any alignment. Part of simd.h. */
#ifndef TG_SIMD_MEMORY_H
#define TG_SIMD_MEMORY_H

#include "ahead.h"
#include "simd_convert.h"

SIMD_INLINE vf v_load(el e, const void *p, int64_t i)
{
    if (e == EL_F32)
        return *(const vf_mem *)((const float *)p + i);
    const vh h = *(const vh_mem *)((const uint16_t *)p + i);
    return e == EL_BF16 ? v_from_bf16(h) : v_from_f16(h);
}

SIMD_INLINE void v_store(el e, void *p, int64_t i, vf a)
{
    if (e == EL_F32)
        *(vf_mem *)((float *)p + i) = a;
    else
        *(vh_mem *)((uint16_t *)p + i) = e == EL_BF16 ? v_to_bf16(a) : v_to_f16(a);
}

/* Past the cache; the address must be a multiple of VL elements' size. Call v_fence() after the
 * last one. NEON has such stores for pairs of vectors alone, in v_stream2. */
SIMD_INLINE void v_stream(el e, void *p, int64_t i, vf a)
{
#if defined(__AVX512F__)
    if (e == EL_F32)
        _mm512_stream_ps((float *)p + i, (__m512)a);
    else
        _mm256_stream_si256((__m256i *)((uint16_t *)p + i),
                            (__m256i)(e == EL_BF16 ? v_to_bf16(a) : v_to_f16(a)));
#elif defined(__AVX2__)
    if (e == EL_F32)
        _mm256_stream_ps((float *)p + i, (__m256)a);
    else
        _mm_stream_si128((__m128i *)((uint16_t *)p + i),
                         (__m128i)(e == EL_BF16 ? v_to_bf16(a) : v_to_f16(a)));
#elif defined(__SSE2__)
    if (e == EL_F32)
        _mm_stream_ps((float *)p + i, (__m128)a);
    else
        v_store(e, p, i, a);
#else
    v_store(e, p, i, a);
#endif
}

SIMD_INLINE void v_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Asks for the line at p, to be read soon; p need not be in any array. */
SIMD_INLINE void v_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* How many rows of so many bytes further on to ask for: v_distance.rows of them are on their way
 * then, and at least so many rows. */
SIMD_INLINE int64_t v_rows_ahead(int64_t bytes, int64_t least)
{
    const int64_t fit = v_distance.rows / (bytes + 1);
    return fit > least ? fit : least;
}

/* 1 if v_stream may be used on an array that starts there. */
SIMD_INLINE int v_streamable(el e, const void *p)
{
    return ((uintptr_t)p & (uintptr_t)(VL * el_size(e) - 1)) == 0;
}

#endif
