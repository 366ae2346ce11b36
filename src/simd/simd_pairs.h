/* src/simd/simd_pairs.h - 2 * VL elements at once, for elementwise work. Part of simd.h. */
#ifndef TG_SIMD_PAIRS_H
#define TG_SIMD_PAIRS_H

#include "simd_lanes.h"
#include "simd_memory.h"

/* Which lane holds which element depends on the type `order`, and is the same wherever `order` is
 * the same: bf16 goes even elements first, odd elements second, since that needs no shuffle. */
typedef uint32_t vu_mem __attribute__((vector_size(4 * VL), aligned(2), may_alias));

/* The even and the odd elements. */
SIMD_INLINE vf2 v_from_bf16_pairs(vu both)
{
    return (vf2){(vf)(both << 16), (vf)(both & 0xffff0000u)};
}

/* Elements of type e in the lane order of `order`. */
SIMD_INLINE vf2 v_load2(el order, el e, const void *p, int64_t i)
{
    if (order == EL_BF16 && e == EL_BF16)
        return v_from_bf16_pairs(*(const vu_mem *)((const uint16_t *)p + i));
    const vf first = v_load(e, p, i), second = v_load(e, p, i + VL);
    if (order != EL_BF16)
        return (vf2){first, second};
    return (vf2){V_SHUFFLE(first, second, V_EVEN), V_SHUFFLE(first, second, V_ODD)};
}

/* From the lane order of `order` to that of memory. */
SIMD_INLINE vf2 v_natural2(el order, vf2 x)
{
    if (order != EL_BF16)
        return x;
    return (vf2){V_SHUFFLE(x.a, x.b, V_ZIP_LOW), V_SHUFFLE(x.a, x.b, V_ZIP_HIGH)};
}

/* Loops take pairs of vectors, elements [0, v_whole_pairs(n)) of n, then up to V_PAIR - 1 more,
 * v_tail(n, i) from i on. */
enum { V_PAIR = 2 * VL };

SIMD_INLINE int64_t v_whole_pairs(int64_t n)
{
    return n / V_PAIR * V_PAIR;
}

SIMD_INLINE int64_t v_tail(int64_t n, int64_t i)
{
    return n - i < VL ? n - i : VL;
}

/* 2 * VL floats of scratch memory, kept in whatever order they were put there. */
SIMD_INLINE vf2 v_get2(const float *p)
{
    return (vf2){v_load(EL_F32, p, 0), v_load(EL_F32, p, VL)};
}

SIMD_INLINE void v_put2(float *p, vf2 x)
{
    v_store(EL_F32, p, 0, x.a);
    v_store(EL_F32, p, VL, x.b);
}

/* Two vectors rounded to bf16: lane i holds a[i], then b[i]. clean, a constant: what is NaN in
 * them has a lower half of 0, as all NaN have that stem from bf16 or from arithmetic itself;
 * others are made so first. */
SIMD_INLINE vu v_bf16_pairs(int clean, vf a, vf b)
{
#if defined(__AVX512F__) && defined(__AVX512BW__)
    /* nothing is added to a NaN then: it would come out as 0 */
    const __m512i nan = _mm512_set1_epi32(0x33);
    const __m512i x = (__m512i)(clean ? a : (vf)_mm512_fixupimm_ps((__m512)a, (__m512)a, nan, 0)),
                  y = (__m512i)(clean ? b : (vf)_mm512_fixupimm_ps((__m512)b, (__m512)b, nan, 0));
    /* the upper halves of both, and the lower halves: one moves, the other is where it belongs */
    const __m512i swap = _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302),
                  upper = _mm512_mask_shuffle_epi8(y, 0x3333333333333333u, x, swap),
                  lower = _mm512_mask_shuffle_epi8(x, 0xccccccccccccccccu, y, swap);
    /* up, where lower is above a half; where it is a half, if upper is odd: lower | (upper & 1) */
    const __m512i rest = _mm512_ternarylogic_epi32(lower, upper, _mm512_set1_epi16(1), 0xf8);
    const __mmask32 up = _mm512_cmpgt_epu16_mask(rest, _mm512_set1_epi16(-0x8000));
    return (vu)_mm512_mask_add_epi16(upper, up, upper, _mm512_set1_epi16(1));
#elif defined(__aarch64__)
    (void)clean;
    return (vu)vsriq_n_u32((uint32x4_t)v_bf16_high(b), (uint32x4_t)v_bf16_high(a), 16);
#else
    (void)clean;
    return v_bf16_high(a) >> 16 | (v_bf16_high(b) & 0xffff0000u);
#endif
}

/* v_round of two vectors, for less than twice as much. */
SIMD_INLINE vf2 v_round2(el e, vf2 x)
{
#if defined(__AVX512F__) && defined(__AVX512BW__)
    if (e == EL_BF16)
        return v_from_bf16_pairs(v_bf16_pairs(0, x.a, x.b));
#endif
    return (vf2){v_round(e, x.a), v_round(e, x.b)};
}

/* Asks for the memory of v_load2 v_distance.pass further on, for long walks. Addresses behind
 * the end do no harm. */
SIMD_INLINE void v_ahead2(el e, const void *p, int64_t i)
{
    const char *at = (const char *)p + i * el_size(e) + v_distance.pass;
    __builtin_prefetch(at);
    if (2 * VL * el_size(e) > 64)
        __builtin_prefetch(at + 64);
}

SIMD_INLINE void v_store2(el e, void *p, int64_t i, vf2 x)
{
    if (e == EL_BF16) {
        *(vu_mem *)((uint16_t *)p + i) = v_bf16_pairs(0, x.a, x.b);
        return;
    }
    v_store(e, p, i, x.a);
    v_store(e, p, i + VL, x.b);
}

/* v_stream of 2 * VL elements, in the lane order of e; for bf16 the address must be a multiple of
 * twice as many bytes. */
SIMD_INLINE void v_stream2(el e, void *p, int64_t i, vf2 x)
{
    if (e == EL_BF16) {
        v_stream(EL_F32, (uint16_t *)p + i, 0, (vf)v_bf16_pairs(0, x.a, x.b));
        return;
    }
#if defined(__aarch64__)
    if (e == EL_F32) {
        vf_mem *to = (vf_mem *)((float *)p + i);
        __asm__("stnp %q2, %q3, %0" : "=Ump"(to[0]), "=m"(to[1]) : "w"(x.a), "w"(x.b));
        return;
    }
#endif
    v_stream(e, p, i, x.a);
    v_stream(e, p, i + VL, x.b);
}

/* Elements in front of the first that v_stream2 may write, n at most. */
SIMD_INLINE int64_t v_head2(el e, const void *p, int64_t n)
{
    const uintptr_t size = (uintptr_t)el_size(e);
    const int64_t head = (int64_t)((-(uintptr_t)p & (V_PAIR * size - 1)) / size);
    return head < n ? head : n;
}

/* Either, by a constant. */
SIMD_INLINE void v_write2(el e, int stream, void *p, int64_t i, vf2 x)
{
    if (stream)
        v_stream2(e, p, i, x);
    else
        v_store2(e, p, i, x);
}

/* The same for less, where all that x is made of has type e: what is NaN is
 * clean (v_bf16_pairs). */
SIMD_INLINE void v_write2_clean(el e, int stream, void *p, int64_t i, vf2 x)
{
    if (e != EL_BF16) {
        v_write2(e, stream, p, i, x);
        return;
    }
    const vu pairs = v_bf16_pairs(1, x.a, x.b);
    uint16_t *const to = (uint16_t *)p + i;
    if (stream)
        v_stream(EL_F32, to, 0, (vf)pairs);
    else
        *(vu_mem *)to = pairs;
}

/* v_prefetch of the memory of one v_load2: into the second cache, since the first one holds what is
 * read again. */
SIMD_INLINE void v_prefetch2(el e, const void *p, int64_t i)
{
    for (int64_t byte = 0; byte < 2 * VL * el_size(e); byte += 64)
        v_prefetch((const char *)p + i * el_size(e) + byte);
}

/* 1 if v_stream2 may be used on an array that starts there. */
SIMD_INLINE int v_streamable2(el e, const void *p)
{
    return ((uintptr_t)p & (uintptr_t)(VL * (e == EL_F16 ? 2 : 4) - 1)) == 0;
}

#endif
