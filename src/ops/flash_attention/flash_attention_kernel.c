/* flash_attention: sizes of a call, and the way from tensors to packed matrices in
 * scratch and back. */
#include "flash_attention_cpu_kernels.h"

/* ---- calls ---- */

fa_view fa_view_of(const tg_tensor *t)
{
    return (fa_view){tg_data(t), tg_stride(t, 0), tg_stride(t, 1), tg_stride(t, 2)};
}

fa_sizes fa_sizes_of(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                     const tg_tensor *bias, const tg_tensor *sinks, attention_mask mask,
                     double scale, double softcap, tg_dropout dropout)
{
    const int64_t d = q->shape[3];
    fa_sizes n = {.type = (el)tg_el(tg_type_of(q)),
                  .mask = mask,
                  .heads = q->shape[2],
                  .key_heads = k->shape[2],
                  .d = d,
                  .e = v->shape[3],
                  .softcap = (float)softcap,
                  .dropout = dropout};
    n.scale = (float)(scale != 0 ? scale : d > 0 ? 1 / sqrt((double)d) : 1);
    if (bias) {
        n.bias =
            (fa_view){tg_data(bias), tg_stride(bias, 0), tg_stride(bias, 2), tg_stride(bias, 1)};
        n.bias_type = (el)tg_el(tg_type_of(bias));
    }
    if (sinks) {
        n.sinks = tg_data(sinks);
        n.sinks_type = (el)tg_el(tg_type_of(sinks));
    }
    return n;
}

float fa_number(el e, const void *data, int64_t i)
{
    return v_load_n(e, data, i, 1, 0.0f)[0];
}

int64_t fa_find(const int64_t *before, int64_t count, int64_t at)
{
    int64_t low = 0;
    for (int64_t high = count; high - low > 1;) {
        const int64_t middle = low + (high - low) / 2;
        if (before[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t fa_pairs(const attention_mask *m)
{
    int64_t pairs = 0;
    for (int64_t i = 0; i < m->sequences; i++) {
        const attention_sequence s = attention_sequence_at(m, i);
        pairs += s.queries * s.keys;
    }
    return fa_max(1, pairs);
}

int64_t fa_grain(int64_t products_per_task)
{
    return ((int64_t)1 << 20) / (products_per_task + 1) + 1;
}

char *fa_scratch(tg_ctx *ctx, int64_t words, int64_t *size)
{
    *size = fa_round_up(words * (int64_t)sizeof(word), 64);
    return tg_workspace(ctx, (size_t)(*size * tg_ctx_threads(ctx)));
}

/* ---- between tensors and packed layouts ---- */

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

void fa_pack_rows(el e, const char *from, int64_t stride, int64_t n, int64_t padded, int64_t d,
                  word *to, int64_t to_rows)
{
#if FA_PAIRS
    fa_pack_rows_of(e, from, stride, n, d, to, to_rows);
#else
    EL_SPECIALIZE(e, fa_pack_rows_of, from, stride, n, d, to, to_rows);
#endif
    fa_clear_rows(to, n, padded, d, to_rows);
}

void fa_clear_rows(word *rows, int64_t begin, int64_t end, int64_t d, int64_t all_rows)
{
    for (int64_t s = 0; s < fa_slices(d); s++)
        memset(rows + (s * all_rows + begin) * FA_W, 0,
               (size_t)((end - begin) * FA_W) * sizeof *rows);
}

const word *fa_stack(const word *rows, word *stack, int64_t n, int64_t d, int64_t all_rows)
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

void fa_lanes(const word *rows, int64_t n, int64_t d, word *lanes)
{
    for (int64_t s = 0; s < fa_slices(d); s++)
        for (int64_t r = 0; r < fa_round_up(n, FA_NR); r += VL)
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

void fa_store_row(el e, char *to, int64_t d, const float *sums, int64_t slice_step, float factor)
{
    EL_SPECIALIZE(e, fa_store_row_of, to, d, sums, slice_step, factor);
}
