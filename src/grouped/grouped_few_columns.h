/* src/grouped/grouped_few_columns.h - groups of few rows times matrices whose rows are columns of
 * the product. A part of grouped.c. */
#ifndef TG_GROUPED_FEW_COLUMNS_H
#define TG_GROUPED_FEW_COLUMNS_H

#include "grouped_steps.h"
#include "simd/few_rows.h"

/* The rows that such a block is packed and computed for. With 32 registers a row alone takes as
 * long as four, since both wait for memory. */
static inline int64_t few_height(int64_t rows)
{
    if (rows <= 1 && SIMD_REGISTERS < 32)
        return 1;
    return rows <= 4 ? 4 : rows <= 8 && FEW > 8 ? 8 : FEW;
}

/* Rows of a block, packed whole: parts of WORDS words, one after the other, each of `height` lanes
 * that are LANE words apart. Lanes behind the block's rows are 0. */
static inline void pack_few(const grouped_product *p, const grouped_block *b, const step *s,
                            int64_t height)
{
    const int64_t part = WORDS * WORD_TERMS;
    word *out = s->whole;
    for (int64_t t = 0; t < s->terms; t += part, out += height * LANE) {
        pack_left(0, &p->left, b->row, b->rows, s->term0 + t, grouped_least(s->terms - t, part),
                  out);
        memset(out + b->rows * LANE, 0, sizeof(word) * (size_t)((height - b->rows) * LANE));
    }
}

/* Some columns of a block, at most VL, and those that are read next. */
typedef struct few_columns {
    const char *at, *next;
    int64_t stride, count; /* bytes; columns */
    int in_order;          /* rows of the matrix follow each other without a gap */
    const word *left;      /* packed */
    float *sums;
    int64_t sums_stride;
    int add; /* to sums that are there */
} few_columns;

/* One part of at most WORDS words, which begins `done` bytes behind the first term. */
SIMD_INLINE void sum_part_of_columns(el e, int rows, const few_columns *c, const word *left,
                                     int64_t done, int64_t terms, vf *sum)
{
    const int64_t bytes = SQUARE_TERMS * el_size(e);
    const int64_t step = c->in_order ? VL * bytes : bytes;
    const char *at = c->at + done;
    square_ahead next = {c->next + (c->in_order ? VL * done : done),
                         c->in_order ? SQUARE_LINE : c->stride};
    square_left words = {left, LANE, 1};
    int64_t t = 0;
    if (c->count == VL)
        for (; t + SQUARE_TERMS <= terms; t += SQUARE_TERMS) {
            add_square(e, rows, 1, at, c->stride, VL, SQUARE_TERMS, words, next, sum);
            at += bytes, next.at += step, words.at += VL;
        }
    for (; t < terms; t += SQUARE_TERMS) {
        add_square(e, rows, 0, at, c->stride, c->count, grouped_least(terms - t, SQUARE_TERMS),
                   words, next, sum);
        at += bytes, next.at += step, words.at += VL;
    }
}

/* The sums of `count` rows, of `rows`, a constant, that were computed. */
SIMD_INLINE void store_columns(const few_columns *c, int rows, int64_t count, int add,
                               const vf *sum)
{
    float *to = c->sums;
#pragma GCC unroll 24
    for (int r = 0; r < rows; r++, to += c->sums_stride)
        if (r < count)
            v_store(EL_F32, to, 0, add ? v_load(EL_F32, to, 0) + sum[r] : sum[r]);
}

SIMD_INLINE void sum_columns(el e, int rows, const few_columns *c, int64_t count, int64_t terms)
{
    const word *left = c->left;
    int add = c->add;
    for (int64_t t = 0; t < terms; t += WORDS * WORD_TERMS, left += rows * LANE, add = 1) {
        vf sum[FEW];
#pragma GCC unroll 24
        for (int r = 0; r < rows; r++)
            sum[r] = v_set(0.0f);
        sum_part_of_columns(e, rows, c, left, t * el_size(e),
                            grouped_least(terms - t, WORDS * WORD_TERMS), sum);
        store_columns(c, rows, count, add, sum);
    }
}

/* ---- as many rows as a vector has lanes ---- */

/* Whether rows are the lanes of a vector, and words of the matrix are broadcast. For rows that are
 * broadcast words of the matrix are transposed, which takes less for fewer rows. */
#define ROWS_ARE_LANES(height) (SIMD_REGISTERS == 32 && FEW == VL && (height) == FEW)

/* A square of words as they lie in a matrix, which are copied: lines of rows that are a power of
 * two apart share few sets of the first cache, and words that are whole lines apart one bank. */
typedef struct few_square {
    word row[VL][VL + 4];
} __attribute__((aligned(64))) few_square;

/* whole, a constant: all of the square is there. */
SIMD_INLINE void copy_square(el e, int whole, const few_columns *c, const char *at, int64_t terms,
                             square_ahead next, few_square *to)
{
    __asm__("" : "+r"(at)); /* addresses of columns are computed here: see add_square() */
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        *(words_mem *)to->row[i] =
            whole || i < c->count ? words_along(e, at + i * c->stride, whole ? SQUARE_TERMS : terms)
                                  : v_seti(0);
        square_ask(e, i, next);
    }
}

/* sum[i] += rows, the lanes, times column i of a square. */
SIMD_INLINE void add_lanes(const few_square *square, const word *rows, int64_t words, vf *sum)
{
#pragma GCC unroll 1
    for (int64_t w = 0; w < words; w++, rows += VL) {
        const vi x = *(const words_mem *)rows;
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            sum[i] = add_word(sum[i], &square->row[i][w], x);
    }
}

/* Copies the square that begins `t` terms behind the first one of `terms`. */
SIMD_INLINE void copy_terms(el e, const few_columns *c, int64_t t, int64_t terms, few_square *to)
{
    const int64_t bytes = t * el_size(e);
    const square_ahead next = {c->next + (c->in_order ? VL * bytes : bytes),
                               c->in_order ? SQUARE_LINE : c->stride};
    if (c->count == VL && t + SQUARE_TERMS <= terms)
        copy_square(e, 1, c, c->at + bytes, SQUARE_TERMS, next, to);
    else
        copy_square(e, 0, c, c->at + bytes, grouped_least(terms - t, SQUARE_TERMS), next, to);
}

/* A square is copied while the one before it is multiplied. */
SIMD_INLINE void sum_lanes(el e, const few_columns *c, int64_t count, int64_t terms)
{
    few_square square[2];
    int now = 0;
    copy_terms(e, c, 0, terms, &square[0]);
    for (int64_t t = 0; t < terms; t += WORDS * WORD_TERMS) {
        const int64_t end = grouped_least(terms, t + WORDS * WORD_TERMS);
        vf sum[VL];
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            sum[i] = v_set(0.0f);
        for (int64_t k = t; k < end; k += SQUARE_TERMS, now = !now) {
            if (k + SQUARE_TERMS < terms)
                copy_terms(e, c, k + SQUARE_TERMS, terms, &square[!now]);
            add_lanes(&square[now], c->left + k / WORD_TERMS * VL,
                      words_of(grouped_least(end - k, SQUARE_TERMS)), sum);
        }
        vi turned[VL];
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            turned[i] = (vi)sum[i];
        v_transpose(turned);
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            sum[i] = (vf)turned[i];
        store_columns(c, VL, count, c->add || t > 0, sum);
    }
}

/* ---- the product ---- */

SIMD_INLINE void sum_few_columns(el e, const few_columns *c, int64_t rows, int64_t terms)
{
#define OF(height)                                                           \
    if (few_height(rows) == (height) && (height) <= FEW) {                   \
        if (ROWS_ARE_LANES(height))                                          \
            sum_lanes(e, c, rows, terms);                                    \
        else                                                                 \
            sum_columns(e, (height) < FEW ? (height) : FEW, c, rows, terms); \
        return;                                                              \
    }
    OF(1)
    OF(4)
    OF(8)
    OF(FEW)
#undef OF
}

/* Where column `k` behind a block's columns begins, those of the second place behind the first
 * one's; behind all of them, where `then` says. */
static inline const char *few_column_at(const grouped_product *p, const grouped_factor *f,
                                        const grouped_block *b, const step *s, int place, int64_t k)
{
    if (k >= b->cols && place == 0 && p->second)
        return grouped_row_at(f, b->col + p->second, s->term0);
    if (k >= b->cols && b->then)
        return b->then;
    if (k >= b->cols)
        k = 0;
    return grouped_row_at(f, b->col + k + place * p->second, s->term0);
}

static inline void multiply_few_columns(const grouped_product *p, const grouped_block *b,
                                        const step *s, int64_t cols)
{
    const grouped_factor f = matrix_of(p, b->group);
    const int64_t height = few_height(b->rows);
    if (ROWS_ARE_LANES(height))
        pack_words(0, &p->left, b->row, b->rows, s->term0, s->terms, VL, s->whole);
    else
        pack_few(p, b, s, height);
    for (int place = 0; place < (p->second ? 2 : 1); place++)
        for (int64_t k = 0; k < b->cols; k += VL) {
            const few_columns c = {.at = few_column_at(p, &f, b, s, place, k),
                                   .next = few_column_at(p, &f, b, s, place, k + VL),
                                   .stride = f.stride * el_size(f.type),
                                   .count = grouped_least(b->cols - k, VL),
                                   .in_order = s->terms == f.stride,
                                   .left = s->whole,
                                   .sums = s->sums + place * cols + k,
                                   .sums_stride = b->stride,
                                   .add = s->add};
            if (PAIRS)
                sum_few_columns(EL_BF16, &c, b->rows, s->terms);
            else
                EL_SPECIALIZE(f.type, sum_few_columns, &c, b->rows, s->terms);
        }
}

#endif
