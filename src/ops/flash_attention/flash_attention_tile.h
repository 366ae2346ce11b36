/* flash_attention_tile.h - register-blocked products of small matrices that lie packed in scratch.
 *
 * A packed matrix is an array of 32-bit words: floats or, where the machine multiplies pairs of
 * bf16 (FA_PAIRS), two bf16 that are neighbours in the direction of the sum. Three layouts, for a
 * block of r rows (keys or queries) of D elements, cut into slices of 64 elements so that every
 * stride is a constant: rows   [slice][r][FA_W]        a sum over d reads it word by word,
 * broadcast lanes  [d words][FA_QB]        its transpose; a sum over d reads vectors of queries
 *   stack  [slice][r words][64]    a sum over r reads vectors of d; the same as rows for floats
 * Rows that fill up a register block are zero.
 */
#ifndef TG_FLASH_ATTENTION_TILE_H
#define TG_FLASH_ATTENTION_TILE_H

#include "simd.h"

#if defined(SIMD_BF16_DOT)
#define FA_PAIRS 1
#else
#define FA_PAIRS 0
#endif

/* a register block is FA_MR rows of FA_NV vectors */
#if VL == 16
#define FA_MR 12
#elif SIMD_REGISTERS == 32
#define FA_MR 8
#elif VL == 8
#define FA_MR 6
#else
#define FA_MR 4
#endif
#define FA_NV 2
#define FA_NR (FA_NV * VL)

enum {
    FA_QB = 96,                    /* queries in a tile: a multiple of FA_MR and FA_NR */
    FA_KB = 96,                    /* keys in a tile: a multiple of FA_MR */
    FA_SLICE = 64,                 /* elements of d in a slice: a multiple of FA_NR */
    FA_PER_WORD = 1 + FA_PAIRS,    /* elements in a word */
    FA_W = FA_SLICE / FA_PER_WORD, /* words of a row in a slice */
    FA_ROWS_TILE = FA_KB * FA_W,   /* words of a tile in layout rows, one slice */
    FA_STACK_TILE = FA_KB * FA_SLICE / FA_PER_WORD,
    FA_SUM_TILE = FA_KB * FA_SLICE /* floats of a tile of sums, one slice */
};

typedef int32_t word __attribute__((may_alias));
typedef float float_word __attribute__((may_alias));
typedef int32_t vi_mem __attribute__((vector_size(4 * VL), aligned(4), may_alias));

SIMD_INLINE int64_t fa_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

SIMD_INLINE int64_t fa_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

SIMD_INLINE int64_t fa_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

SIMD_INLINE int64_t fa_slices(int64_t d)
{
    return (d + FA_SLICE - 1) / FA_SLICE;
}

/* words of the sum over d within slice s */
SIMD_INLINE int64_t fa_depth(int64_t d, int64_t s)
{
    return (fa_min(d - s * FA_SLICE, FA_SLICE) + FA_PER_WORD - 1) / FA_PER_WORD;
}

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

/* A word in all lanes. Of floats as a float: NEON's products take it from a register's lane then. */
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

/* ---- which query sees which key of a tile ---- */

typedef struct fa_tile {
    int nq, nk; /* queries and keys in it */
    int first;  /* query i sees the keys [0, first + i), as far as there are any */
} fa_tile;

SIMD_INLINE fa_tile fa_tile_of(int64_t q0, int64_t nq, int64_t k0, int64_t nk, int causal,
                               int64_t offset)
{
    const int64_t first = causal ? q0 + offset + 1 - k0 : FA_KB;
    return (fa_tile){(int)nq, (int)nk, (int)fa_max(-FA_QB, fa_min(first, FA_KB))};
}

/* number of keys that query i sees */
SIMD_INLINE int fa_keys(const fa_tile *t, int i)
{
    return (int)fa_max(0, fa_min(t->nk, t->first + i));
}

/* keys of the tile to compute for queries up to i: whole register blocks */
SIMD_INLINE int fa_keys_up(const fa_tile *t, int i)
{
    return (int)fa_round_up(fa_keys(t, i), FA_MR);
}

/* the first query that sees key k */
SIMD_INLINE int fa_first_query(const fa_tile *t, int k)
{
    return (int)fa_max(0, k + 1 - t->first);
}

/* ---- products over a tile ---- */

/* scores[key][query] = scale * sum over d of a[key][d] * b[d][query], where they can be seen.
 * a: layout rows of a_rows rows; b: layout lanes. */
static inline __attribute__((unused)) void fa_scores(const fa_tile *t, int64_t d, const word *a,
                                                     int64_t a_rows, const word *b, float scale,
                                                     float *scores)
{
    for (int j = 0; j < t->nq; j += FA_NR) {
        const int keys = fa_keys_up(t, j + FA_NR - 1);
        for (int i = 0; i < keys; i += FA_MR) {
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

/* sums[query][d] += sum over keys of p[key][query] * b[key][d].
 * p: words of keys; b: layout stack of b_rows rows. sums: [slice][sum_rows][64]. */
static inline __attribute__((unused)) void fa_sum_keys(const fa_tile *t, int64_t d, const word *p,
                                                       const word *b, int64_t b_rows, float *sums,
                                                       int64_t sum_rows)
{
    for (int64_t n = 0; n < d; n += FA_NR) {
        const int64_t s = n / FA_SLICE, column = n % FA_SLICE;
        const word *bs = b + s * (b_rows / FA_PER_WORD) * FA_SLICE + column;
        float *c = sums + s * sum_rows * FA_SLICE + column;
        for (int i = 0; i < t->nq; i += FA_MR) {
            const int keys = fa_keys(t, i + FA_MR - 1);
            if (keys == 0)
                continue;
            fa_block block;
            fa_block_load(&block, c + i * FA_SLICE, FA_SLICE);
            fa_block_multiply(&block, p + i, 1, FA_QB, bs, FA_SLICE,
                              (keys + FA_PER_WORD - 1) / FA_PER_WORD);
            fa_block_store_sum(&block, c + i * FA_SLICE, FA_SLICE);
        }
    }
}

/* sums[key][d] += sum over queries of p[key][query] * b[query][d].
 * p: words of queries; b: layout stack of one tile. sums: [slice][sum_rows][64]. */
static inline __attribute__((unused)) void fa_sum_queries(const fa_tile *t, int64_t d,
                                                          const word *p, const word *b, float *sums,
                                                          int64_t sum_rows)
{
    const int keys = fa_keys(t, t->nq - 1);
    for (int64_t n = 0; n < d; n += FA_NR) {
        const int64_t s = n / FA_SLICE, column = n % FA_SLICE;
        const word *bs = b + s * FA_STACK_TILE + column;
        float *c = sums + s * sum_rows * FA_SLICE + column;
        for (int i = 0; i < keys; i += FA_MR) {
            const int begin = fa_first_query(t, i) / FA_PER_WORD;
            const int end = (t->nq + FA_PER_WORD - 1) / FA_PER_WORD;
            fa_block block;
            fa_block_load(&block, c + i * FA_SLICE, FA_SLICE);
            fa_block_multiply(&block, p + i * FA_QB + begin, FA_QB, 1, bs + begin * FA_SLICE,
                              FA_SLICE, end - begin);
            fa_block_store_sum(&block, c + i * FA_SLICE, FA_SLICE);
        }
    }
}

#endif
