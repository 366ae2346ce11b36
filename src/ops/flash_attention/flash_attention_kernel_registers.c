/* flash_attention: products of small matrices that lie packed in scratch, in
 * registers of vectors. */
#include "flash_attention_cpu_kernels.h"

#if !TILES

/* ---- register blocks ---- */

typedef struct fa_block {
    vf v[FA_MR][FA_NV];
} fa_block;

SIMD_INLINE vf fa_multiply_add(vf sum, vi a, vi b)
{
#if FA_PAIRS
    return v_dot_bf16(sum, a, b);
#else
    return (vf)a * (vf)b + sum;
#endif
}

/* A word in all lanes. Of floats as a float: NEON's products take it from a
 * register's lane then. */
SIMD_INLINE vi fa_spread(const word *a)
{
#if FA_PAIRS
    return v_seti(*a);
#else
    return (vi)v_set(*(const float_word *)a);
#endif
}

/* block[i][:] += sum over k < depth of a[i * a_row + k * a_step] * b[k * b_step + :] */
SIMD_INLINE void fa_block_multiply(fa_block *block, const word *a, int64_t a_row, int64_t a_step,
                                   const word *b, int64_t b_step, int64_t depth)
{
    for (int64_t k = 0; k < depth; k++) {
        vi column[FA_NV];
#pragma GCC unroll 4
        for (int j = 0; j < FA_NV; j++)
            column[j] = *(const vi_mem *)(b + j * VL);
#pragma GCC unroll 16
        for (int i = 0; i < FA_MR; i++) {
            const vi value = fa_spread(a + i * a_row);
#pragma GCC unroll 4
            for (int j = 0; j < FA_NV; j++)
                block->v[i][j] = fa_multiply_add(block->v[i][j], value, column[j]);
        }
        a += a_step;
        b += b_step;
    }
}

SIMD_INLINE void fa_block_zero(fa_block *block)
{
#pragma GCC unroll 16
    for (int i = 0; i < FA_MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < FA_NV; j++)
            block->v[i][j] = v_set(0.0f);
}

SIMD_INLINE void fa_block_load(fa_block *block, const float *c, int64_t c_row)
{
#pragma GCC unroll 16
    for (int i = 0; i < FA_MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < FA_NV; j++)
            block->v[i][j] = *(const vf_mem *)(c + i * c_row + j * VL);
}

SIMD_INLINE void fa_block_store(const fa_block *block, float *c, int64_t c_row, float scale)
{
#pragma GCC unroll 16
    for (int i = 0; i < FA_MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < FA_NV; j++)
            *(vf_mem *)(c + i * c_row + j * VL) = block->v[i][j] * v_set(scale);
}

SIMD_INLINE void fa_block_store_sum(const fa_block *block, float *c, int64_t c_row)
{
#pragma GCC unroll 16
    for (int i = 0; i < FA_MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < FA_NV; j++)
            *(vf_mem *)(c + i * c_row + j * VL) = block->v[i][j];
}

/* ---- products over a tile ---- */

void fa_scores(const fa_tile *t, int64_t d, const word *a, int64_t a_rows, const word *b,
               float scale, float *scores)
{
    for (int j = 0; j < t->nq; j += FA_NR) {
        const int keys = fa_keys_up(t, j + FA_NR - 1);
        for (int i = fa_keys_from(t, j); i < keys; i += FA_MR) {
            fa_block block;
            fa_block_zero(&block);
            const word *as = a + i * FA_W, *bs = b + j;
            for (int64_t s = 0; s < fa_slices(d); s++) {
                fa_block_multiply(&block, as, FA_W, 1, bs, FA_QB, fa_depth(d, s));
                as += a_rows * FA_W;
                bs += FA_W * FA_QB;
            }
            fa_block_store(&block, scores + i * FA_QB + j, FA_QB, scale);
        }
    }
}

void fa_sum_keys(const fa_tile *t, int64_t d, const word *p, const word *b, int64_t b_rows,
                 float *sums, int64_t sum_rows)
{
    for (int64_t n = 0; n < d; n += FA_NR) {
        const int64_t s = n / FA_SLICE, column = n % FA_SLICE;
        const word *bs = b + s * (b_rows / FA_PER_WORD) * FA_SLICE + column;
        float *c = sums + s * sum_rows * FA_SLICE + column;
        for (int i = 0; i < t->nq; i += FA_MR) {
            const int begin = fa_keys_from(t, i) / FA_PER_WORD;
            const int end = (fa_keys(t, i + FA_MR - 1) + FA_PER_WORD - 1) / FA_PER_WORD;
            if (end <= begin)
                continue;
            fa_block block;
            fa_block_load(&block, c + i * FA_SLICE, FA_SLICE);
            fa_block_multiply(&block, p + i + begin * FA_QB, 1, FA_QB, bs + begin * FA_SLICE,
                              FA_SLICE, end - begin);
            fa_block_store_sum(&block, c + i * FA_SLICE, FA_SLICE);
        }
    }
}

void fa_sum_queries(const fa_tile *t, int64_t d, const word *p, const word *b, float *sums,
                    int64_t sum_rows)
{
    const int keys = fa_keys(t, t->nq - 1);
    for (int64_t n = 0; n < d; n += FA_NR) {
        const int64_t s = n / FA_SLICE, column = n % FA_SLICE;
        const word *bs = b + s * FA_STACK_TILE + column;
        float *c = sums + s * sum_rows * FA_SLICE + column;
        for (int i = fa_keys_from(t, 0); i < keys; i += FA_MR) {
            const int begin = fa_first_query(t, i) / FA_PER_WORD;
            const int end = (fa_end_query(t, i + FA_MR - 1) + FA_PER_WORD - 1) / FA_PER_WORD;
            fa_block block;
            fa_block_load(&block, c + i * FA_SLICE, FA_SLICE);
            fa_block_multiply(&block, p + i * FA_QB + begin, FA_QB, 1, bs + begin * FA_SLICE,
                              FA_SLICE, end - begin);
            fa_block_store_sum(&block, c + i * FA_SLICE, FA_SLICE);
        }
    }
}

#endif
