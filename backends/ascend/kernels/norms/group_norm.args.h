/* group_norm.args.h - what the kernels of group_norm are given; see asc_args.h. */
#ifndef GROUP_NORM_ARGS_H
#define GROUP_NORM_ARGS_H

#include "shared/asc_args.h"

/* A group is `width` channels of `lines` lines of `columns` elements; there are `groups` of them in
 * each of `batches`. Strides are those of a batch and of a line, in elements; lines follow each
 * other through channels and groups. part: 1 / elements of a group. */
#define GROUP_NORM_SHAPE(X)                         \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(I64, batches)                                 \
    X(I64, groups)                                  \
    X(I64, width)                                   \
    X(I64, lines)                                   \
    X(F32, part)

#define GROUP_NORM_FORWARD_GIVEN(X) \
    X(MEMORY, x, ASC_T)             \
    X(MEMORY, y, ASC_T)             \
    X(VECTOR, weight, void)         \
    X(VECTOR, bias, void)           \
    X(VECTOR, mean, float)          \
    X(VECTOR, rstd, float)          \
    X(I64, x_batch)                 \
    X(I64, x_line)                  \
    X(I64, y_batch)                 \
    X(I64, y_line)                  \
    X(I64, weight_f32)              \
    X(I64, bias_f32)                \
    X(F32, eps)

enum { GROUP_NORM_SHARES = 8 }; /* at most */

/* The tiles of a group go to `shares` blocks. One share: its sums are made, and y. Of several a
 * launch makes `sums`, and the next one, which `writes`, y. parts [3, groups of all batches,
 * GROUP_NORM_SHARES]: of each share the mean, the squares of what is left of it, and how many
 * elements it has.
 * Steps: 0 copy in, 1 widen, 2 moments, 3 normalise, 4 copy out. Of two sources of one instruction
 * one lies LOW, one HIGH. */
#define GROUP_NORM_FORWARD(X)                                                                   \
    GROUP_NORM_FORWARD_GIVEN(X)                                                                 \
    GROUP_NORM_SHAPE(X)                                                                         \
    X(MEMORY, parts, float)                                                                     \
    X(I64, shares)                                                                              \
    X(I64, sums)                                                                                \
    X(I64, writes)                                                                              \
    X(BUFFER, x, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                       \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, lanes_of_sums, .per = TG_UB_FIXED, .bytes = 1024, .to = TG_UB_LAST)               \
    X(BUFFER, lanes_of_tile, .per = TG_UB_FIXED, .bytes = 1024, .to = TG_UB_LAST)               \
    X(BUFFER, lanes_of_squares, .per = TG_UB_FIXED, .bytes = 1024, .to = TG_UB_LAST)            \
    X(BUFFER, share, .per = TG_UB_FIXED, .bytes = 96, .to = TG_UB_LAST, .copies = 2)            \
    X(BUFFER, weight, .per = TG_UB_ROW, .bytes = 4, .to = 3, .copies = 2)                       \
    X(BUFFER, bias, .per = TG_UB_ROW, .bytes = 4, .to = 3, .copies = 2)                         \
    X(BUFFER, wide, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, scales, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)            \
    X(BUFFER, shifts, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)            \
    X(BUFFER, numbers, .per = TG_UB_FIXED, .bytes = 2048, .to = TG_UB_LAST)                     \
    X(BUFFER, mean, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)             \
    X(BUFFER, rstd, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)

#define GROUP_NORM_BACKWARD_GIVEN(X) \
    X(MEMORY, dy, ASC_T)             \
    X(MEMORY, x, ASC_T)              \
    X(MEMORY, dx, ASC_T)             \
    X(VECTOR, weight, void)          \
    X(VECTOR, mean, float)           \
    X(VECTOR, rstd, float)           \
    X(MEMORY, dweights, float)       \
    X(MEMORY, dbiases, float)        \
    X(I64, partials_stride)          \
    X(I64, dy_batch)                 \
    X(I64, dy_line)                  \
    X(I64, x_batch)                  \
    X(I64, x_line)                   \
    X(I64, dx_batch)                 \
    X(I64, dx_line)                  \
    X(I64, weight_f32)

/* dweights, dbiases: of each batch a sum for each channel, or NULL. Steps: 0 copy in, 1 widen, 2
 * products and their sums, 3 dx, 4 copy out. */
#define GROUP_NORM_BACKWARD(X)                                                                   \
    GROUP_NORM_BACKWARD_GIVEN(X)                                                                 \
    GROUP_NORM_SHAPE(X)                                                                          \
    X(BUFFER, dy, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x, .to = 3, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, dx, .from = 3, .to = 4, .copies = 2)                                               \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 2)                                                 \
    X(BUFFER, a0, .bytes = 4, .every = 8, .from = 2, .to = 2)                                    \
    X(BUFFER, b0, .bytes = 4, .every = 64, .from = 2, .to = 2)                                   \
    X(BUFFER, a1, .bytes = 4, .every = 8, .from = 2, .to = 2)                                    \
    X(BUFFER, b1, .bytes = 4, .every = 64, .from = 2, .to = 2)                                   \
    X(BUFFER, sums, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                              \
    X(BUFFER, products, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, sums_of, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, products_of, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                       \
    X(BUFFER, dbias, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, dweight, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, weight, .per = TG_UB_ROW, .bytes = 4, .to = 3, .copies = 2)                        \
    X(BUFFER, wide, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                              \
    X(BUFFER, scales, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)             \
    X(BUFFER, numbers, .per = TG_UB_FIXED, .bytes = 2048, .to = TG_UB_LAST)                      \
    X(BUFFER, mean, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)              \
    X(BUFFER, rstd, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)

/* Whole groups, several in a tile: `beside` groups of a batch, or all of them of `together`
 * batches. A task is such a strip of groups in one of `shares` of all batches; what belongs to its
 * channels stays in UB. Rows are lines. Tables are of asc_runs.h. */
#define GROUP_NORM_ROWS(X)                                                           \
    GROUP_NORM_SHAPE(X)                                                              \
    X(I64, beside)                                                                   \
    X(I64, together)                                                                 \
    X(I64, shares)                                                                   \
    X(BUFFER, staged, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                \
    X(BUFFER, weights, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)               \
    X(BUFFER, mean, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)     \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)     \
    X(BUFFER, row_means, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)             \
    X(BUFFER, row_rstds, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)             \
    X(BUFFER, group_of, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)              \
    X(BUFFER, scratch, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)               \
    X(BUFFER, turned, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)               \
    X(BUFFER, means, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256,  \
      .bank = TG_UB_BANK_HIGH)                                                       \
    X(BUFFER, scales, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256, \
      .bank = TG_UB_BANK_HIGH)                                                       \
    X(BUFFER, shifts, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

/* Steps: 0 copy in, 1 widen, 2 moments, 3 normalise, 4 copy out. */
#define GROUP_NORM_FORWARD_ROWS(X)                                                              \
    GROUP_NORM_FORWARD_GIVEN(X)                                                                 \
    GROUP_NORM_ROWS(X)                                                                          \
    X(BUFFER, x, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                       \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 2, .to = 2)                               \
    X(BUFFER, values, .bytes = 4, .every = 64, .to = TG_UB_LAST)                                \
    X(BUFFER, of_group, .bytes = 32, .every = 64, .to = TG_UB_LAST)

/* dweights, dbiases: of each share a sum for each channel, or NULL. Steps: 0 copy in, 1 widen, 2
 * products and their sums, 3 dx, 4 copy out. */
#define GROUP_NORM_BACKWARD_ROWS(X)                                                              \
    GROUP_NORM_BACKWARD_GIVEN(X)                                                                 \
    GROUP_NORM_ROWS(X)                                                                           \
    X(BUFFER, dy, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                       \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)    \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, eighth0, .bytes = 4, .every = 8, .from = 2, .to = 2)                               \
    X(BUFFER, eighth1, .bytes = 4, .every = 8, .from = 2, .to = 2)                               \
    X(BUFFER, values0, .bytes = 4, .every = 64, .to = TG_UB_LAST)                                \
    X(BUFFER, values1, .bytes = 4, .every = 64, .to = TG_UB_LAST)                                \
    X(BUFFER, of_row, .bytes = 32, .every = 64, .to = TG_UB_LAST)                                \
    X(BUFFER, of_group, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST)                         \
    X(BUFFER, sums, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                              \
    X(BUFFER, products, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, dweight, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, dbias, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)              \
    X(BUFFER, factors, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

enum { GROUP_NORM_CHANNELS = 2048 }; /* at most, where groups are short rows */

/* Groups of so few elements that each is a lane, of tensors without gaps: `groups` of them in a
 * batch, of `width` channels each, and a multiple of `groups` in a tile. Weights of the
 * channels are lines beside the tile's. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3
 * transpose back, 4 copy out. */
#define GROUP_NORM_LANES(X)                                                \
    X(BUFFER, mean, .per = TG_UB_COLUMN, .bytes = 4, .to = 4, .copies = 2) \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 4, .to = 4, .copies = 2) \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)      \
    X(BUFFER, product, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)  \
    X(BUFFER, scale, .bytes = 4, .to = TG_UB_LAST)                         \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 4 * GROUP_NORM_CHANNELS, .to = TG_UB_LAST)

#define GROUP_NORM_FORWARD_SHORT(X)                                        \
    X(MEMORY, x, ASC_T)                                                    \
    X(MEMORY, y, ASC_T)                                                    \
    X(VECTOR, weight, void)                                                \
    X(VECTOR, bias, void)                                                  \
    X(VECTOR, mean, float)                                                 \
    X(VECTOR, rstd, float)                                                 \
    X(I64, groups)                                                         \
    X(I64, width)                                                          \
    X(F32, part)                                                           \
    X(I64, weight_f32)                                                     \
    X(I64, bias_f32)                                                       \
    X(F32, eps)                                                            \
    ASC_SHORT_PLANNED(X)                                                   \
    X(BUFFER, x, .to = 1, .copies = 2)                                     \
    X(BUFFER, y, .from = 2, .to = 4, .copies = 2)                          \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, shift, .bytes = 4, .to = TG_UB_LAST)                         \
    GROUP_NORM_LANES(X)

/* dweights, dbiases: each block's sums, `rest` of them for each channel, or NULL. */
#define GROUP_NORM_BACKWARD_SHORT(X)                                          \
    X(MEMORY, dy, ASC_T)                                                      \
    X(MEMORY, x, ASC_T)                                                       \
    X(MEMORY, dx, ASC_T)                                                      \
    X(VECTOR, weight, void)                                                   \
    X(VECTOR, mean, float)                                                    \
    X(VECTOR, rstd, float)                                                    \
    X(MEMORY, dweights, float)                                                \
    X(MEMORY, dbiases, float)                                                 \
    X(I64, groups)                                                            \
    X(I64, width)                                                             \
    X(I64, rest)                                                              \
    X(F32, part)                                                              \
    X(I64, weight_f32)                                                        \
    ASC_SHORT_PLANNED(X)                                                      \
    X(BUFFER, dy, .to = 1, .copies = 2)                                       \
    X(BUFFER, x, .to = 1, .copies = 2)                                        \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2)                            \
    X(BUFFER, dy32, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)     \
    X(BUFFER, x32, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)     \
    X(BUFFER, dweight, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, dbias, .bytes = 4, .to = TG_UB_LAST)                            \
    X(BUFFER, width_in, .per = TG_UB_ROW, .bytes = 4 * 64, .to = TG_UB_LAST)  \
    X(BUFFER, width_out, .per = TG_UB_ROW, .bytes = 4 * 64, .to = TG_UB_LAST) \
    GROUP_NORM_LANES(X)

#endif
