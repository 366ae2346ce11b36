/* softmax.args.h - what the kernels of softmax are given; see asc_args.h. */
#ifndef SOFTMAX_ARGS_H
#define SOFTMAX_ARGS_H

#include "shared/asc_args.h"

#define SOFTMAX_FORWARD_GIVEN(X) \
    X(TENSOR, x, ASC_T)          \
    X(TENSOR, y, ASC_T)

/* Steps: 0 copy in, 1 widen, shift and exponentials, 2 quotient, 3 copy out. A row's value is
 * spread eight rows at a time. */
#define SOFTMAX_FORWARD_ROWS(X)                                          \
    SOFTMAX_FORWARD_GIVEN(X)                                             \
    X(GRID, rows, columns, tile_rows, tile_columns)                      \
    X(BUFFER, x, .to = 1, .copies = 2)                                   \
    X(BUFFER, y, .from = 1, .to = 3, .copies = 2)                        \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 3, .when = TG_UB_16BIT)    \
    X(BUFFER, lanes, .per = TG_UB_ROW, .bytes = 256, .from = 1, .to = 2) \
    X(BUFFER, value, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)     \
    X(BUFFER, block, .per = TG_UB_ROW, .bytes = 32, .from = 1, .to = 2, .align = 256)

/* Steps: 0 copy in, 1 maximum and sum of all pieces, 2 quotient and copy out of all pieces. again:
 * a row does not stay in the ring. */
#define SOFTMAX_FORWARD_WIDE(X)                                                                 \
    SOFTMAX_FORWARD_GIVEN(X)                                                                    \
    X(I64, again)                                                                               \
    X(GRID, rows, columns, one_row, piece)                                                      \
    X(BUFFER, x, .to = 2, .copies = ASC_RING, .bank = TG_UB_BANK_LOW)                           \
    X(BUFFER, e, .bytes = 4, .from = 1, .to = 2)                                                \
    X(BUFFER, max, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, sum, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, old, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)  \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                         \
    X(BUFFER, max_block, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                    \
    X(BUFFER, sum_block, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)

#define SOFTMAX_BACKWARD_GIVEN(X) \
    X(TENSOR, dy, ASC_T)          \
    X(TENSOR, y, ASC_T)           \
    X(TENSOR, dx, ASC_T)

/* Steps: 0 copy in, 1 widen, products and their sums, 2 differences, 3 copy out. */
#define SOFTMAX_BACKWARD_ROWS(X)                                                                 \
    SOFTMAX_BACKWARD_GIVEN(X)                                                                    \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    X(BUFFER, dy, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, dx, .from = 1, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                       \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, y32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, lanes, .per = TG_UB_ROW, .bytes = 256, .from = 1, .to = 2)                         \
    X(BUFFER, value, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, block, .per = TG_UB_ROW, .bytes = 32, .from = 1, .to = 2, .align = 256)

/* Steps: 0 copy in, 1 sum of all pieces, 2 differences and copy out of all pieces. behind: a row is
 * written while the next is read. */
#define SOFTMAX_BACKWARD_WIDE(X)                                                                 \
    SOFTMAX_BACKWARD_GIVEN(X)                                                                    \
    X(I64, again)                                                                                \
    X(I64, behind)                                                                               \
    X(GRID, rows, columns, one_row, piece)                                                       \
    X(BUFFER, dy, .to = 2, .copies = ASC_RING, .bank = TG_UB_BANK_LOW)                           \
    X(BUFFER, y, .to = 2, .copies = ASC_RING, .bank = TG_UB_BANK_HIGH)                           \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                      \
    X(BUFFER, y32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, sum, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                          \
    X(BUFFER, block, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)

/* Short rows. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define SOFTMAX_FORWARD_SHORT(X)                                                                   \
    SOFTMAX_FORWARD_GIVEN(X)                                                                       \
    ASC_SHORT_PLANNED(X)                                                                           \
    X(BUFFER, x, .to = 1, .copies = 2)                                                             \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2)                                                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, value, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, one, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)

#define SOFTMAX_BACKWARD_SHORT(X)                                           \
    SOFTMAX_BACKWARD_GIVEN(X)                                               \
    ASC_SHORT_PLANNED(X)                                                    \
    X(BUFFER, dy, .to = 1, .copies = 2)                                     \
    X(BUFFER, y, .to = 1, .copies = 2)                                      \
    X(BUFFER, dx, .from = 3, .to = 4, .copies = 2)                          \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, y32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, value, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)

#endif
