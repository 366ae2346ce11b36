/* attention.args.h - what kernels of attention are given alike; see asc_args.h. */
#ifndef ATTENTION_ARGS_H
#define ATTENTION_ARGS_H

#include "shared/asc_args.h"

/* Elements of a tensor from one batch, position and head to the next. */
#define ATTENTION_STRIDES(X, t) X(I64, t##_batch) X(I64, t##_row) X(I64, t##_head)

/* The problem. Query i stands at i + all_keys - queries, and sees the keys from lo of there up to
 * hi, hi itself not. A head of k and v serves `shared` heads of q. What counts as a head are the
 * positions of one that are equal modulo the dilation: `phases` such classes to a head, the first
 * of them; a position of a class is `dilation` of the tensors', of which lse has `positions` a
 * head. negative: scale is -scale. */
#define ATTENTION_PROBLEM(X) \
    X(I64, batches)          \
    X(I64, heads)            \
    X(I64, shared)           \
    X(I64, queries)          \
    X(I64, all_keys)         \
    X(I64, d)                \
    X(I64, lo)               \
    X(I64, hi)               \
    X(I64, phases)           \
    X(I64, dilation)         \
    X(I64, positions)        \
    X(I64, negative)         \
    X(F32, scale)

/* The sequences of packed rows: boundaries, absent if each batch is one. sequences: one more than
 * boundaries, see flash_sequences.h, or batches. */
#define FLASH_PACKED(X)        \
    X(MEMORY, ends_q, int64_t) \
    X(MEMORY, ends_k, int64_t) \
    X(I64, sequences)

/* e: the width of values. Where scores are capped or have a bias, `inner` is what they are
 * multiplied by first, and scale is 1. bias: of bias_type as asc_any.args.h has it, or absent.
 * seed, offset, least: of tg_dropout; least 0: nothing is dropped. */
#define FLASH_OPTIONS(X)       \
    FLASH_PACKED(X)            \
    X(I64, e)                  \
    X(F32, softcap)            \
    X(F32, inner)              \
    X(MEMORY, bias, char)      \
    X(I64, bias_type)          \
    ATTENTION_STRIDES(X, bias) \
    X(I64, seed)               \
    X(I64, offset)             \
    X(I64, least)

/* What every forward is given: its tensors, of which lse may be absent, memory to work in, how the
 * work is shared out, and the problem. */
#define ATTENTION_FORWARD(X)                    \
    X(MEMORY, q, ASC_T)                         \
    X(MEMORY, k, ASC_T)                         \
    X(MEMORY, v, ASC_T)                         \
    X(MEMORY, y, ASC_T)                         \
    X(MEMORY, lse, float)                       \
    X(MEMORY, work, char)                       \
    X(GRID, core_rows, keys, group, group_keys) \
    ATTENTION_STRIDES(X, q)                     \
    ATTENTION_STRIDES(X, k)                     \
    ATTENTION_STRIDES(X, v)                     \
    ATTENTION_STRIDES(X, y)                     \
    ATTENTION_PROBLEM(X)

#endif
