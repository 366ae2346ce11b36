/* rms_norm_backward.args.h - what the backward kernels of rms_norm and fused_add_rms_norm are
 * given; see asc_args.h. */
#ifndef RMS_NORM_BACKWARD_ARGS_H
#define RMS_NORM_BACKWARD_ARGS_H

#include "shared/asc_args.h"

#define RMS_NORM_WEIGHT_F32 TG_UB_OPTION(0) /* the weight is f32, whatever the data are */

/* Both ways through a row. ds is the fused operator's; partials: the blocks' sums of dweight, or
 * NULL; mean: 1 / columns. */
#define RMS_NORM_BACKWARD_GIVEN(X) \
    X(TENSOR, dy, ASC_T)           \
    X(TENSOR, ds, ASC_T)           \
    X(TENSOR, x, ASC_T)            \
    X(VECTOR, weight, void)        \
    X(VECTOR, rstd, float)         \
    X(TENSOR, dx, ASC_T)           \
    X(MEMORY, partials, float)     \
    X(I64, partials_stride)        \
    X(I64, weight_f32)             \
    X(F32, offset)                 \
    X(F32, mean)                   \
    X(I64, llama)

/* Steps: 0 copy in, 1 widen and normalise, 2 add to dweight, 3 products, 4 their mean, 5 dx, 6 copy
 * out. For f32 dy32 is dy and n is dx. The last one is the fused operator's. */
#define RMS_NORM_BACKWARD_ROWS(X)                                                                 \
    RMS_NORM_BACKWARD_GIVEN(X)                                                                    \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, dy, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, dx, .from = 1, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = 4, .copies = 2)                           \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, n, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)    \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH)                         \
    X(BUFFER, dweight, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW) \
    X(BUFFER, rstds, .per = TG_UB_ROW, .bytes = 32, .from = 1, .to = 5, .align = 256)             \
    X(BUFFER, factors, .per = TG_UB_ROW, .bytes = 32, .from = 4, .to = 5, .align = 256)           \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 4, .to = 4)                                 \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 4, .to = 4)                                  \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, sums, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                               \
    X(BUFFER, ds, .to = 5, .copies = 2, .bank = TG_UB_BANK_HIGH)

/* The same of pieces of several rows, three steps of them at once. sums: of all pieces so far, by
 * eights; dweight: of this block, from memory and back. The weight of f32 beside data of 16 bits
 * has a buffer of its own. */
#define RMS_NORM_BACKWARD_WIDE(X)                                                                 \
    RMS_NORM_BACKWARD_GIVEN(X)                                                                    \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(BUFFER, dy, .to = 5, .copies = 3, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, x, .to = 1, .copies = 3, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, dx, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                                      \
    X(BUFFER, rstd, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST, .copies = 2)               \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, n, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)    \
    X(BUFFER, p, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, dweight, .per = TG_UB_COLUMN, .bytes = 4, .to = 6, .copies = 2,                     \
      .bank = TG_UB_BANK_LOW)                                                                     \
    X(BUFFER, rstds, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                          \
    X(BUFFER, factors, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                        \
    X(BUFFER, eighth, .per = TG_UB_FIXED, .bytes = 512, .from = 4, .to = 4)                       \
    X(BUFFER, rest, .per = TG_UB_FIXED, .bytes = 128, .from = 4, .to = 4)                         \
    X(BUFFER, weight, .per = TG_UB_COLUMN, .to = 3, .copies = 3, .bank = TG_UB_BANK_LOW)          \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)                          \
    X(BUFFER, means, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                           \
    X(BUFFER, scale, .per = TG_UB_COLUMN, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_LOW, \
      .when = TG_UB_16BIT)                                                                        \
    X(BUFFER, weight32, .per = TG_UB_COLUMN, .bytes = 4, .to = 3, .copies = 3,                    \
      .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT | RMS_NORM_WEIGHT_F32)                          \
    X(BUFFER, ds, .to = 5, .copies = 3, .bank = TG_UB_BANK_LOW)

/* Short rows. Steps: 0 copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define RMS_NORM_BACKWARD_SHORT(X)                                                  \
    RMS_NORM_BACKWARD_GIVEN(X)                                                      \
    ASC_SHORT_PLANNED(X)                                                            \
    X(BUFFER, dy, .to = 1, .copies = 2)                                             \
    X(BUFFER, x, .to = 1, .copies = 2)                                              \
    X(BUFFER, dx, .from = 2, .to = 4, .copies = 2)                                  \
    X(BUFFER, rstd, .per = TG_UB_COLUMN, .bytes = 4, .to = 2, .copies = 2)          \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)         \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 3, .bank = TG_UB_BANK_HIGH)         \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .from = 2, .to = 2)             \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)           \
    X(BUFFER, scale, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, dweight, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)            \
    X(BUFFER, ds, .to = 1, .copies = 2)                                             \
    X(BUFFER, ds32, .bytes = 4, .from = 1, .to = 2)
enum { RMS_NORM_BACKWARD_SHORT_FUSED = 2 };

#endif
