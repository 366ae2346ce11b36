/* relu_squared.args.h - what the kernels of relu_squared are given; see asc_args.h. Steps: 0 copy
 * in, 1 widen and compute, 2 copy out. */
#ifndef RELU_SQUARED_ARGS_H
#define RELU_SQUARED_ARGS_H

#include "shared/asc_args.h"

#define RELU_SQUARED_FORWARD(X)                     \
    X(TENSOR, x, ASC_T)                             \
    X(TENSOR, y, ASC_T)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, x, .to = 1, .copies = 2)              \
    X(BUFFER, y, .from = 1, .to = 2, .copies = 2)   \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .when = TG_UB_16BIT)

/* Of two sources of one instruction one lies LOW, one HIGH. */
#define RELU_SQUARED_BACKWARD(X)                                                                 \
    X(TENSOR, dy, ASC_T)                                                                         \
    X(TENSOR, x, ASC_T)                                                                          \
    X(TENSOR, dx, ASC_T)                                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    X(BUFFER, dy, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, dx, .from = 1, .to = 2, .copies = 2)                                               \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)

#endif
