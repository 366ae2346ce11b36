/* flash_attention.h - attention as an eager framework has it: the scores of all heads in memory.
 * Packed rows are one sequence whose mask hides what belongs to others. */
#ifndef UNFUSED_FLASH_ATTENTION_H
#define UNFUSED_FLASH_ATTENTION_H

#include "eager.h"

typedef struct attention {
    eager e;
    const tg_tensor *q, *k, *v, *cu_seqlens_q, *cu_seqlens_k, *bias, *sinks;
    int64_t batch, heads, group, queries, keys;
    int64_t left, right; /* keys before and after a query's own that it sees; -1: all */
    double scale, softcap;
    tg_dropout dropout;
    int type;
} attention;

#define ATTENTION(ctx, a)                                                     \
    attention_begin((attention){.e = eager_begin(ctx),                        \
                                .q = (a)->q,                                  \
                                .k = (a)->k,                                  \
                                .v = (a)->v,                                  \
                                .cu_seqlens_q = (a)->cu_seqlens_q,            \
                                .cu_seqlens_k = (a)->cu_seqlens_k,            \
                                .bias = (a)->bias,                            \
                                .sinks = (a)->sinks,                          \
                                .left = (a)->window_left,                     \
                                .right = (a)->causal ? 0 : (a)->window_right, \
                                .scale = (a)->scale,                          \
                                .softcap = (a)->softcap,                      \
                                .dropout = TG_DROPOUT(a)})

attention attention_begin(attention a);

/* One head of [B,S,H,D]. */
mat attention_head(const tg_tensor *t, int64_t b, int64_t h);
/* One head's part of [B * H * S, cols], and all of it. */
mat attention_part(const attention *a, mat all, int64_t head);
mat attention_rows(attention *a, int type, int64_t columns);

/* x y^T of every head: rows of x by keys */
mat attention_products(attention *a, const tg_tensor *x, const tg_tensor *y);
/* Scores of q and k with mask and bias, in f32; slope: the derivative of the soft cap, if there is
 * one and it is wanted. */
mat attention_scores(attention *a, mat *slope);
/* x, of all heads, times what dropout multiplies probabilities by; frees x */
mat attention_drop(attention *a, mat x);

#endif
