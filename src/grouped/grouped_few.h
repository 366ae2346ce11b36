/* src/grouped/grouped_few.h - groups of few rows, which read each matrix once, from where it lies:
 * nothing of it is packed. Results add up their terms in the order of those of many rows. A part of
 * grouped.c. */
#ifndef TG_GROUPED_FEW_H
#define TG_GROUPED_FEW_H

#include "grouped_few_columns.h"

/* ---- matrices whose rows are terms ---- */

/* Some words of all columns, from the rows of their terms, of which `there` are there. */
typedef struct few_terms {
    const char *row[FEW_WORDS * WORD_TERMS];
    int64_t ahead; /* bytes from a row to that which is asked for */
    const word *left;
    float *sums;
    int64_t rows, stride, cols;
} few_terms;

SIMD_INLINE void add_terms(el e, const few_terms *t, int64_t words, int64_t k, int64_t n)
{
    vi x[FEW_WORDS];
    const int64_t skip = k * el_size(e);
    for (int64_t w = 0; w < words; w++) {
        const char *first = t->row[w * WORD_TERMS], *second = t->row[(w + 1) * WORD_TERMS - 1];
        x[w] = words_across(e, first + skip, second ? second + skip : NULL, n);
    }
    const word *left = t->left;
    float *to = t->sums + k;
    for (int64_t r = 0; r < t->rows; r++, left += LANE, to += t->stride) {
        vf sum = v_load(EL_F32, to, 0);
        for (int64_t w = 0; w < words; w++)
            sum = add_word(sum, left + w, x[w]);
        v_store(EL_F32, to, 0, sum);
    }
}

/* Two vectors of columns that are there, from rows that are. */
SIMD_INLINE void add_whole_terms(el e, const few_terms *t, int64_t k)
{
    vi x[FEW_WORDS][NV] __attribute__((aligned(64)));
    const int64_t skip = k * el_size(e);
#pragma GCC unroll 8
    for (int w = 0; w < FEW_WORDS; w++) {
        const char *first = t->row[w * WORD_TERMS] + skip;
        const char *second = t->row[(w + 1) * WORD_TERMS - 1] + skip;
        if (PAIRS)
            pairs_across(first, second, (word *)x[w]);
        for (int v = 0; !PAIRS && v < NV; v++)
            x[w][v] = words_across(e, first + v * VL * el_size(e), NULL, VL);
        __builtin_prefetch(first + t->ahead, 0, 3);
        if (PAIRS)
            __builtin_prefetch(second + t->ahead, 0, 3);
        else if (NR * el_size(e) > LINE)
            __builtin_prefetch(first + t->ahead + LINE, 0, 3);
    }
    const word *left = t->left;
    float *to = t->sums + k;
    for (int64_t r = 0; r < t->rows; r++, left += LANE, to += t->stride) {
        vf sum[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            sum[v] = v_load(EL_F32, to, v * VL);
#pragma GCC unroll 8
        for (int w = 0; w < FEW_WORDS; w++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++)
                sum[v] = add_word(sum[v], left + w, x[w][v]);
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            v_store(EL_F32, to, v * VL, sum[v]);
    }
}

/* sums, 0 at first, of `terms` terms from term0 on and columns from lane0 on. */
SIMD_INLINE void sum_few_terms(el e, const grouped_factor *f, int64_t term0, int64_t terms,
                               int64_t lane0, few_terms t)
{
    enum { STEP = FEW_WORDS * WORD_TERMS };
    const int64_t stride = f->stride * el_size(e);
    const int64_t rows = AHEAD / (t.cols * el_size(e));
    t.ahead = (rows > STEP ? rows : STEP) * stride;
    for (int64_t i = 0; i < terms; i += STEP, t.left += FEW_WORDS) {
        const char *first = grouped_row_at(f, term0 + i, lane0);
        for (int j = 0; j < STEP; j++)
            t.row[j] = i + j < terms ? first + j * stride : NULL;
        int64_t k = 0;
        for (; i + STEP <= terms && k + NR <= t.cols; k += NR)
            add_whole_terms(e, &t, k);
        for (const int64_t words = words_of(grouped_least(terms - i, STEP)); k < t.cols; k += VL)
            add_terms(e, &t, words, k, grouped_least(t.cols - k, VL));
    }
}

/* What a part of the terms adds up to is added to the sums of those before. */
static inline void add_sums(const few_terms *t, float *to, int64_t stride, int add)
{
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t k = 0; k < t->cols; k += VL) {
            const vf x = v_load(EL_F32, t->sums + r * t->stride, k);
            float *at = to + r * stride;
            v_store(EL_F32, at, k, add ? v_load(EL_F32, at, k) + x : x);
        }
}

static inline void multiply_few_terms(const grouped_product *p, const grouped_block *b,
                                      const step *s, int64_t cols)
{
    const grouped_factor f = matrix_of(p, b->group);
    few_terms t = {.left = s->whole,
                   .sums = s->sums + ROWS * COLS - FEW_SUMS,
                   .rows = b->rows,
                   .stride = round_up(b->cols, NR),
                   .cols = b->cols};
    pack_few(p, b, s, b->rows);
    for (int place = 0; place < (p->second ? 2 : 1); place++) {
        const int64_t lane0 = b->col + place * p->second;
        memset(t.sums, 0, sizeof *t.sums * (size_t)(t.rows * t.stride));
        if (PAIRS)
            sum_few_terms(EL_BF16, &f, s->term0, s->terms, lane0, t);
        else
            EL_SPECIALIZE(f.type, sum_few_terms, &f, s->term0, s->terms, lane0, t);
        add_sums(&t, s->sums + place * cols, b->stride, s->add);
    }
}

/* Beside a matrix unit, whose tiles add up in an order of their own, such groups differ. */
static inline int is_few(const grouped_product *p, int64_t rows)
{
    return !p->by_group && !(TILES && p->alike) && rows <= (p->terms_are_rows ? FEW_TERMS : FEW);
}

#endif
