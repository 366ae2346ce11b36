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

#include "flash_attention.h"
#include "rows/level.h"
#include "simd.h"
#include "tiles.h"

#define fa_view_of TG_AT_LEVEL(fa_view_of)
#define fa_sizes_of TG_AT_LEVEL(fa_sizes_of)
#define fa_number TG_AT_LEVEL(fa_number)
#define fa_find TG_AT_LEVEL(fa_find)
#define fa_pairs TG_AT_LEVEL(fa_pairs)
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
#define fa_clear_rows TG_AT_LEVEL(fa_clear_rows)
#define fa_change_scores TG_AT_LEVEL(fa_change_scores)
#define fa_draw TG_AT_LEVEL(fa_draw)
#define fa_few_part TG_AT_LEVEL(fa_few_part)
#define fa_few_words TG_AT_LEVEL(fa_few_words)
#define fa_few_piece TG_AT_LEVEL(fa_few_piece)
#define fa_few_finish TG_AT_LEVEL(fa_few_finish)
#define fa_alike TG_AT_LEVEL(fa_alike)
#define fa_alike_words TG_AT_LEVEL(fa_alike_words)

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

/* ---- which query sees which key ---- */

/* Query i of a sequence sees the keys from i + lo to i + hi, as far as there are any. */
typedef struct fa_sequence {
    attention_sequence at;
    int64_t lo, hi;
} fa_sequence;

SIMD_INLINE fa_sequence fa_sequence_at(const attention_mask *m, int64_t i)
{
    const attention_sequence at = attention_sequence_at(m, i);
    const int64_t own = at.keys - at.queries; /* the key beside the first query */
    return (fa_sequence){at, own - m->left, own + m->right + 1};
}

/* The first key that query i sees, or a later one. */
SIMD_INLINE int64_t fa_first_key(const fa_sequence *s, int64_t i)
{
    return fa_max(0, i + s->lo);
}

/* Queries before this one see no key. */
SIMD_INLINE int64_t fa_blind(const fa_sequence *s)
{
    return s->at.keys == 0 ? s->at.queries : fa_min(s->at.queries, fa_max(0, 1 - s->hi));
}

typedef struct fa_tile {
    int nq, nk;   /* queries and keys in it */
    int from, to; /* query i sees the keys [from + i, to + i), as far as there are any */
} fa_tile;

/* Of the queries from q0 on, by the keys from k0 on. */
SIMD_INLINE fa_tile fa_tile_of(const fa_sequence *s, int64_t q0, int64_t nq, int64_t k0, int64_t nk)
{
    const int64_t from = q0 + s->lo - k0, to = q0 + s->hi - k0;
    return (fa_tile){(int)nq, (int)nk, (int)fa_max(-FA_QB, fa_min(from, FA_KB)),
                     (int)fa_max(-FA_QB, fa_min(to, FA_KB))};
}

/* the end of the keys that query i sees */
SIMD_INLINE int fa_keys(const fa_tile *t, int i)
{
    return (int)fa_max(0, fa_min(t->nk, t->to + i));
}

/* whether any query sees a key of the tile */
SIMD_INLINE int fa_is_seen(const fa_tile *t)
{
    return fa_keys(t, t->nq - 1) > 0 && t->from < t->nk;
}

/* keys of the tile to compute for queries from i on: whole register blocks, from here .. */
SIMD_INLINE int fa_keys_from(const fa_tile *t, int i)
{
    return (int)(fa_max(0, fa_min(t->nk, t->from + i)) / FA_MR * FA_MR);
}

/* .. and for queries up to i, to here */
SIMD_INLINE int fa_keys_up(const fa_tile *t, int i)
{
    return (int)fa_round_up(fa_keys(t, i), FA_MR);
}

/* the first query that sees key k or an earlier one */
SIMD_INLINE int fa_first_query(const fa_tile *t, int k)
{
    return (int)fa_max(0, k + 1 - t->to);
}

/* the end of the queries that see key k or a later one */
SIMD_INLINE int fa_end_query(const fa_tile *t, int k)
{
    return (int)fa_max(0, fa_min(t->nq, k + 1 - t->from));
}

/* keys for which all register blocks of queries need words: from those of query 0 to here */
SIMD_INLINE int fa_filled(const fa_tile *t)
{
    const int64_t panels = fa_round_up(t->nq, FA_NR), blocks = fa_round_up(t->nq, FA_MR);
    return fa_keys_up(t, (int)fa_max(panels, blocks) - 1);
}

#endif
