/* fused_neighborhood_attention.args.h - what its kernels are given; see asc_args.h. */
#ifndef FUSED_NEIGHBORHOOD_ATTENTION_ARGS_H
#define FUSED_NEIGHBORHOOD_ATTENTION_ARGS_H

#include "attention.args.h"

/* NEIGHBORHOOD_PIECE: elements of an operand that are looked at at a time. NEIGHBORHOOD_LINE: bytes
 * that a vector core has in memory to tell of them. */
enum { NEIGHBORHOOD_ROWS = 128, NEIGHBORHOOD_PIECE = 2048, NEIGHBORHOOD_LINE = 64 };

/* See attention.args.h. A window is `core_rows` positions of a class, whose rows of the outputs it
 * makes; the queries that this takes, and all keys that those see, up to `keys`. work: a line a
 * window; of each block and of two slots, and in each of both vector cores: scores, and in the
 * backward their gradients, f32; the exponentials, and in the backward their gradients. */
#define NEIGHBORHOOD_FORWARD(X) \
    ATTENTION_FORWARD(X)        \
    X(I64, work_block)          \
    NEIGHBORHOOD_BUFFERS(X)     \
    X(BUFFER, top, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)

#define NEIGHBORHOOD_BACKWARD(X)                             \
    X(MEMORY, q, ASC_T)                                      \
    X(MEMORY, k, ASC_T)                                      \
    X(MEMORY, v, ASC_T)                                      \
    X(MEMORY, dy, ASC_T)                                     \
    X(MEMORY, lse, float)                                    \
    X(MEMORY, dq, ASC_T)                                     \
    X(MEMORY, dk, ASC_T)                                     \
    X(MEMORY, dv, ASC_T)                                     \
    X(MEMORY, work, char)                                    \
    X(GRID, core_rows, keys, group, group_keys)              \
    ATTENTION_STRIDES(X, q)                                  \
    ATTENTION_STRIDES(X, k)                                  \
    ATTENTION_STRIDES(X, v)                                  \
    ATTENTION_STRIDES(X, dy)                                 \
    ATTENTION_STRIDES(X, dq)                                 \
    ATTENTION_STRIDES(X, dk)                                 \
    ATTENTION_STRIDES(X, dv)                                 \
    ATTENTION_PROBLEM(X)                                     \
    X(I64, work_block)                                       \
    NEIGHBORHOOD_BUFFERS(X)                                  \
    X(BUFFER, ds, .bytes = 4, .to = TG_UB_LAST, .copies = 2) \
    X(BUFFER, dp, .to = TG_UB_LAST, .copies = 2)

/* Those of both. */
#define NEIGHBORHOOD_BUFFERS(X)                                                             \
    X(BUFFER, s, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                                 \
    X(BUFFER, p, .to = TG_UB_LAST, .copies = 2)                                             \
    X(BUFFER, folded, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)                     \
    X(BUFFER, lse, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .copies = 2)            \
    X(BUFFER, values, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                       \
    X(BUFFER, sum, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, shift, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)                       \
    X(BUFFER, total, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)                       \
    X(BUFFER, factor, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                    \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                    \
    X(BUFFER, odd, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)          \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = 4 * NEIGHBORHOOD_PIECE, .to = TG_UB_LAST, \
      .copies = 2)                                                                          \
    X(BUFFER, wide, .per = TG_UB_FIXED, .bytes = 4 * NEIGHBORHOOD_PIECE, .to = TG_UB_LAST)

#endif
