/* flash_attention_gradient.h - the backward kernel for one tile of queries by keys. */
#ifndef TG_FLASH_ATTENTION_GRADIENT_H
#define TG_FLASH_ATTENTION_GRADIENT_H

#include "flash_attention_forward.h"

/* A worker's scratch. Tiles of queries are packed once for all tiles of keys of a block. */
typedef struct fa_gradients {
    word *k, *k_stack, *v;       /* the block of keys */
    float *dk, *dv;              /* [slice][tiles * FA_KB][64] */
    word *q, *q_lanes, *q_stack; /* a tile of queries */
    word *dy, *dy_lanes, *dy_stack;
    float *p, *ds; /* words of queries */
    word *ds_keys; /* words of keys; the same as ds for floats */
    int64_t block_rows;
} fa_gradients;

SIMD_INLINE int64_t fa_gradients_words(int64_t d, int64_t tiles)
{
    const int64_t s = fa_slices(d);
    return s * (2 * tiles * (FA_ROWS_TILE + FA_SUM_TILE) + tiles * FA_STACK_TILE) +
           s * (4 * FA_ROWS_TILE + 2 * FA_STACK_TILE) + 3 * FA_KB * FA_QB;
}

static fa_gradients fa_gradients_at(word *scratch, int64_t d, int64_t tiles)
{
    const int64_t rows = fa_slices(d) * FA_ROWS_TILE, stack = fa_slices(d) * FA_STACK_TILE;
    const int64_t sums = fa_slices(d) * FA_SUM_TILE;
    fa_gradients g = {.block_rows = tiles * FA_KB};
    g.k = scratch;
    g.v = g.k + tiles * rows;
    g.k_stack = g.v + tiles * rows;
    g.dk = (float *)(g.k_stack + tiles * stack);
    g.dv = g.dk + tiles * sums;
    g.q = (word *)(g.dv + tiles * sums);
    g.q_lanes = g.q + rows;
    g.dy = g.q_lanes + rows;
    g.dy_lanes = g.dy + rows;
    g.q_stack = g.dy_lanes + rows;
    g.dy_stack = g.q_stack + stack;
    g.p = (float *)(g.dy_stack + stack);
    g.ds = g.p + FA_KB * FA_QB;
    g.ds_keys = FA_PAIRS ? (word *)(g.ds + FA_KB * FA_QB) : (word *)g.ds;
    return g;
}

/* p = exp(score - lse), ds = p (dp - product), for the keys begin to end of a panel */
SIMD_INLINE void fa_panel_gradient(float *p, float *ds, word *ds_keys, int panel, int begin,
                                   int end, int masked, const vi keys[FA_NV], const vf lse[FA_NV],
                                   const vf products[FA_NV])
{
    for (int k = begin; k < end; k += 2) {
        vf pk[2][FA_NV], dk[2][FA_NV];
        for (int r = 0; r < 2; r++)
            for (int j = 0; j < FA_NV; j++) {
                const int64_t at = (k + r) * FA_QB + panel + j * VL;
                const vf e = v_exp_normal(v_min(v_set(88.0f), *(const vf_mem *)(p + at) - lse[j]));
                const vf s = e * (*(const vf_mem *)(ds + at) - products[j]);
                const vi seen = v_seti(k + r) < keys[j];
                pk[r][j] = masked ? v_select(seen, e, v_set(0.0f)) : e;
                dk[r][j] = masked ? v_select(seen, s, v_set(0.0f)) : s;
            }
#if FA_PAIRS
        /* the words of queries of a panel are written over scores of this or earlier panels */
        for (int r = 0; r < 2; r++) {
            const int64_t at = (k + r) * FA_QB + panel / 2;
            *(vi_mem *)((word *)p + at) = v_pack_row(pk[r][0], pk[r][1]);
            *(vi_mem *)((word *)ds + at) = v_pack_row(dk[r][0], dk[r][1]);
        }
        for (int j = 0; j < FA_NV; j++)
            *(vi_mem *)(ds_keys + k / 2 * FA_QB + panel + j * VL) =
                v_pack_pairs(dk[0][j], dk[1][j]);
#else
        (void)ds_keys;
        for (int r = 0; r < 2; r++)
            for (int j = 0; j < FA_NV; j++) {
                const int64_t at = (k + r) * FA_QB + panel + j * VL;
                *(vf_mem *)(p + at) = pk[r][j];
                *(vf_mem *)(ds + at) = dk[r][j];
            }
#endif
    }
}

static void fa_softmax_gradient(const fa_tile *t, int i, int filled, const fa_gradients *g,
                                const float *rows, int64_t padded)
{
    const int full = fa_keys_all(t, i), end = fa_keys_up(t, i + FA_NR - 1);
    vi keys[FA_NV];
    vf lse[FA_NV], products[FA_NV];
    fa_panel_keys(t, i, keys);
    for (int j = 0; j < FA_NV; j++) {
        lse[j] = *(const vf_mem *)(rows + i + j * VL);
        products[j] = *(const vf_mem *)(rows + padded + i + j * VL);
    }
    fa_panel_gradient(g->p, g->ds, g->ds_keys, i, 0, full, 0, keys, lse, products);
    fa_panel_gradient(g->p, g->ds, g->ds_keys, i, full, end, 1, keys, lse, products);
    fa_panel_clear(g->ds_keys + i, end, filled);
}

/* Tile `tile` of the block of keys against the packed tile of queries. rows: lse, and `padded` floats
 * further the sums over d of dy y. dq: [slice][padded][64]. */
static void fa_gradient_tile(const fa_tile *t, const fa_sizes *n, const fa_gradients *g,
                             int64_t tile, const float *rows, int64_t padded, float *dq)
{
    const int64_t d = n->d, at = tile * FA_KB, all = g->block_rows;
    const int filled = fa_filled(t);
    fa_scores(t, d, g->k + at * FA_W, all, g->q_lanes, n->scale, g->p);
    fa_scores(t, d, g->v + at * FA_W, all, g->dy_lanes, 1.0f, g->ds);
    for (int i = 0; i < t->nq; i += FA_NR)
        fa_softmax_gradient(t, i, filled, g, rows, padded);
    const word *k_stack = FA_PAIRS ? g->k_stack + at / 2 * FA_SLICE : g->k + at * FA_W;
    fa_sum_queries(t, d, (const word *)g->p, FA_PAIRS ? g->dy_stack : g->dy, g->dv + at * FA_SLICE,
                   all);
    fa_sum_queries(t, d, (const word *)g->ds, FA_PAIRS ? g->q_stack : g->q, g->dk + at * FA_SLICE,
                   all);
    fa_sum_keys(t, d, g->ds_keys, k_stack, all, dq, padded);
}

#endif
