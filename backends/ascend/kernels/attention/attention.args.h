/* attention.args.h - what kernels of attention are given alike; see asc_args.h. */
#ifndef ATTENTION_ARGS_H
#define ATTENTION_ARGS_H

#include "shared/asc_args.h"

/* Elements of a tensor from one batch, position and head to the next. */
#define ATTENTION_STRIDES(X, t) X(I64, t##_batch) X(I64, t##_row) X(I64, t##_head)

/* The problem. Query i sees the keys from i + lo up to i + hi, i + hi itself not. A head of k and v
 * serves `shared` heads of q. What counts as a head are the positions of one that are equal modulo
 * the dilation: `phases` such classes to a head, the first of them; a position of a class is
 * `dilation` of the tensors', of which lse has `positions` a head. negative: scale is -scale. */
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

#endif
