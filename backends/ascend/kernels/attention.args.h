/* attention.args.h - what kernels of attention are given alike; see asc_args.h. */
#ifndef ATTENTION_ARGS_H
#define ATTENTION_ARGS_H

#include "asc_args.h"

/* Elements of a tensor from one batch, position and head to the next. */
#define ATTENTION_STRIDES(X, t) X(I64, t##_batch) X(I64, t##_row) X(I64, t##_head)

/* The problem: a head of k and v serves `shared` heads of q; negative: scale is -scale. */
#define ATTENTION_PROBLEM(X) \
    X(I64, batches)          \
    X(I64, heads)            \
    X(I64, shared)           \
    X(I64, queries)          \
    X(I64, all_keys)         \
    X(I64, d)                \
    X(I64, causal)           \
    X(I64, negative)         \
    X(F32, scale)

#endif
