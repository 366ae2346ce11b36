/* src/simd/simd.h - vectors of float, one source for every ISA level; every difference between
 * levels is here.
 *
 * A file that includes this is compiled once per level; VL is the number of floats in a vector.
 * Element types in memory are EL_F32, EL_BF16, EL_F16; arithmetic is always f32. Functions that
 * take an `el` expect a constant after inlining: write the kernel once as an always-inline function
 * whose first argument is the type, and let EL_SPECIALIZE make the three copies.
 *
 * Conversions to 16 bits round to nearest even, keep subnormals, infinities and NaN at every level.
 */
#ifndef TG_SIMD_H
#define TG_SIMD_H

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

/* ---- conversions between f32 and the 16-bit types ---- */

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

/* ---- memory: element i of an array of type e; any alignment ---- */

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

/* ---- 2 * VL elements at once, for elementwise work ----
 *
 * Which lane holds which element depends on the type `order`, and is the same wherever `order` is
 * the same: bf16 goes even elements first, odd elements second, since that needs no shuffle. */

typedef struct vf2 {
    vf a, b;
} vf2;

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
    const vi even = v_iota() * 2;
    return (vf2){__builtin_shuffle(first, second, even),
                 __builtin_shuffle(first, second, even + 1)};
}

/* From the lane order of `order` to that of memory. */
SIMD_INLINE vf2 v_natural2(el order, vf2 x)
{
    if (order != EL_BF16)
        return x;
    const vi half = v_iota() >> 1, from = half + (v_iota() & 1) * VL;
    return (vf2){__builtin_shuffle(x.a, x.b, from), __builtin_shuffle(x.a, x.b, from + VL / 2)};
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

/* Two vectors rounded to bf16: lane i holds a[i], then b[i]. */
SIMD_INLINE vu v_bf16_pairs(vf a, vf b)
{
#if defined(__AVX512F__) && defined(__AVX512BW__)
    /* NaN becomes one whose lower half is 0, so that nothing is added to it */
    const __m512i nan = _mm512_set1_epi32(0x33);
    const __m512i x = (__m512i)_mm512_fixupimm_ps((__m512)a, (__m512)a, nan, 0),
                  y = (__m512i)_mm512_fixupimm_ps((__m512)b, (__m512)b, nan, 0);
    /* the upper halves of both, and the lower halves: one moves, the other is where it belongs */
    const __m512i swap = _mm512_set4_epi32(0x0d0c0f0e, 0x09080b0a, 0x05040706, 0x01000302),
                  upper = _mm512_mask_shuffle_epi8(y, 0x3333333333333333u, x, swap),
                  lower = _mm512_mask_shuffle_epi8(x, 0xccccccccccccccccu, y, swap);
    /* up, where lower is above a half; where it is a half, if upper is odd: lower | (upper & 1) */
    const __m512i rest = _mm512_ternarylogic_epi32(lower, upper, _mm512_set1_epi16(1), 0xf8);
    const __mmask32 up = _mm512_cmpgt_epu16_mask(rest, _mm512_set1_epi16(-0x8000));
    return (vu)_mm512_mask_add_epi16(upper, up, upper, _mm512_set1_epi16(1));
#elif defined(__aarch64__)
    return (vu)vsriq_n_u32((uint32x4_t)v_bf16_high(b), (uint32x4_t)v_bf16_high(a), 16);
#else
    return v_bf16_high(a) >> 16 | (v_bf16_high(b) & 0xffff0000u);
#endif
}

/* v_round of two vectors, for less than twice as much. */
SIMD_INLINE vf2 v_round2(el e, vf2 x)
{
#if defined(__AVX512F__) && defined(__AVX512BW__)
    if (e == EL_BF16)
        return v_from_bf16_pairs(v_bf16_pairs(x.a, x.b));
#endif
    return (vf2){v_round(e, x.a), v_round(e, x.b)};
}

/* Asks for the memory of v_load2 some way further on, for long walks: the hardware looks ahead as
 * well, but stops at the end of each page. Addresses behind the end do no harm. */
SIMD_INLINE void v_ahead2(el e, const void *p, int64_t i)
{
    const char *at = (const char *)p + i * el_size(e) + 2048;
    __builtin_prefetch(at);
    if (2 * VL * el_size(e) > 64)
        __builtin_prefetch(at + 64);
}

SIMD_INLINE void v_store2(el e, void *p, int64_t i, vf2 x)
{
    if (e == EL_BF16) {
        *(vu_mem *)((uint16_t *)p + i) = v_bf16_pairs(x.a, x.b);
        return;
    }
    v_store(e, p, i, x.a);
    v_store(e, p, i + VL, x.b);
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

/* v_stream of 2 * VL elements, in the lane order of e; for bf16 the address must be a multiple of
 * twice as many bytes. */
SIMD_INLINE void v_stream2(el e, void *p, int64_t i, vf2 x)
{
    if (e == EL_BF16) {
        v_stream(EL_F32, (uint16_t *)p + i, 0, (vf)v_bf16_pairs(x.a, x.b));
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

/* The same for the memory of one v_load2, for the second cache: the first one holds what is read
 * again. */
SIMD_INLINE void v_prefetch2(el e, const void *p, int64_t i)
{
    for (int64_t byte = 0; byte < 2 * VL * el_size(e); byte += 64)
        v_prefetch((const char *)p + i * el_size(e) + byte);
}

/* 1 if v_stream may be used on an array that starts there. */
SIMD_INLINE int v_streamable(el e, const void *p)
{
    return ((uintptr_t)p & (uintptr_t)(VL * el_size(e) - 1)) == 0;
}

/* 1 if v_stream2 may be used on an array that starts there. */
SIMD_INLINE int v_streamable2(el e, const void *p)
{
    return ((uintptr_t)p & (uintptr_t)(VL * (e == EL_F16 ? 2 : 4) - 1)) == 0;
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
#elif defined(__aarch64__)
    /* lane by lane, straight into the register */
    vf a = v_set(fill);
    if (e == EL_F32) {
        for (int k = 0; k < VL; k++)
            if (k < n)
                a[k] = ((const float *)p)[i + k];
        return a;
    }
    vh h = {0};
    for (int k = 0; k < VL; k++)
        if (k < n)
            h[k] = ((const uint16_t *)p)[i + k];
    return v_select(v_first(n), e == EL_BF16 ? v_from_bf16(h) : v_from_f16(h), a);
#else
    if (e == EL_F32) {
        float part[VL];
        for (int k = 0; k < VL; k++)
            part[k] = k < n ? ((const float *)p)[i + k] : fill;
        vf a;
        memcpy(&a, part, sizeof a);
        return a;
    }
    uint16_t part[VL] = {0};
    for (int k = 0; k < VL; k++)
        part[k] = k < n ? ((const uint16_t *)p)[i + k] : 0;
    vh h;
    memcpy(&h, part, sizeof h);
    const vf a = e == EL_BF16 ? v_from_bf16(h) : v_from_f16(h);
    return v_select(v_first(n), a, v_set(fill));
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
        float part[VL];
        memcpy(part, &a, sizeof part);
        for (int k = 0; k < VL && k < n; k++)
            ((float *)p)[i + k] = part[k];
    } else {
        uint16_t part[VL];
        const vh h = e == EL_BF16 ? v_to_bf16(a) : v_to_f16(a);
        memcpy(part, &h, sizeof part);
        for (int k = 0; k < VL && k < n; k++)
            ((uint16_t *)p)[i + k] = part[k];
    }
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
    return e == EL_F32 ? ((const float *)p)[i] : v_load_n(e, p, i, 1, 0.0f)[0];
}

SIMD_INLINE void el_set(el e, void *p, int64_t i, float a)
{
    v_store_n(e, p, i, 1, v_set(a));
}

/* ---- pairs of bf16: two in a 32-bit lane, the first in the low half ---- */

/* v_pack_pairs rounds lo and hi to bf16 and puts lane i of both into lane i; v_pack_row rounds 2 VL
 * floats in a row, so that lane i holds elements 2i and 2i + 1. v_dot_bf16 adds the products of the
 * pairs of a and b to sum. These three are the machine's own instructions: subnormal operands and
 * results count as zero, unlike in the conversions above. */
#if defined(__AVX512BF16__)
#define SIMD_BF16_DOT 1

SIMD_INLINE vi v_pack_row(vf first, vf second)
{
    return (vi)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}

SIMD_INLINE vi v_pack_pairs(vf lo, vf hi)
{
    const vi order = v_iota() | (v_iota() + VL) << 16;
    return (vi)_mm512_permutexvar_epi16((__m512i)order, (__m512i)v_pack_row(lo, hi));
}

/* Writes lane 0 of a, lane 0 of b, lane 1 of a, ... : 2 VL lanes. */
SIMD_INLINE void v_store_interleaved(void *p, vi a, vi b)
{
    const vi low = (v_iota() >> 1) + (v_iota() & 1) * VL;
    const vi both[2] = {__builtin_shuffle(a, b, low), __builtin_shuffle(a, b, low + VL / 2)};
    memcpy(p, both, sizeof both);
}

SIMD_INLINE vf v_dot_bf16(vf sum, vi a, vi b)
{
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif

/* ---- the transpose of VL vectors, in place ---- */

SIMD_INLINE void v_transpose(vi row[VL])
{
#pragma GCC unroll 8
    for (int step = 1; step < VL; step *= 2) {
        /* lane i of low: i of a, or i - step of b where i has the bit `step`; high: i + step of a,
         * or i of b */
        const vi bit = v_iota() & step;
        const vi low = v_iota() + bit * (VL / step - 1);
        const vi high = v_iota() + (step - bit) + bit * (VL / step);
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            if (!(i & step)) {
                const vi a = row[i], b = row[i + step];
                row[i] = __builtin_shuffle(a, b, low);
                row[i + step] = __builtin_shuffle(a, b, high);
            }
    }
}

/* ---- complex numbers: real and imaginary part in lanes 2i and 2i + 1 ---- */

/* a b, or a conj(b) where sign is -1 */
SIMD_INLINE vf v_complex_mul(vf a, vf b, float sign)
{
    const vi lane = v_iota();
    const vf real = __builtin_shuffle(b, lane & ~1), imaginary = __builtin_shuffle(b, lane | 1);
    const vf signs = v_select((lane & 1) != 0, v_set(sign), v_set(-sign));
    return a * real + __builtin_shuffle(a, lane ^ 1) * (imaginary * signs);
}

/* ---- exp, sigmoid, tanh, erfc ---- */

/* exp(x) = 2^n (1 + part), |part| < 0.42. n is held as n + 1.5 * 2^23, which is how it was rounded to
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
/* Entry k of 32, where t is n + 1.5 * 2^18 with n a multiple of 1/32 and 32 n is k modulo 32: that sum leaves 32 n in
 * the low bits, of which the permutation takes five. unit times the entry; unit is a constant. */
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
    static const float rest[32] __attribute__((aligned(64))) = {0.0f,
                                                                -4.7084576e-08f,
                                                                4.6285471e-08f,
                                                                -5.5604225e-08f,
                                                                -1.1992157e-08f,
                                                                -4.8776062e-08f,
                                                                4.7297824e-08f,
                                                                -3.4814427e-08f,
                                                                3.1934182e-08f,
                                                                -2.6886665e-08f,
                                                                3.6210572e-08f,
                                                                1.1184210e-09f,
                                                                -3.0990719e-08f,
                                                                -2.6383010e-08f,
                                                                -7.4752133e-09f,
                                                                -4.2456357e-08f,
                                                                1.7114271e-08f,
                                                                2.3001967e-08f,
                                                                -3.0476834e-08f,
                                                                -1.6538538e-08f,
                                                                5.2333342e-09f,
                                                                -3.5920646e-08f,
                                                                6.1075918e-09f,
                                                                -3.1140544e-08f,
                                                                -1.4719605e-08f,
                                                                -2.8218102e-08f,
                                                                -5.2587952e-09f,
                                                                -6.3603873e-09f,
                                                                -6.1282597e-09f,
                                                                -2.4880409e-08f,
                                                                5.1406093e-09f,
                                                                -8.6972669e-09f};
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
 * meant for x not far above `at`. Below 2^-126 the result may be 0; 0 for -inf; above 2^127 it is
 * some larger number; NaN stays NaN. Much cheaper than v_exp: where there is FMA, log2(e) (x - at) is one instruction,
 * for which o.at lies within a rounding error of the point asked for. */
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

/* 2^y, about 1.2 ulp. Below 2^-126 the result may be 0; 0 for -inf; above 2^127 it is some larger number;
 * NaN stays NaN. */
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

/* scale exp(x) for x in [-120, 88] or NaN, scale a power of two, all factors of it normal: relative error
 * (|x| + 4) 2^-24. Less work than v_exp; 0 may stand for an exp(x) below 2^-126. */
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

/* 1 / (1 + exp(-x)); exact 0 and 1 far out */
SIMD_INLINE vf v_sigmoid(vf x)
{
    return v_set(1.0f) / (v_set(1.0f) + v_exp(-x));
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

/* tanh(x) and its derivative 1 - tanh(x)^2, each within its own relative error: 2^-22, and
 * (5 + 2|x|) 2^-24. NaN stays NaN. */
typedef struct v_tanhs {
    vf tanh, slope;
} v_tanhs;

SIMD_INLINE v_tanhs v_tanh_slope(vf x)
{
    /* p = exp(-2|x|) and p - 1, from which the rest follows by sums without cancellation:
     * tanh |x| = (1 - p) / (1 + p) and 1 - tanh^2 = 4 p / (1 + p)^2 */
    const v_exp_parts e = v_exp_split(v_max(v_set(-104.0f), v_minus_abs(x + x)));
    const vf power = v_exp_scale(v_set(1.0f), e.shifted_n);
    const vf p = power * e.part + power, p_minus_1 = power * e.part + (power - v_set(1.0f));
    const vf r = v_recip(v_set(1.0f) + p), twice = r + r;
    return (v_tanhs){v_copysign(p_minus_1 * r, x), twice * twice * p};
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
 * -|x|, divided by sqrt(2 pi). Relative errors (1 + x^2) 2^-22 and (1 + x^2) 2^-21. NaN stays NaN. */
typedef struct v_normals {
    vf bell, tail;
} v_normals;

SIMD_INLINE v_normals v_normal(vf x)
{
    const vf m = v_min(v_set(15.0f), v_abs(x)); /* where both are 0 */
    const vf bell = v_exp_nonpositive(m * m * v_set(-0.5f));
    /* tail / bell falls from 1/2 like 1 / m: with t = 1 / (1 + 0.346 m) it is t q(1 - t); q: minimax of
     * degree 8, relative error 2.2e-8 */
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

/* ---- log, and the pair exp(x) - 1, log(1 + x), which keeps its digits where both are small ---- */

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
    const vi bits = (vi)v_select(subnormal, x * v_set(0x1p23f), x);
    const vi k = (bits - 0x3f400000) >> 23;
    const vi shift = subnormal & 23;
    vf m = (vf)(bits - (k << 23)), e = __builtin_convertvector(k - shift, vf);
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
    /* log(1 + f) = f - f^2 / 2 + f^3 p(f); p: minimax of degree 6, relative error of the whole 4e-8 */
    vf p = v_set(0.05559725314378738f);
    p = p * f + v_set(-0.12114137411117554f);
    p = p * f + v_set(0.14904440939426422f);
    p = p * f + v_set(-0.16788817942142487f);
    p = p * f + v_set(0.19982320070266724f);
    p = p * f + v_set(-0.24996361136436462f);
    p = p * f + v_set(0.33333471417427063f);
    p = p * f + v_set(-0.5f);
    return k * v_set(0.693147181f) + (p * (f * f) + f);
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
 * (1 + |x|) 2^-24, and 2 ulp. exp(x) below 2^-126 may be 0. */
SIMD_INLINE vf2 v_exp_expm1(vf x)
{
#if defined(__AVX512F__)
    /* x = n ln 2 + r; where n is 0, r is x and nothing but q rounds */
    const vf magic = v_set(0x1.8p18f), t = x * v_set(1.44269504f) + magic, n = t - magic;
    const vf r = x - n * v_set(0.693147182464599609375f);
    const vf power = (vf)_mm512_scalef_ps((__m512)v_root_of_two(t, 1.0f), (__m512)n);
    /* exp(r) - 1 for |r| <= ln 2 / 64, relative error 1.3e-8, and what power lacks: power - 1 must be that of 2^n */
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
