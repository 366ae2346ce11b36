/* layer_norm.args.h - what the kernels of layer_norm are given; see asc_args.h. */
#ifndef LAYER_NORM_ARGS_H
#define LAYER_NORM_ARGS_H

#include "shared/asc_args.h"

#define LAYER_NORM_PIECES \
    TG_UB_OPTION(0) /* rows are wider than UB, and gone through twice in pieces */
#define LAYER_NORM_WHOLE TG_UB_OPTION(1) /* they are not */

/* part: 1 / columns. weight, bias, mean, rstd may be NULL. */
#define LAYER_NORM_FORWARD_GIVEN(X) \
    X(TENSOR, x, ASC_T)             \
    X(VECTOR, weight, void)         \
    X(VECTOR, bias, void)           \
    X(TENSOR, y, ASC_T)             \
    X(VECTOR, mean, float)          \
    X(VECTOR, rstd, float)          \
    X(I64, weight_f32)              \
    X(I64, bias_f32)                \
    X(F32, part)                    \
    X(F32, eps)

/* Steps: 0 copy in, 1 widen, 2 moments, 3 normalise, 4 copy out. Of two sources of one instruction
 * one lies LOW, one HIGH. */
#define LAYER_NORM_FORWARD(X)                                                                      \
    LAYER_NORM_FORWARD_GIVEN(X)                                                                    \
    X(GRID, rows, columns, tile_rows, tile_columns)                                                \
    X(BUFFER, x, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                     \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)    \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                           \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)   \
    X(BUFFER, shift, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)    \
    X(BUFFER, weight, .per = TG_UB_COLUMN, .bytes = 4, .to = 3, .copies = 2,                       \
      .bank = TG_UB_BANK_HIGH, .when = LAYER_NORM_PIECES)                                          \
    X(BUFFER, bias, .per = TG_UB_COLUMN, .bytes = 4, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW, \
      .when = LAYER_NORM_PIECES)                                                                   \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 2, .to = 2)                                  \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 2, .to = 2)                                   \
    X(BUFFER, mean, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                   \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                   \
    X(BUFFER, sum, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                                 \
    X(BUFFER, squares, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                            \
    X(BUFFER, means, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256,                \
      .bank = TG_UB_BANK_HIGH)                                                                     \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256,                \
      .bank = TG_UB_BANK_HIGH)

/* partials: the blocks' sums of dweight and behind them of dbias, or NULL. */
#define LAYER_NORM_BACKWARD_GIVEN(X) \
    X(TENSOR, dy, ASC_T)             \
    X(TENSOR, x, ASC_T)              \
    X(VECTOR, weight, void)          \
    X(VECTOR, mean, float)           \
    X(VECTOR, rstd, float)           \
    X(TENSOR, dx, ASC_T)             \
    X(MEMORY, dweights, float)       \
    X(MEMORY, dbiases, float)        \
    X(I64, partials_stride)          \
    X(I64, weight_f32)               \
    X(F32, part)

/* Steps: 0 copy in, 1 widen and normalise, 2 add to the columns' sums, 3 products and their sums,
 * 4 dx, 5 copy out. */
#define LAYER_NORM_BACKWARD(X)                                                                    \
    LAYER_NORM_BACKWARD_GIVEN(X)                                                                  \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, dy, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x, .to = 4, .copies = 2, .bank = TG_UB_BANK_HIGH)                                   \
    X(BUFFER, dx, .from = 4, .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, dweight, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, \
      .when = LAYER_NORM_WHOLE)                                                                   \
    X(BUFFER, dbias, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH,  \
      .when = LAYER_NORM_WHOLE)                                                                   \
    X(BUFFER, weight, .per = TG_UB_COLUMN, .bytes = 4, .to = 4, .copies = 2,                      \
      .bank = TG_UB_BANK_HIGH, .when = LAYER_NORM_PIECES)                                         \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 3, .to = 3)                                 \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 3, .to = 3)                                  \
    X(BUFFER, eighth2, .bytes = 4, .every = 8, .from = 3, .to = 3)                                \
    X(BUFFER, rest2, .bytes = 4, .every = 64, .from = 3, .to = 3)                                 \
    X(BUFFER, mean, .per = TG_UB_ROW, .bytes = 4, .to = 4, .copies = 2)                           \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = 4, .copies = 2)                           \
    X(BUFFER, sum, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                                \
    X(BUFFER, product, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                            \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = 64, .to = TG_UB_LAST)                           \
    X(BUFFER, means, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)               \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)               \
    X(BUFFER, sums, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)                \
    X(BUFFER, products, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

/* dweight and dbias alone, where rows are in pieces: `groups` blocks share the rows of a strip of
 * columns. Steps: 0 copy in, 1 widen and normalise, 2 add. */
#define LAYER_NORM_COLUMNS(X)                                                                     \
    X(TENSOR, dy, ASC_T)                                                                          \
    X(TENSOR, x, ASC_T)                                                                           \
    X(VECTOR, mean, float)                                                                        \
    X(VECTOR, rstd, float)                                                                        \
    X(MEMORY, dweights, float)                                                                    \
    X(MEMORY, dbiases, float)                                                                     \
    X(I64, partials_stride)                                                                       \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(I64, groups)                                                                                \
    X(BUFFER, dy, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH)                                   \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, dweight, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, dbias, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, mean, .per = TG_UB_ROW, .bytes = 4, .to = 1, .copies = 2)                           \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = 1, .copies = 2)                           \
    X(BUFFER, means, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)               \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

/* Short rows. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define LAYER_NORM_FORWARD_SHORT(X)                                                   \
    LAYER_NORM_FORWARD_GIVEN(X)                                                       \
    ASC_SHORT_PLANNED(X)                                                              \
    X(BUFFER, x, .to = 1, .copies = 2)                                                \
    X(BUFFER, y, .from = 2, .to = 4, .copies = 2)                                     \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3)                                    \
    X(BUFFER, mean, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 4, .copies = 2) \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 4, .copies = 2) \
    X(BUFFER, ones, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)              \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)             \
    X(BUFFER, scale, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)   \
    X(BUFFER, shift, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

#define LAYER_NORM_BACKWARD_SHORT(X)                                                \
    LAYER_NORM_BACKWARD_GIVEN(X)                                                    \
    ASC_SHORT_PLANNED(X)                                                            \
    X(BUFFER, dy, .to = 1, .copies = 2)                                             \
    X(BUFFER, x, .to = 1, .copies = 2)                                              \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2)                                  \
    X(BUFFER, mean, .per = TG_UB_COLUMN, .bytes = 4, .to = 2, .copies = 2)          \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 4, .to = 2, .copies = 2)          \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)         \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH)         \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)             \
    X(BUFFER, product, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)         \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)           \
    X(BUFFER, biases, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)           \
    X(BUFFER, scale, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, dweight, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)            \
    X(BUFFER, dbias, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)

#endif
