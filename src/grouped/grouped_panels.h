/* src/grouped/grouped_panels.h - factors packed into panels: a part of grouped.c. */
#ifndef TG_GROUPED_PANELS_H
#define TG_GROUPED_PANELS_H

#include "grouped_sizes.h"

/* ---- words of memory ---- */

/* Terms that are rows, which make a word. */
typedef struct term_rows {
    const char *first, *second;
} term_rows;

SIMD_INLINE term_rows term_rows_at(const grouped_factor *f, int64_t term, int64_t last,
                                   int64_t lane)
{
    const int has_second = PAIRS && term + 1 < last;
    return (term_rows){grouped_row_at(f, term, lane),
                       has_second ? grouped_row_at(f, term + 1, lane) : NULL};
}

/* Their words of lanes w to w + VL; n lanes are there. */
SIMD_INLINE vi words_of_lanes(el e, term_rows t, int64_t w, int64_t n)
{
    const int64_t skip = w * el_size(e);
    return words_across(e, t.first + skip, t.second ? t.second + skip : NULL, n);
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
                square[i] = i < count ? words_along(e, row[i] + p * WORD_TERMS * el_size(e),
                                                    terms - p * WORD_TERMS)
                                      : v_seti(0);
            v_transpose(square);
            const int64_t n = grouped_least(words - p, VL);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                if (i < n)
                    *(words_mem *)(out + (p + i) * width + w) = square[i];
        }
    }
}

/* Terms are rows: lanes lie side by side. */
SIMD_INLINE void pack_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, word *out)
{
    for (int64_t p = 0; p < terms; p += WORD_TERMS, out += width) {
        const term_rows t = term_rows_at(f, term0 + p, term0 + terms, lane0);
        if (PAIRS && width == NR && lanes >= NR && t.second) {
            pairs_across(t.first, t.second, out);
            continue;
        }
        for (int w = 0; w < width; w += VL)
            *(words_mem *)(out + w) = words_of_lanes(e, t, w, lanes - w < 0 ? 0 : lanes - w);
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
    if (PAIRS)
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
    for (int64_t p = 0; p < terms; p += WORD_TERMS, out += MR) {
        const term_rows t = term_rows_at(f, term0 + p, term0 + terms, lane0);
        for (int64_t c = 0; c < lanes; c += each)
            for (int w = 0; w < MR; w += VL)
                *(words_mem *)(out + c / each * panel + w) =
                    words_of_lanes(e, t, c + w, lanes - c - w < 0 ? 0 : lanes - c - w);
    }
}

/* Panels of `each` lanes, at most MR, whose terms are rows. All are filled at once, so that rows
 * are read in long pieces. */
static inline void pack_left_rows(const grouped_factor *f, int64_t lane0, int64_t lanes,
                                  int64_t each, int64_t term0, int64_t terms, word *out)
{
    if (PAIRS)
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
        for (; t + VL * WORD_TERMS <= terms; t += VL * WORD_TERMS)
            *(words_mem *)(out + t / WORD_TERMS) =
                words_along(e, row + t * el_size(e), VL * WORD_TERMS);
        if (t < terms)
            *(words_mem *)(out + t / WORD_TERMS) = words_along(e, row + t * el_size(e), terms - t);
    }
}

/* The same of terms that are rows: squares are transposed. */
SIMD_INLINE void turn_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, word *out)
{
    for (int64_t t = 0; t < terms; t += VL * WORD_TERMS)
        for (int64_t w = 0; w < lanes; w += VL) {
            vi square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                square[i] =
                    t + i * WORD_TERMS >= terms
                        ? v_seti(0)
                        : words_of_lanes(
                              e, term_rows_at(f, term0 + t + i * WORD_TERMS, term0 + terms, lane0),
                              w, lanes - w);
            v_transpose(square);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                *(words_mem *)(out + (w + i) * LANE + t / WORD_TERMS) = square[i];
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
    if (PAIRS)
        pack_by_lanes(EL_BF16, terms_are_rows, f, lane0, lanes, term0, terms, out);
    else
        EL_SPECIALIZE(f->type, pack_by_lanes, terms_are_rows, f, lane0, lanes, term0, terms, out);
}

#endif
