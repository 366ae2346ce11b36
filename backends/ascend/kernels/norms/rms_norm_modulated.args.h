/* rms_norm_modulated.args.h - what the kernels of rms_norm with a scale of groups of rows are
 * given; see asc_args.h. */
#ifndef RMS_NORM_MODULATED_ARGS_H
#define RMS_NORM_MODULATED_ARGS_H

#include "rms_norm_pieces.args.h"

/* A tile's rows are of one group, which has `height`. Steps: 0 copy in, 1 widen, 2 squares, 3 sums,
 * 4 normalise, 5 scale and shift, 6 copy out. For f32 x32 is x, and q is y. factor: weight
 * (1 + scale). staged: scale and shift, and of pieces the weight behind them; part: the sum of a
 * piece. */
#define RMS_NORM_MODULATED_FORWARD(X)                                                             \
    X(TENSOR, x, ASC_T)                                                                           \
    X(TENSOR, scale, void)                                                                        \
    X(TENSOR, shift, void)                                                                        \
    X(VECTOR, weight, void)                                                                       \
    X(TENSOR, y, ASC_T)                                                                           \
    X(VECTOR, rstd, float)                                                                        \
    X(I64, height)                                                                                \
    X(I64, scale_f32)                                                                             \
    X(I64, shift_f32)                                                                             \
    RMS_NORM_FORWARD_NUMBERS(X)                                                                   \
    X(BUFFER, x, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, y, .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                        \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)   \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)    \
    RMS_NORM_FORWARD_SUM_BUFFERS(X)                                                               \
    X(BUFFER, weight32, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                        \
    X(BUFFER, staged, .per = TG_UB_COLUMN, .bytes = 8, .to = TG_UB_LAST, .when = RMS_NORM_WHOLE)  \
    X(BUFFER, factor, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)  \
    X(BUFFER, shift32, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, pieces, .per = TG_UB_COLUMN, .bytes = 12, .to = 5, .copies = 2,                     \
      .when = RMS_NORM_PIECES)                                                                    \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .when = RMS_NORM_PIECES)

/* Likewise. Steps: 0 copy in, 1 widen and normalise, 2 add to the sums, 3 products, 4 their mean, 5
 * dx, 6 copy out. sums: of dy n and of dy, over the rows that a block has of a group, at row
 * group + block of pairs of rows `sums_stride` long; NULL: not wanted. For f32 dy32 is dy, and n
 * is dx. Of pieces, the sums go through memory: sums_in become
 * sums_out. staged: scale, and of pieces the weight behind it. */
#define RMS_NORM_MODULATED_BACKWARD(X)                                                             \
    X(TENSOR, dy, ASC_T)                                                                           \
    X(TENSOR, x, ASC_T)                                                                            \
    X(TENSOR, scale, void)                                                                         \
    X(VECTOR, weight, void)                                                                        \
    X(VECTOR, rstd, float)                                                                         \
    X(TENSOR, dx, ASC_T)                                                                           \
    X(MEMORY, sums, float)                                                                         \
    X(I64, sums_stride)                                                                            \
    X(I64, height)                                                                                 \
    X(I64, scale_f32)                                                                              \
    RMS_NORM_BACKWARD_NUMBERS(X)                                                                   \
    X(BUFFER, dy, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                     \
    X(BUFFER, dx, .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                        \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                   \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)   \
    X(BUFFER, n, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)     \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH)                          \
    X(BUFFER, products, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, \
      .when = RMS_NORM_WHOLE)                                                                      \
    X(BUFFER, shifts, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH,  \
      .when = RMS_NORM_WHOLE)                                                                      \
    RMS_NORM_BACKWARD_SUM_BUFFERS(X)                                                               \
    X(BUFFER, weight32, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                         \
    X(BUFFER, staged, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .when = RMS_NORM_WHOLE)   \
    X(BUFFER, factor, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, row_sums, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                            \
    X(BUFFER, pieces, .per = TG_UB_COLUMN, .bytes = 8, .to = 5, .copies = 2,                       \
      .when = RMS_NORM_PIECES)                                                                     \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .when = RMS_NORM_PIECES)       \
    X(BUFFER, sums_in, .per = TG_UB_COLUMN, .bytes = 8, .to = 2, .copies = 2,                      \
      .when = RMS_NORM_PIECES)                                                                     \
    X(BUFFER, sums_out, .per = TG_UB_COLUMN, .bytes = 8, .from = 2, .to = 6, .copies = 2,          \
      .when = RMS_NORM_PIECES)

/* What the sums of all blocks become: dscale and dshift of each group, which may be NULL, and
 * dweight in f32, NULL too. blocks: of the launch before, which had `tasks`, `per_group` of each
 * group. The grid is one row of columns. */
#define RMS_NORM_GROUPS(X)                                       \
    X(TENSOR, dscale, void)                                      \
    X(TENSOR, dshift, void)                                      \
    X(TENSOR, scale, void)                                       \
    X(VECTOR, weight, void)                                      \
    X(MEMORY, sums, float)                                       \
    X(MEMORY, dweight, float)                                    \
    X(I64, sums_stride)                                          \
    X(I64, groups)                                               \
    X(I64, per_group)                                            \
    X(I64, blocks)                                               \
    X(I64, dscale_f32)                                           \
    X(I64, dshift_f32)                                           \
    X(I64, scale_f32)                                            \
    X(I64, weight_f32)                                           \
    X(F32, offset)                                               \
    X(GRID, rows, columns, tile_rows, tile_columns)              \
    X(BUFFER, part, .bytes = 8, .to = 1, .copies = 2)            \
    X(BUFFER, products, .bytes = 4, .from = 1, .to = TG_UB_LAST) \
    X(BUFFER, shifts, .bytes = 4, .from = 1, .to = TG_UB_LAST)   \
    X(BUFFER, dweight, .bytes = 4, .from = 1, .to = TG_UB_LAST)  \
    X(BUFFER, weight32, .bytes = 4, .to = TG_UB_LAST)            \
    X(BUFFER, staged, .bytes = 4, .to = TG_UB_LAST)              \
    X(BUFFER, scale32, .bytes = 4, .from = 1, .to = TG_UB_LAST)  \
    X(BUFFER, out, .bytes = 4, .from = 1, .to = 2, .copies = 2)

#endif
