/* rms_norm_forward.args.h - what the forward kernels of rms_norm and fused_add_rms_norm are
 * given; see asc_args.h. */
#ifndef RMS_NORM_FORWARD_ARGS_H
#define RMS_NORM_FORWARD_ARGS_H

#include "shared/asc_args.h"

/* Both ways through a row. residual and s are those of the fused operator; mean: 1 / columns. */
#define RMS_NORM_FORWARD_GIVEN(X) \
    X(TENSOR, x, ASC_T)           \
    X(TENSOR, residual, ASC_T)    \
    X(VECTOR, weight, void)       \
    X(TENSOR, y, ASC_T)           \
    X(TENSOR, s, ASC_T)           \
    X(VECTOR, rstd, float)        \
    X(I64, weight_f32)            \
    X(F32, offset)                \
    X(F32, mean)                  \
    X(F32, eps)                   \
    X(I64, llama)

/* Steps: 0 copy in, 1 widen and add, 2 squares, 3 sums, 4 normalise, 5 scale, 6 copy out. For f32
 * x32 is x (fused: s) and q is y. The last two are the fused operator's. */
#define RMS_NORM_FORWARD_ROWS(X)                                                                \
    RMS_NORM_FORWARD_GIVEN(X)                                                                   \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(BUFFER, x, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .from = 3, .to = 6, .copies = 2)              \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, spread, .per = TG_UB_ROW, .bytes = 32, .from = 3, .to = 4, .align = 256)          \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 3, .to = 3)                               \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 3, .to = 3)                                \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, residual, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH)                          \
    X(BUFFER, s, .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_LOW)
enum { RMS_NORM_FORWARD_ROWS_FUSED = 2 }; /* buffers */

/* The same of pieces of several rows; y serves s as well. sums: of all pieces so far, by eights.
 * x32 is the scale at the end, unless the weight is f32. */
#define RMS_NORM_FORWARD_WIDE(X)                                                                \
    RMS_NORM_FORWARD_GIVEN(X)                                                                   \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(BUFFER, x, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, y, .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, rstd, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                          \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, spread, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                       \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 3, .to = 3)                               \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 3, .to = 3)                                \
    X(BUFFER, weight, .per = TG_UB_COLUMN, .bytes = 4, .to = 5, .copies = 2,                    \
      .bank = TG_UB_BANK_LOW)                                                                   \
    X(BUFFER, sums, .bytes = 4, .every = 8, .to = TG_UB_LAST)                                   \
    X(BUFFER, residual, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH)
enum { RMS_NORM_FORWARD_WIDE_FUSED = 1 };

/* Short rows. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define RMS_NORM_FORWARD_SHORT(X)                                                     \
    RMS_NORM_FORWARD_GIVEN(X)                                                         \
    ASC_SHORT_PLANNED(X)                                                              \
    X(BUFFER, x, .to = 1, .copies = 2)                                                \
    X(BUFFER, y, .from = 3, .to = 4, .copies = 2)                                     \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 4, .copies = 2) \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3)                                    \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 3)                                      \
    X(BUFFER, ones, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)              \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)             \
    X(BUFFER, scale, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)   \
    X(BUFFER, residual, .to = 1, .copies = 2)                                         \
    X(BUFFER, residual32, .bytes = 4, .from = 1, .to = 2)                             \
    X(BUFFER, s, .from = 2, .to = 4, .copies = 2)
enum { RMS_NORM_FORWARD_SHORT_FUSED = 3 };

#endif
