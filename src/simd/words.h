/* src/simd/words.h - words of packed factors of a matrix product: an f32 or, at levels that
 * multiply bf16, two of them that follow each other along the terms. */
#ifndef TG_SIMD_WORDS_H
#define TG_SIMD_WORDS_H

#include "simd/register_tile.h"

#if defined(SIMD_BF16_DOT)
enum { PAIRS = 1 };
#else
enum { PAIRS = 0 };
#endif
enum { WORD_TERMS = 1 + PAIRS };

typedef int32_t word __attribute__((may_alias));
typedef int32_t words_mem __attribute__((vector_size(4 * VL), aligned(4), may_alias));

static inline int64_t words_of(int64_t terms)
{
    return (terms + WORD_TERMS - 1) / WORD_TERMS;
}

/* sum plus one word times a vector of words. */
SIMD_INLINE vf add_word(vf sum, const word *left, vi right)
{
#if defined(SIMD_BF16_DOT)
    return v_dot_bf16(sum, v_seti(*left), right);
#else
    float x;
    memcpy(&x, left, sizeof x);
    return sum + v_set(x) * (vf)right;
#endif
}

/* The words of n elements of a row, up to a vector of them; the rest is 0. */
SIMD_INLINE vi words_along(el e, const char *row, int64_t n)
{
    vi x = v_seti(0);
    if (!PAIRS)
        return (vi)(n >= VL ? v_load(e, row, 0) : v_load_n(e, row, 0, n, 0.0f));
    if (n >= 2 * VL)
        memcpy(&x, row, sizeof x);
    else
        v_copy_part(&x, row, 2 * n);
    return x;
}

/* n lanes of a row, the rest 0. */
SIMD_INLINE vi halves(const char *row, int64_t n)
{
    vh lanes = {0};
    if (n >= VL)
        lanes = *(const vh_mem *)row;
    else if (n > 0)
        v_copy_part(&lanes, row, 2 * n);
    return __builtin_convertvector(lanes, vi);
}

/* The words of n lanes that lie side by side, of the rows `first` and, for pairs, `second`, which
 * may be NULL: then the second terms are 0. */
SIMD_INLINE vi words_across(el e, const char *first, const char *second, int64_t n)
{
    if (!PAIRS)
        return (vi)(n >= VL ? v_load(e, first, 0) : v_load_n(e, first, 0, n, 0.0f));
    return second ? halves(first, n) | halves(second, n) << 16 : halves(first, n);
}

#if defined(SIMD_BF16_DOT)
typedef uint16_t vh2_mem __attribute__((vector_size(4 * VL), aligned(2), may_alias));

/* Pairs of 2 VL lanes of two rows, which are there: half as many instructions. */
SIMD_INLINE void pairs_across(const char *first, const char *second, word *out)
{
#define PAIR_LOW(i) (i), 2 * VL + (i)
#define PAIR_HIGH(i) VL + (i), 3 * VL + (i)
    const vh2_mem a = *(const vh2_mem *)first, b = *(const vh2_mem *)second;
    *(words_mem *)out = (vi)__builtin_shufflevector(a, b, V_LANES(PAIR_LOW));
    *(words_mem *)(out + VL) = (vi)__builtin_shufflevector(a, b, V_LANES(PAIR_HIGH));
#undef PAIR_LOW
#undef PAIR_HIGH
}
#else
SIMD_INLINE void pairs_across(const char *first, const char *second, word *out)
{
    (void)first, (void)second, (void)out;
}
#endif

#endif
