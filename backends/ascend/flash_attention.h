/* flash_attention.h - what the host files of attention share: tensors as its kernels see them, and
 * how they are cut. */
#ifndef ASCEND_FLASH_ATTENTION_H
#define ASCEND_FLASH_ATTENTION_H

#include <math.h>

#include <tigon/random.h>

#include "ascend.h"

/* f32 of a repeat; bytes that memory is fast with. */
enum { ATTENTION_LANES = 64, ATTENTION_LINE = 512 };

/* A tensor of batches, positions, heads and d: elements from one to the next. */
typedef struct attention_view {
    ascend_memory memory;
    int64_t batch, row, head;
} attention_view;
/* of_rows, of_heads: its dimensions of positions and heads. */
attention_view attention_view_of(const tg_tensor *t, int of_rows, int of_heads);

/* What a launch gives of it: the tensor's name in the kernel's list, and the view. */
#define ATTENTION_GIVE(t, view) \
    .t = &(view).memory, .t##_batch = (view).batch, .t##_row = (view).row, .t##_head = (view).head

/* What attention is of, with the names of kernels/attention/attention.args.h. Tensors of positions
 * lie as the views say; those of the other direction are left out. heads, key_heads: all their
 * classes. sequences: of packed rows, whose boundaries there are then, or 0. where: a tensor that
 * tells the type and the device. */
typedef struct attention_problem {
    const tg_tensor *where;
    attention_view q, k, v, y, dy, dq, dk, dv;
    ascend_memory lse, ends_q, ends_k, bias;
    int64_t batches, heads, key_heads, queries, keys, d, e, lo, hi, phases, dilation, positions;
    int64_t sequences, bias_type, bias_batch, bias_head, bias_row;
    double scale, softcap;
    tg_dropout dropout;
    const tg_tensor *sinks, *dsinks;
} attention_problem;

/* scale_: what the softmax multiplies scores by. */
#define ATTENTION_GIVE_PROBLEM(p, scale_)                                                      \
    .batches = (p)->batches, .heads = (p)->heads, .shared = (p)->heads / (p)->key_heads,       \
    .queries = (p)->queries, .all_keys = (p)->keys, .d = (p)->d, .lo = (p)->lo, .hi = (p)->hi, \
    .phases = (p)->phases, .dilation = (p)->dilation, .positions = (p)->positions,             \
    .negative = (scale_) < 0, .scale = fabs(scale_)
#define ATTENTION_GIVE_PACKED(p)                    \
    .ends_q = &(p)->ends_q, .ends_k = &(p)->ends_k, \
    .sequences = (p)->sequences ? (p)->sequences : (p)->batches
#define ATTENTION_GIVE_OPTIONS(p)                                                                 \
    ATTENTION_GIVE_PROBLEM(p, attention_changes(p) ? 1.0 : (p)->scale), ATTENTION_GIVE_PACKED(p), \
        .e = (p)->e, .softcap = (p)->softcap,                                                     \
        .inner = (p)->softcap != 0 ? 2 * (p)->scale / (p)->softcap : (p)->scale,                  \
        .bias = &(p)->bias, .bias_type = (p)->bias_type, .bias_batch = (p)->bias_batch,           \
        .bias_row = (p)->bias_row, .bias_head = (p)->bias_head,                                   \
        .seed = (int64_t)(p)->dropout.seed, .offset = (p)->dropout.offset,                        \
        .least = (p)->dropout.least

/* By the kernels of flash_attention; the backward takes y as well. */
tg_status attention_forward(tg_ctx *ctx, const attention_problem *p);
tg_status attention_backward(tg_ctx *ctx, const attention_problem *p);

/* What both directions of flash_attention are given. */
typedef struct attention_given {
    const tg_tensor *q, *k, *v, *y, *lse, *cu_seqlens_q, *cu_seqlens_k, *bias, *sinks;
    int64_t causal, window_left, window_right;
    double scale, softcap;
    tg_dropout dropout;
} attention_given;
#define ATTENTION_GIVEN(a)                                                                         \
    &(const attention_given)                                                                       \
    {                                                                                              \
        (a)->q, (a)->k, (a)->v, (a)->y, (a)->lse, (a)->cu_seqlens_q, (a)->cu_seqlens_k, (a)->bias, \
            (a)->sinks, (a)->causal, (a)->window_left, (a)->window_right, (a)->scale,              \
            (a)->softcap, TG_DROPOUT(a)                                                            \
    }

/* Its problem, without the tensors of one direction. */
attention_problem attention_of(const attention_given *given);

/* Whether the kernels of flash_attention take a call of either direction, and such tensors: heads
 * are no wider than FLASH_MOST_D. */
int attention_accepts(const attention_given *given);
int attention_takes(const tg_tensor *t);

/* Whether the vector cores do something to scores before the softmax: how many of the last buffers
 * of their plan they use then. */
int attention_changes(const attention_problem *p);
/* Options of the plans: whether numbers are drawn. */
uint32_t attention_options(const attention_problem *p);
/* The sinks as f32, in memory of the device; {NULL, 0} if there are none. */
tg_status attention_sinks(tg_ctx *ctx, const attention_problem *p, ascend_memory *sinks);

int64_t attention_up(int64_t n, int64_t step);   /* rounded up */
double attention_scale(double scale, int64_t d); /* 0: the default */
int64_t attention_half(int64_t d, int64_t rows); /* queries that a vector core has */

/* Tiles of as many keys as there are, `most` at most, and as many rows of them at a time as UB
 * holds, of `pitch` elements at least. 0 if none fits. */
enum { ATTENTION_MOST_KEYS = 512 };
int attention_choose(ascend_plan *plan, int64_t half, int64_t pitch, int64_t keys, int64_t most);

#endif
