/* dyt.args.h - what the kernels of dyt are given; see asc_args.h. */
#ifndef DYT_ARGS_H
#define DYT_ARGS_H

#include "shared/asc_args.h"

enum { DYT_PARTIAL = 128 }; /* floats from a block's part of dalpha to the next block's */

/* `groups` tasks share the rows of a strip of columns. */
#define DYT_FORWARD_GIVEN(X) \
    X(TENSOR, x, ASC_T)      \
    X(VECTOR, alpha, void)   \
    X(VECTOR, gamma, void)   \
    X(VECTOR, beta, void)    \
    X(TENSOR, y, ASC_T)      \
    X(I64, groups)           \
    X(I64, alpha_f32)        \
    X(I64, gamma_f32)        \
    X(I64, beta_f32)

/* Steps: 0 copy in, 1 widen, 2 tanh, 3 gamma and beta, 4 copy out. Of two sources of one
 * instruction one lies LOW, one HIGH. */
#define DYT_FORWARD(X)                                                                           \
    DYT_FORWARD_GIVEN(X)                                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    X(BUFFER, x, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, y, .from = 2, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, y32, .bytes = 4, .from = 2, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                        \
    X(BUFFER, c, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                        \
    X(BUFFER, gamma, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, beta, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)   \
    X(BUFFER, staged, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .copies = 2)            \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)

/* dgammas, dbetas: of each group, dalphas: of each block, or NULL. */
#define DYT_BACKWARD_GIVEN(X) \
    X(TENSOR, dy, ASC_T)      \
    X(TENSOR, x, ASC_T)       \
    X(VECTOR, alpha, void)    \
    X(VECTOR, gamma, void)    \
    X(TENSOR, dx, ASC_T)      \
    X(MEMORY, dgammas, float) \
    X(MEMORY, dbetas, float)  \
    X(MEMORY, dalphas, float) \
    X(I64, partials_stride)   \
    X(I64, groups)            \
    X(I64, alpha_f32)         \
    X(I64, gamma_f32)

/* Steps: 0 copy in, 1 widen, 2 tanh and its slope, 3 products, 4 copy out. */
#define DYT_BACKWARD(X)                                                                           \
    DYT_BACKWARD_GIVEN(X)                                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, dy, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, t, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)     \
    X(BUFFER, u, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, c, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, slope, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_HIGH)                     \
    X(BUFFER, gamma, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, dgamma, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, dbeta, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, staged, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, lanes, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)   \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 512, .to = TG_UB_LAST)

/* Short rows. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define DYT_FORWARD_SHORT(X)                                                        \
    DYT_FORWARD_GIVEN(X)                                                            \
    ASC_SHORT_PLANNED(X)                                                            \
    X(BUFFER, x, .to = 1, .copies = 2)                                              \
    X(BUFFER, y, .from = 2, .to = 4, .copies = 2)                                   \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)          \
    X(BUFFER, t, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)            \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)           \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)           \
    X(BUFFER, scale, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, shift, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)

/* sums: of x h, one a column. */
#define DYT_BACKWARD_SHORT(X)                                                          \
    DYT_BACKWARD_GIVEN(X)                                                              \
    ASC_SHORT_PLANNED(X)                                                               \
    X(BUFFER, dy, .to = 1, .copies = 2)                                                \
    X(BUFFER, x, .to = 1, .copies = 2)                                                 \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2)                                     \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW)            \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)             \
    X(BUFFER, t, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW)               \
    X(BUFFER, u, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW)               \
    X(BUFFER, slope, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)          \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)              \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .copies = 3) \
    X(BUFFER, scale, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)    \
    X(BUFFER, dgamma, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)                \
    X(BUFFER, dbeta, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)                 \
    X(BUFFER, dalpha, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)                \
    X(BUFFER, parameters, .per = TG_UB_FIXED, .bytes = 128, .to = TG_UB_LAST)

#endif
