/* rms_norm_gated.args.h - what the kernels of rms_norm with a gate are given; see asc_args.h. */
#ifndef RMS_NORM_GATED_ARGS_H
#define RMS_NORM_GATED_ARGS_H

#include "rms_norm_pieces.args.h"

/* Steps: 0 copy in, 1 widen, 2 squares, 3 sums, 4 normalise, 5 gate, 6 copy out. mean:
 * 1 / columns. For f32 the buffers copied into serve as x32 and z32, and q is y. Of pieces,
 * weight is as it lies in memory, and part the sum of one. */
#define RMS_NORM_GATED_FORWARD(X)                                                               \
    X(TENSOR, x, ASC_T)                                                                         \
    X(TENSOR, gate, ASC_T)                                                                      \
    X(VECTOR, weight, void)                                                                     \
    X(TENSOR, y, ASC_T)                                                                         \
    X(VECTOR, rstd, float)                                                                      \
    X(I64, weight_f32)                                                                          \
    X(F32, offset)                                                                              \
    X(F32, mean)                                                                                \
    X(F32, eps)                                                                                 \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(BUFFER, x, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, gate, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                               \
    X(BUFFER, y, .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, z32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, h, .bytes = 4, .from = 5, .to = 5, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, e, .bytes = 4, .from = 5, .to = 5, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, spread, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)            \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 3, .to = 3)                               \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 3, .to = 3)                                \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, weight, .per = TG_UB_COLUMN, .bytes = 4, .to = 5, .copies = 2,                    \
      .bank = TG_UB_BANK_LOW, .when = RMS_NORM_PIECES)                                          \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .when = RMS_NORM_PIECES)

/* Steps: 0 copy in, 1 widen and normalise, 2 gate, 3 add to dweight, 4 products and their mean, 5
 * dx, 6 copy out. partials: the blocks' sums of dweight, or NULL. For f32 dy32 is dy, z32 is gate,
 * and n is dx. Of pieces, weight and part are as above, and dweight's sum goes through memory:
 * dweight_in becomes dweight_out. */
#define RMS_NORM_GATED_BACKWARD(X)                                                                \
    X(TENSOR, dy, ASC_T)                                                                          \
    X(TENSOR, x, ASC_T)                                                                           \
    X(TENSOR, gate, ASC_T)                                                                        \
    X(VECTOR, weight, void)                                                                       \
    X(VECTOR, rstd, float)                                                                        \
    X(TENSOR, dx, ASC_T)                                                                          \
    X(TENSOR, dgate, ASC_T)                                                                       \
    X(MEMORY, partials, float)                                                                    \
    X(I64, partials_stride)                                                                       \
    X(I64, weight_f32)                                                                            \
    X(F32, offset)                                                                                \
    X(F32, mean)                                                                                  \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, dy, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, gate, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                                 \
    X(BUFFER, dx, .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, dgate, .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                    \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                  \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, z32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)   \
    X(BUFFER, n, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)    \
    X(BUFFER, u, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, h, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, k, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, e, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, p, .bytes = 4, .from = 3, .to = 5, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, dweight, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, \
      .when = RMS_NORM_WHOLE)                                                                     \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)               \
    X(BUFFER, factors, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)             \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 4, .to = 4)                                 \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 4, .to = 4)                                  \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, sums, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                               \
    X(BUFFER, weight, .per = TG_UB_COLUMN, .bytes = 4, .to = 5, .copies = 2,                      \
      .bank = TG_UB_BANK_HIGH, .when = RMS_NORM_PIECES)                                           \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .when = RMS_NORM_PIECES)      \
    X(BUFFER, dweight_in, .per = TG_UB_COLUMN, .bytes = 4, .to = 3, .copies = 2,                  \
      .when = RMS_NORM_PIECES)                                                                    \
    X(BUFFER, dweight_out, .per = TG_UB_COLUMN, .bytes = 4, .from = 3, .to = 6, .copies = 2,      \
      .bank = TG_UB_BANK_LOW, .when = RMS_NORM_PIECES)

#endif
