/* src/grouped/grouped_few.h - groups of few rows, which read each matrix once: nothing of it is
 * packed. A part of grouped.c. */
#ifndef TG_GROUPED_FEW_H
#define TG_GROUPED_FEW_H

#include "grouped_panels.h"

SIMD_INLINE vf multiply_add_words(vf sum, vi a, vi b)
{
#if defined(SIMD_BF16_DOT)
    return v_dot_bf16(sum, a, b);
#else
    return sum + (vf)a * (vf)b;
#endif
}

/* Products of `rows` rows on the left, a constant up to FEW_ROWS, with FEW_COLS on the right that
 * follow each other, of which `cols` are there. Meanwhile the memory of the next ones is asked for.
 */
SIMD_INLINE void multiply_rows(el e, int rows, const char *const *left, const char *right,
                               int64_t stride, int64_t cols, int64_t terms, float *sums,
                               int64_t sums_stride)
{
    vf sum[FEW_ROWS][FEW_COLS];
    const char *column[FEW_COLS];
    for (int c = 0; c < FEW_COLS; c++)
        column[c] = right + (c < cols ? c : 0) * stride;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int c = 0; c < FEW_COLS; c++)
            sum[r][c] = v_set(0.0f);
    for (int64_t t = 0; t < terms; t += VL * PER_WORD) {
        vi x[FEW_COLS];
#pragma GCC unroll 16
        for (int c = 0; c < FEW_COLS; c++) {
            x[c] = words_of_row(e, column[c], t, terms - t);
            __builtin_prefetch(column[c] + FEW_COLS * stride + t * el_size(e), 0, 2);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vi y = words_of_row(e, left[r], t, terms - t);
#pragma GCC unroll 16
            for (int c = 0; c < FEW_COLS; c++)
                sum[r][c] = multiply_add_words(sum[r][c], y, x[c]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < FEW_COLS; c++)
            sums[r * sums_stride + c] = v_sum(sum[r][c]);
}

/* A block whose right factor's lanes are rows. */
SIMD_INLINE void multiply_few(el e, const grouped_product *p, const grouped_block *b, int place,
                              float *sums)
{
    grouped_factor f = p->right;
    f.data += b->group * p->right_rows * f.stride * el_size(e);
    const int64_t stride = f.stride * el_size(e);
    for (int64_t k = 0; k < b->cols; k += FEW_COLS) {
        const char *right = grouped_row_at(&f, b->col + k + place * p->second, 0);
        const int64_t cols = b->cols - k;
        for (int64_t i = 0; i < b->rows; i += FEW_ROWS) {
            const char *left[FEW_ROWS];
            float *to = sums + i * b->stride + k;
            const int64_t rows = grouped_least(b->rows - i, FEW_ROWS);
            for (int r = 0; r < FEW_ROWS; r++)
                left[r] = grouped_row_at(&p->left, b->row + i + (r < rows ? r : 0), 0);
            if (rows > 2)
                multiply_rows(e, FEW_ROWS, left, right, stride, cols, p->terms, to, b->stride);
            else if (rows > 1)
                multiply_rows(e, 2, left, right, stride, cols, p->terms, to, b->stride);
            else
                multiply_rows(e, 1, left, right, stride, cols, p->terms, to, b->stride);
        }
    }
}

/* A vector of columns of the right factor's words p to p + FEW_WORDS times the left one's. */
SIMD_INLINE void add_products(int64_t rows, const word *left, const vi *x, float *sums,
                              int64_t stride)
{
    for (int64_t r = 0; r < rows; r++) {
        vf sum = v_load(EL_F32, sums + r * stride, 0);
#pragma GCC unroll 8
        for (int w = 0; w < FEW_WORDS; w++)
            sum = multiply_add(sum, left[w * MR + r], (vf)x[w]);
        v_store(EL_F32, sums + r * stride, 0, sum);
    }
}

/* Some terms of a block of at most MR rows whose right factor's terms are rows; left: packed, and 0
 * behind the last word. sums: 0 at first. */
SIMD_INLINE void multiply_few_terms(el e, const grouped_factor *f, int64_t rows, int64_t lane0,
                                    int64_t cols, int64_t term0, int64_t terms, const word *left,
                                    float *sums, int64_t stride)
{
    const int64_t step = FEW_WORDS * PER_WORD;
    for (int64_t t = 0; t < terms; t += step, left += FEW_WORDS * MR) {
        const char *row[FEW_WORDS * PER_WORD];
        for (int i = 0; i < step; i++)
            row[i] = t + i < terms ? grouped_row_at(f, term0 + t + i, lane0) : NULL;
        for (int64_t k = 0; k < cols; k += VL) {
            const int64_t n = grouped_least(cols - k, VL);
            vi x[FEW_WORDS];
#pragma GCC unroll 8
            for (int w = 0; w < FEW_WORDS; w++) {
                const term_rows t = {row[w * PER_WORD], row[w * PER_WORD + PER_WORD - 1]};
                x[w] = t.first ? words_of_lanes(e, t, k, n) : v_seti(0);
            }
            add_products(rows, left, x, sums + k, stride);
        }
    }
}

static inline int is_few(const grouped_product *p, int64_t rows)
{
    return !p->by_group && !p->alike && rows <= (p->terms_are_rows ? FEW_TERMS : FEW);
}

#endif
