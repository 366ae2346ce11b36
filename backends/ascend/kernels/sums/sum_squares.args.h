/* sum_squares.args.h - what the kernels of sum_squares are given; see asc_args.h. Steps: 0 copy in,
 * 1 widen and compute, 2 copy out. */
#ifndef SUM_SQUARES_ARGS_H
#define SUM_SQUARES_ARGS_H

#include "shared/asc_args.h"

/* sums: one of each block, sums_stride elements apart. lanes: of a tile; total: of all
 * tiles of the block. */
#define SUM_SQUARES_FORWARD(X)                                              \
    X(TENSOR, x, ASC_T)                                                     \
    X(MEMORY, sums, float)                                                  \
    X(GRID, rows, columns, tile_rows, tile_columns)                         \
    X(I64, sums_stride)                                                     \
    X(BUFFER, x, .to = 1, .copies = 2)                                      \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .when = TG_UB_16BIT)     \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 4 * 64, .to = TG_UB_LAST) \
    X(BUFFER, total, .per = TG_UB_FIXED, .bytes = 4 * 64, .to = TG_UB_LAST) \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)

#define SUM_SQUARES_BACKWARD(X)                     \
    X(TENSOR, x, ASC_T)                             \
    X(TENSOR, dx, ASC_T)                            \
    X(VECTOR, dy, float)                            \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, x, .to = 1, .copies = 2)              \
    X(BUFFER, dx, .from = 1, .to = 2, .copies = 2)  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .when = TG_UB_16BIT)

#endif
