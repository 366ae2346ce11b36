/* src/grouped/grouped_panels.h - factors packed into panels: a part of grouped.c. */
#ifndef TG_GROUPED_PANELS_H
#define TG_GROUPED_PANELS_H

#include "grouped_sizes.h"

/* ---- words of memory ---- */

/* Words of a row from element i on; n elements are there, the rest is 0. */
SIMD_INLINE vi words_of_row(el e, const char *row, int64_t i, int64_t n)
{
    if (!GROUPED_PAIRS)
        return (vi)(n >= VL ? v_load(e, row, i) : v_load_n(e, row, i, n, 0.0f));
    vi x = v_seti(0);
    if (n >= 2 * VL)
        memcpy(&x, row + 2 * i, sizeof x); /* the address may be one of 2 bytes alone */
    else
        v_copy_part(&x, row + 2 * i, 2 * n);
    return x;
}

/* VL lanes of two rows as pairs; n lanes are there. */
SIMD_INLINE vi pairs_of_rows(const char *first, const char *second, int64_t n)
{
    vh_lanes a = {0}, b = {0};
    if (n >= VL) {
        a = *(const vh_lanes *)first;
        b = second ? *(const vh_lanes *)second : b;
    } else if (n > 0) {
        v_copy_part(&a, first, 2 * n);
        if (second)
            v_copy_part(&b, second, 2 * n);
    }
    return __builtin_convertvector(a, vi) | __builtin_convertvector(b, vi) << 16;
}

/* Terms that are rows, which make a word. */
typedef struct term_rows {
    const char *first, *second;
} term_rows;

SIMD_INLINE term_rows term_rows_at(const grouped_factor *f, int64_t term, int64_t last,
                                   int64_t lane)
{
    const int has_second = GROUPED_PAIRS && term + 1 < last;
    return (term_rows){grouped_row_at(f, term, lane),
                       has_second ? grouped_row_at(f, term + 1, lane) : NULL};
}

/* Their words of lanes w to w + VL; n lanes are there. */
SIMD_INLINE vi words_of_lanes(el e, term_rows t, int64_t w, int64_t n)
{
    if (GROUPED_PAIRS)
        return pairs_of_rows(t.first + 2 * w, t.second ? t.second + 2 * w : NULL, n);
    return (vi)(n >= VL ? v_load(e, t.first, w) : v_load_n(e, t.first, w, n, 0.0f));
}

/* ---- panels whose lanes lie side by side, word after word, `width` of them ---- */

/* Lanes are rows: squares of VL x VL words are transposed in registers. A vector may run past the
 * width: what it writes there is overwritten by the next word's, and panels have room behind. */
SIMD_INLINE void pack_lanes(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, word *out)
{
    const int64_t words = words_of(terms);
    for (int w = 0; w < width; w += VL) {
        const char *row[VL];
        const int64_t count = grouped_least(lanes - w, VL);
        for (int i = 0; i < VL; i++)
            row[i] = i < count ? grouped_row_at(f, lane0 + w + i, term0) : NULL;
        for (int64_t p = 0; p < words; p += VL) {
            vi square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                square[i] = i < count ? words_of_row(e, row[i], p * PER_WORD, terms - p * PER_WORD)
                                      : v_seti(0);
            v_transpose(square);
            const int64_t n = grouped_least(words - p, VL);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                if (i < n)
                    *(vi_mem *)(out + (p + i) * width + w) = square[i];
        }
    }
}

#if defined(SIMD_BF16_DOT) && VL == 16
typedef uint16_t vh_row __attribute__((vector_size(2 * NR), aligned(2), may_alias));

#define PAIR(i) (i), NR + (i)
#define PAIRS_FROM(i)                                                                      \
    PAIR(i), PAIR(i + 1), PAIR(i + 2), PAIR(i + 3), PAIR(i + 4), PAIR(i + 5), PAIR(i + 6), \
        PAIR(i + 7), PAIR(i + 8), PAIR(i + 9), PAIR(i + 10), PAIR(i + 11), PAIR(i + 12),   \
        PAIR(i + 13), PAIR(i + 14), PAIR(i + 15)

/* Pairs of NR lanes of two rows, which are there: half as many instructions. */
SIMD_INLINE void pack_pairs(const char *first, const char *second, word *out)
{
    const vh_row a = *(const vh_row *)first, b = *(const vh_row *)second;
    *(vi_mem *)out = (vi)__builtin_shufflevector(a, b, PAIRS_FROM(0));
    *(vi_mem *)(out + VL) = (vi)__builtin_shufflevector(a, b, PAIRS_FROM(16));
}
#undef PAIR
#undef PAIRS_FROM
#else
SIMD_INLINE void pack_pairs(const char *first, const char *second, word *out)
{
    (void)first, (void)second, (void)out;
}
#endif

/* Terms are rows: lanes lie side by side. */
SIMD_INLINE void pack_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, word *out)
{
    for (int64_t p = 0; p < terms; p += PER_WORD, out += width) {
        const term_rows t = term_rows_at(f, term0 + p, term0 + terms, lane0);
        if (GROUPED_PAIRS && VL == 16 && width == NR && lanes >= NR && t.second) {
            pack_pairs(t.first, t.second, out);
            continue;
        }
        for (int w = 0; w < width; w += VL)
            *(vi_mem *)(out + w) = words_of_lanes(e, t, w, lanes - w < 0 ? 0 : lanes - w);
    }
}

SIMD_INLINE void pack_panel(el e, int terms_are_rows, const grouped_factor *f, int64_t lane0,
                            int64_t lanes, int64_t term0, int64_t terms, int width, word *out)
{
    if (terms_are_rows)
        pack_terms(e, f, lane0, lanes, term0, terms, width, out);
    else
        pack_lanes(e, f, lane0, lanes, term0, terms, width, out);
}

static inline void pack_words(int terms_are_rows, const grouped_factor *f, int64_t lane0,
                              int64_t lanes, int64_t term0, int64_t terms, int width, word *out)
{
    if (GROUPED_PAIRS)
        pack_panel(EL_BF16, terms_are_rows, f, lane0, lanes, term0, terms, width, out);
    else
        EL_SPECIALIZE(f->type, pack_panel, terms_are_rows, f, lane0, lanes, term0, terms, width,
                      out);
}

/* A panel on the right. Matrix units take words by VL: those behind the last are 0. */
static inline void pack_right(int terms_are_rows, const grouped_factor *f, int64_t lane0,
                              int64_t lanes, int64_t term0, int64_t terms, word *out)
{
    const int64_t words = words_of(terms);
    if (terms_are_rows)
        pack_words(1, f, lane0, lanes, term0, terms, NR, out);
    else
        pack_words(0, f, lane0, lanes, term0, terms, NR, out);
    if (TILES)
        memset(out + words * NR, 0, sizeof(word) * (size_t)((round_up(words, VL) - words) * NR));
}

/* A panel of MR lanes on the left. A whole vector of lanes is read if it is there: the next word
 * overwrites what is not the panel's. */
static inline void pack_left_words(int terms_are_rows, const grouped_factor *f, int64_t lane0,
                                   int64_t lanes, int64_t term0, int64_t terms, word *out)
{
    const int64_t count = grouped_least(lanes, MR > VL ? MR : VL);
    pack_words(terms_are_rows, f, lane0, count, term0, terms, MR, out);
}

/* Words of such a panel, with room for the vector that runs past the last one. */
static inline int64_t left_words(int64_t words)
{
    return round_up(words, VL) * MR + VL;
}

SIMD_INLINE void pack_left_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                                 int64_t each, int64_t term0, int64_t terms, word *out)
{
    const int64_t panel = left_words(words_of(terms));
    for (int64_t p = 0; p < terms; p += PER_WORD, out += MR) {
        const term_rows t = term_rows_at(f, term0 + p, term0 + terms, lane0);
        for (int64_t c = 0; c < lanes; c += each)
            for (int w = 0; w < MR; w += VL)
                *(vi_mem *)(out + c / each * panel + w) =
                    words_of_lanes(e, t, c + w, lanes - c - w < 0 ? 0 : lanes - c - w);
    }
}

/* Panels of `each` lanes, at most MR, whose terms are rows. All are filled at once, so that rows
 * are read in long pieces. */
static inline void pack_left_rows(const grouped_factor *f, int64_t lane0, int64_t lanes,
                                  int64_t each, int64_t term0, int64_t terms, word *out)
{
    if (GROUPED_PAIRS)
        pack_left_terms(EL_BF16, f, lane0, lanes, each, term0, terms, out);
    else
        EL_SPECIALIZE(f->type, pack_left_terms, f, lane0, lanes, each, term0, terms, out);
}

/* ---- panels whose lanes lie one after the other, LANE words apart ---- */

SIMD_INLINE void copy_lanes(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, word *out)
{
    for (int64_t i = 0; i < lanes; i++, out += LANE) {
        const char *row = grouped_row_at(f, lane0 + i, term0);
        int64_t t = 0;
        for (; t + VL * PER_WORD <= terms; t += VL * PER_WORD)
            *(vi_mem *)(out + t / PER_WORD) = words_of_row(e, row, t, VL * PER_WORD);
        if (t < terms)
            *(vi_mem *)(out + t / PER_WORD) = words_of_row(e, row, t, terms - t);
    }
}

/* The same of terms that are rows: squares are transposed. */
SIMD_INLINE void turn_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, word *out)
{
    for (int64_t t = 0; t < terms; t += VL * PER_WORD)
        for (int64_t w = 0; w < lanes; w += VL) {
            vi square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                square[i] =
                    t + i * PER_WORD >= terms
                        ? v_seti(0)
                        : words_of_lanes(
                              e, term_rows_at(f, term0 + t + i * PER_WORD, term0 + terms, lane0), w,
                              lanes - w);
            v_transpose(square);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                *(vi_mem *)(out + (w + i) * LANE + t / PER_WORD) = square[i];
        }
}

SIMD_INLINE void pack_by_lanes(el e, int terms_are_rows, const grouped_factor *f, int64_t lane0,
                               int64_t lanes, int64_t term0, int64_t terms, word *out)
{
    if (terms_are_rows)
        turn_terms(e, f, lane0, lanes, term0, terms, out);
    else
        copy_lanes(e, f, lane0, lanes, term0, terms, out);
}

/* A panel on the left, of at most LEFT_LANES lanes that are there; those behind are not written. */
static inline void pack_left(int terms_are_rows, const grouped_factor *f, int64_t lane0,
                             int64_t lanes, int64_t term0, int64_t terms, word *out)
{
    if (GROUPED_PAIRS)
        pack_by_lanes(EL_BF16, terms_are_rows, f, lane0, lanes, term0, terms, out);
    else
        EL_SPECIALIZE(f->type, pack_by_lanes, terms_are_rows, f, lane0, lanes, term0, terms, out);
}

SIMD_INLINE vf multiply_add(vf sum, word left, vf right)
{
#if defined(SIMD_BF16_DOT)
    return v_dot_bf16(sum, v_seti(left), (vi)right);
#else
    float x;
    memcpy(&x, &left, sizeof x);
    return sum + v_set(x) * right;
#endif
}

#endif
