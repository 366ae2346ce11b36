/* poly_norm.args.h - what the kernels of poly_norm are given; see asc_args.h. */
#ifndef POLY_NORM_ARGS_H
#define POLY_NORM_ARGS_H

#include "shared/asc_args.h"

/* Values of a row, in the order of the third power, the second, the first. */
enum { POLY_NORM_POWERS = 3 };

/* Scratch for sums of rows side by side. */
#define POLY_NORM_SUM(X, a, b)                               \
    X(BUFFER, a, .bytes = 4, .every = 8, .from = 2, .to = 2) \
    X(BUFFER, b, .bytes = 4, .every = 64, .from = 2, .to = 2)
#define POLY_NORM_SUMS(X)    \
    POLY_NORM_SUM(X, a0, b0) \
    POLY_NORM_SUM(X, a1, b1) \
    POLY_NORM_SUM(X, a2, b2)

/* part: 1 / columns; rstd may be NULL. */
#define POLY_NORM_FORWARD_GIVEN(X) \
    X(TENSOR, x, ASC_T)            \
    X(VECTOR, weight, void)        \
    X(VECTOR, bias, void)          \
    X(TENSOR, y, ASC_T)            \
    X(VECTOR, rstd, float)         \
    X(I64, weight_f32)             \
    X(I64, bias_f32)               \
    X(F32, part)                   \
    X(F32, eps)

/* Steps: 0 copy in, 1 widen, 2 powers and their sums, 3 polynomial, 4 copy out. Of two sources of
 * one instruction one lies LOW, one HIGH. */
#define POLY_NORM_FORWARD(X)                                                                    \
    POLY_NORM_FORWARD_GIVEN(X)                                                                  \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(BUFFER, x, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, second, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                  \
    X(BUFFER, fourth, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW)                   \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 12, .to = TG_UB_LAST, .copies = 2)               \
    X(BUFFER, blocks, .per = TG_UB_ROW, .bytes = 96, .to = TG_UB_LAST, .align = 256)            \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                         \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)                   \
    POLY_NORM_SUMS(X)

/* dweights, dbiases: the blocks' sums, or NULL. */
#define POLY_NORM_BACKWARD_GIVEN(X) \
    X(TENSOR, dy, ASC_T)            \
    X(TENSOR, x, ASC_T)             \
    X(VECTOR, weight, void)         \
    X(VECTOR, rstd, float)          \
    X(TENSOR, dx, ASC_T)            \
    X(MEMORY, dweights, float)      \
    X(MEMORY, dbiases, float)       \
    X(I64, partials_stride)         \
    X(I64, weight_f32)              \
    X(F32, part)

/* Steps: 0 copy in, 1 widen, 2 products and their sums, 3 dx, 4 copy out. */
#define POLY_NORM_BACKWARD(X)                                                                    \
    POLY_NORM_BACKWARD_GIVEN(X)                                                                  \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    X(BUFFER, dy, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x, .to = 3, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, dx, .from = 3, .to = 4, .copies = 2)                                               \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, first, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                     \
    X(BUFFER, second, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                   \
    X(BUFFER, third, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                    \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 12, .to = 3, .copies = 2)                         \
    X(BUFFER, sums, .per = TG_UB_ROW, .bytes = 12, .to = TG_UB_LAST)                             \
    X(BUFFER, dys, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                               \
    X(BUFFER, blocks, .per = TG_UB_ROW, .bytes = 96, .to = TG_UB_LAST, .align = 256)             \
    X(BUFFER, factors, .per = TG_UB_ROW, .bytes = 96, .to = TG_UB_LAST, .align = 256)            \
    X(BUFFER, piece, .per = TG_UB_FIXED, .bytes = 64, .to = TG_UB_LAST)                          \
    X(BUFFER, dweight, .per = TG_UB_FIXED, .bytes = 96, .to = TG_UB_LAST)                        \
    X(BUFFER, dbias, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)                    \
    POLY_NORM_SUMS(X)                                                                            \
    POLY_NORM_SUM(X, a3, b3)

/* Short rows. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define POLY_NORM_THREE(X)                                                          \
    X(BUFFER, three_in, .per = TG_UB_FIXED, .bytes = 3 * 4 * 64, .to = TG_UB_LAST)  \
    X(BUFFER, three_out, .per = TG_UB_FIXED, .bytes = 3 * 4 * 64, .to = TG_UB_LAST) \
    X(BUFFER, stat, .per = TG_UB_COLUMN, .bytes = 12, .from = 2, .to = 2)           \
    X(BUFFER, factors, .per = TG_UB_COLUMN, .bytes = 12, .from = 2, .to = 2)        \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)

#define POLY_NORM_FORWARD_SHORT(X)                                                     \
    POLY_NORM_FORWARD_GIVEN(X)                                                         \
    ASC_SHORT_PLANNED(X)                                                               \
    X(BUFFER, x, .to = 1, .copies = 2)                                                 \
    X(BUFFER, y, .from = 2, .to = 4, .copies = 2)                                      \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 12, .from = 2, .to = 4, .copies = 2) \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)             \
    X(BUFFER, y32, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)            \
    POLY_NORM_THREE(X)

#define POLY_NORM_BACKWARD_SHORT(X)                                               \
    POLY_NORM_BACKWARD_GIVEN(X)                                                   \
    ASC_SHORT_PLANNED(X)                                                          \
    X(BUFFER, dy, .to = 1, .copies = 2)                                           \
    X(BUFFER, x, .to = 1, .copies = 2)                                            \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2)                                \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 12, .to = 2, .copies = 2)       \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)       \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)       \
    X(BUFFER, first, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)      \
    X(BUFFER, second, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)    \
    X(BUFFER, sums, .per = TG_UB_COLUMN, .bytes = 12, .from = 2, .to = 2)         \
    X(BUFFER, dweight, .per = TG_UB_FIXED, .bytes = 3 * 4 * 64, .to = TG_UB_LAST) \
    X(BUFFER, dbias, .per = TG_UB_FIXED, .bytes = 4 * 64, .to = TG_UB_LAST)       \
    POLY_NORM_THREE(X)

#endif
