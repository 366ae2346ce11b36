/* What the units of flash_attention on the CPU share: layouts of packed matrices, tiles, kernels.
 *
 * A packed matrix is an array of 32-bit words: floats or, where the machine multiplies pairs of
 * bf16 (FA_PAIRS), two bf16 that are neighbours in the direction of the sum. Three layouts, for a
 * block of r rows (keys or queries) of D elements, cut into slices of 64 elements so that every
 * stride is a constant:
 *   rows   [slice][r][FA_W]        a sum over d reads it word by word, broadcast
 *   lanes  [d words][FA_QB]        its transpose; a sum over d reads vectors of queries
 *   stack  [slice][r words][64]    a sum over r reads vectors of d; the same as rows for floats
 * Rows that fill up a register block are zero.
 */
#ifndef TG_FLASH_ATTENTION_CPU_H
#define TG_FLASH_ATTENTION_CPU_H

#include "rows/level.h"
#include "simd.h"
#include "tiles.h"

#define fa_view_of TG_AT_LEVEL(fa_view_of)
#define fa_sizes_of TG_AT_LEVEL(fa_sizes_of)
#define fa_grain TG_AT_LEVEL(fa_grain)
#define fa_scratch TG_AT_LEVEL(fa_scratch)
#define fa_softmax TG_AT_LEVEL(fa_softmax)
#define fa_softmax_gradient TG_AT_LEVEL(fa_softmax_gradient)
#define fa_scores TG_AT_LEVEL(fa_scores)
#define fa_sum_keys TG_AT_LEVEL(fa_sum_keys)
#define fa_sum_queries TG_AT_LEVEL(fa_sum_queries)
#define fa_pack_rows TG_AT_LEVEL(fa_pack_rows)
#define fa_stack TG_AT_LEVEL(fa_stack)
#define fa_lanes TG_AT_LEVEL(fa_lanes)
#define fa_store_row TG_AT_LEVEL(fa_store_row)

#if defined(SIMD_BF16_DOT)
#define FA_PAIRS 1
#else
#define FA_PAIRS 0
#endif

/* a block of sums, in registers or a matrix unit, is FA_MR rows of FA_NV vectors */
#if TILES
#define FA_MR 32
#elif VL == 16
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

/* Products of pairs of bf16 are for bf16 alone; other types have nothing to gain. */
#define FA_TAKES (FA_PAIRS ? TG_TAKES_BF16 : TG_TAKES_FLOATS)

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

/* keys for which all register blocks of queries need words */
SIMD_INLINE int fa_filled(const fa_tile *t)
{
    const int64_t panels = fa_round_up(t->nq, FA_NR), blocks = fa_round_up(t->nq, FA_MR);
    return fa_keys_up(t, (int)fa_max(panels, blocks) - 1);
}

/* ---- tensors ---- */

/* A tensor [B,S,H,D]: strides in elements. */
typedef struct fa_view {
    char *data;
    int64_t batch, row, head;
} fa_view;

SIMD_INLINE char *fa_at(const fa_view *t, el e, int64_t b, int64_t s, int64_t h)
{
    return t->data + (b * t->batch + s * t->row + h * t->head) * el_size(e);
}

typedef struct fa_sizes {
    el type;
    int64_t batch, queries, keys, heads, key_heads, d;
    int causal;
    float scale;
} fa_sizes;

/* ---- flash_attention_kernel.c ---- */

fa_view fa_view_of(const tg_tensor *t);
fa_sizes fa_sizes_of(const tg_tensor *q, const tg_tensor *k, double scale, int64_t causal);
/* Tasks that a worker takes at once, of a million products: small problems stay on one thread. */
int64_t fa_grain(int64_t products_per_task);
/* So many words for each worker; size: their bytes. */
char *fa_scratch(tg_ctx *ctx, int64_t words, int64_t *size);

/* Products: flash_attention_kernel_registers.c, flash_attention_kernel_tiles.c.
 * scores[key][query] = scale * sum over d of a[key][d] * b[d][query], where they can be seen.
 * a: layout rows of a_rows rows; b: layout lanes. */
void fa_scores(const fa_tile *t, int64_t d, const word *a, int64_t a_rows, const word *b,
               float scale, float *scores);
/* sums[query][d] += sum over keys of p[key][query] * b[key][d].
 * p: words of keys; b: layout stack of b_rows rows. sums: [slice][sum_rows][64]. */
void fa_sum_keys(const fa_tile *t, int64_t d, const word *p, const word *b, int64_t b_rows,
                 float *sums, int64_t sum_rows);
/* sums[key][d] += sum over queries of p[key][query] * b[query][d].
 * p: words of queries; b: layout stack of one tile. sums: [slice][sum_rows][64]. */
void fa_sum_queries(const fa_tile *t, int64_t d, const word *p, const word *b, float *sums,
                    int64_t sum_rows);
/* n rows of d elements to layout rows; zero rows up to `padded`. */
void fa_pack_rows(el e, const char *from, int64_t stride, int64_t n, int64_t padded, int64_t d,
                  word *to, int64_t to_rows);
/* Layout stack from layout rows. For floats they are the same and `stack` is not used. */
const word *fa_stack(const word *rows, word *stack, int64_t n, int64_t d, int64_t all_rows);
/* Layout lanes from one tile in layout rows, n rows rounded up to FA_NR. */
void fa_lanes(const word *rows, int64_t n, int64_t d, word *lanes);
/* One row of sums [slice][..][64], slice_step floats apart, times factor, to a row of a tensor. */
void fa_store_row(el e, char *to, int64_t d, const float *sums, int64_t slice_step, float factor);

/* ---- flash_attention_kernel_softmax.c ---- */

/* Takes the tile's scores of the panel of FA_NR queries at i into max and sum; they become
 * probabilities, words of keys up to `filled`. factor: of the sums of earlier tiles. */
void fa_softmax(const fa_tile *t, int i, int filled, float *scores, float *max, float *sum,
                float *factor);
/* p, scores, become probabilities, and ds, products of dy and v, their gradients: words of queries;
 * ds_keys: of keys. rows: lse, and `padded` floats further the sums over d of dy y. */
void fa_softmax_gradient(const fa_tile *t, int i, int filled, float *p, float *ds, word *ds_keys,
                         const float *rows, int64_t padded);

#endif
