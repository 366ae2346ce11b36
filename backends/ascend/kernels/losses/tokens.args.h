/* tokens.args.h - what the kernels are given that prepare the tokens of
 * selective_log_softmax; see asc_args.h. */
#ifndef TOKENS_ARGS_H
#define TOKENS_ARGS_H

#include "terms.args.h"

enum { TOKENS_LEFT_OUT = -1 }; /* the target of a token that the mask leaves out */

/* selected: the targets without gaps, 0 without any, TOKENS_LEFT_OUT where mask is 0. counts: how
 * many are kept, each block's part. Steps: 0 copy in, 1 compute, 2 copy out. */
#define SELECT_TOKENS(X)                                                                          \
    X(TENSOR, target, int64_t)                                                                    \
    X(TENSOR, mask, int64_t)                                                                      \
    X(MEMORY, selected, int64_t)                                                                  \
    X(MEMORY, counts, float)                                                                      \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, target, .bytes = 8, .to = 2)                                                        \
    X(BUFFER, mask, .bytes = 8, .to = 1)                                                          \
    X(BUFFER, pairs, .bytes = 8, .from = 1, .to = 1)                                              \
    X(BUFFER, kept, .bytes = 4, .from = 1, .to = 1)                                               \
    X(BUFFER, index, .bytes = 4, .from = 1, .to = 1)                                              \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)

/* x becomes 0. */
#define ZERO_ROWS(X)                                \
    X(TENSOR, x, ASC_T)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, zeros)

#endif
