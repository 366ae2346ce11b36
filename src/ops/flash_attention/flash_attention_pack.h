/* flash_attention_pack.h - between tensors and the packed layouts of flash_attention_tile.h. */
#ifndef TG_FLASH_ATTENTION_PACK_H
#define TG_FLASH_ATTENTION_PACK_H

#include "flash_attention_tile.h"

/* A tensor [B,S,H,D]: strides in elements. */
typedef struct fa_view {
    char *data;
    int64_t batch, row, head;
} fa_view;

SIMD_INLINE char *fa_at(const fa_view *t, el e, int64_t b, int64_t s, int64_t h)
{
    return t->data + (b * t->batch + s * t->row + h * t->head) * el_size(e);
}

#if FA_PAIRS
/* 2 VL elements of bf16 from column c on, as words; zero past d */
SIMD_INLINE vi fa_words(const uint16_t *row, int64_t c, int64_t d)
{
    vi words = {0};
    if (c + 2 * VL <= d)
        memcpy(&words, row + c, sizeof words); /* a row may begin between two words */
    else if (c < d)
        memcpy(&words, row + c, (size_t)(d - c) * sizeof *row);
    return words;
}
#else
/* VL elements from column c on, as floats; zero past d */
SIMD_INLINE vi fa_words_of(el e, const void *row, int64_t c, int64_t d)
{
    return (vi)(c + VL <= d ? v_load(e, row, c) : v_load_n(e, row, c, fa_max(0, d - c), 0.0f));
}
#endif

SIMD_INLINE void fa_pack_rows_of(el e, const char *from, int64_t stride, int64_t n, int64_t d,
                                 word *to, int64_t to_rows)
{
    for (int64_t s = 0; s < fa_slices(d); s++)
        for (int64_t r = 0; r < n; r++) {
            word *row = to + (s * to_rows + r) * FA_W;
            for (int64_t w = 0; w < FA_W; w += VL) {
                const int64_t c = s * FA_SLICE + w * FA_PER_WORD;
                const void *source = from + r * stride * el_size(e);
#if FA_PAIRS
                *(vi_mem *)(row + w) = fa_words(source, c, d);
#else
                *(vi_mem *)(row + w) = fa_words_of(e, source, c, d);
#endif
            }
        }
}

/* n rows of d elements to layout rows; zero rows up to `padded`. */
static void fa_pack_rows(el e, const char *from, int64_t stride, int64_t n, int64_t padded,
                         int64_t d, word *to, int64_t to_rows)
{
#if FA_PAIRS
    fa_pack_rows_of(e, from, stride, n, d, to, to_rows);
#else
    EL_SPECIALIZE(e, fa_pack_rows_of, from, stride, n, d, to, to_rows);
#endif
    for (int64_t s = 0; s < fa_slices(d); s++)
        memset(to + (s * to_rows + n) * FA_W, 0, (size_t)((padded - n) * FA_W) * sizeof *to);
}

/* Layout stack from layout rows. For floats they are the same and `stack` is not used. */
static const word *fa_stack(const word *rows, word *stack, int64_t n, int64_t d, int64_t all_rows)
{
#if FA_PAIRS
    const vi low = v_seti(0xffff);
    for (int64_t s = 0; s < fa_slices(d); s++)
        for (int64_t r = 0; r < n; r += 2) {
            const word *even = rows + (s * all_rows + r) * FA_W, *odd = even + FA_W;
            word *to = stack + (s * all_rows + r) / 2 * FA_SLICE;
            for (int64_t w = 0; w < FA_W; w += VL) {
                const vi a = *(const vi_mem *)(even + w), b = *(const vi_mem *)(odd + w);
                v_store_interleaved(to + 2 * w, (a & low) | b << 16,
                                    (vi)((vu)a >> 16) | (b & ~low));
            }
        }
    return stack;
#else
    (void)stack, (void)n, (void)d, (void)all_rows;
    return rows;
#endif
}

/* Layout lanes from one tile in layout rows, n rows rounded up to FA_NR. */
static void fa_lanes(const word *rows, int64_t n, int64_t d, word *lanes)
{
    for (int64_t s = 0; s < fa_slices(d); s++)
        for (int64_t r = 0; r < n; r += VL)
            for (int64_t w = 0; w < fa_depth(d, s); w += VL) {
                const word *from = rows + (s * FA_QB + r) * FA_W + w;
                word *to = lanes + (s * FA_W + w) * FA_QB + r;
                vi square[VL];
                for (int i = 0; i < VL; i++)
                    square[i] = *(const vi_mem *)(from + i * FA_W);
                v_transpose(square);
                for (int i = 0; i < VL; i++)
                    *(vi_mem *)(to + i * FA_QB) = square[i];
            }
}

SIMD_INLINE void fa_store_row_of(el e, char *to, int64_t d, const float *sums, int64_t slice_step,
                                 float factor)
{
    for (int64_t c = 0; c < d; c += VL) {
        const float *from = sums + c / FA_SLICE * slice_step + c % FA_SLICE;
        const vf value = *(const vf_mem *)from * v_set(factor);
        if (c + VL <= d)
            v_store(e, to, c, value);
        else
            v_store_n(e, to, c, d - c, value);
    }
}

/* One row of sums [slice][..][64], slice_step floats apart, times factor, to a row of a tensor. */
static void fa_store_row(el e, char *to, int64_t d, const float *sums, int64_t slice_step,
                         float factor)
{
    EL_SPECIALIZE(e, fa_store_row_of, to, d, sums, slice_step, factor);
}

#endif
