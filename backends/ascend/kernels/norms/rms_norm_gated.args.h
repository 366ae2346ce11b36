/* rms_norm_gated.args.h - what the kernels of rms_norm with a gate are given; see asc_args.h. */
#ifndef RMS_NORM_GATED_ARGS_H
#define RMS_NORM_GATED_ARGS_H

#include "rms_norm_pieces.args.h"

/* Steps: 0 copy in, 1 widen, 2 squares, 3 sums, 4 normalise, 5 gate, 6 copy out. For f32 the
 * buffers copied into serve as x32 and z32, and q is y. Of pieces, weight is as it lies in memory,
 * and part the sum of one. */
#define RMS_NORM_GATED_FORWARD(X)                                                               \
    X(TENSOR, x, ASC_T)                                                                         \
    X(TENSOR, gate, ASC_T)                                                                      \
    X(VECTOR, weight, void)                                                                     \
    X(TENSOR, y, ASC_T)                                                                         \
    X(VECTOR, rstd, float)                                                                      \
    RMS_NORM_FORWARD_NUMBERS(X)                                                                 \
    X(BUFFER, x, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, gate, .to = 5, .copies = 2, .bank = TG_UB_BANK_LOW)                               \
    X(BUFFER, y, .from = 2, .to = 6, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, rstd, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)                \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 4, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, z32, .bytes = 4, .from = 1, .to = 5, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, q, .bytes = 4, .from = 2, .to = 5, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)  \
    X(BUFFER, h, .bytes = 4, .from = 5, .to = 5, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, e, .bytes = 4, .from = 5, .to = 5, .bank = TG_UB_BANK_HIGH)                       \
    RMS_NORM_FORWARD_SUM_BUFFERS(X)                                                             \
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
    RMS_NORM_BACKWARD_NUMBERS(X)                                                                  \
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
    RMS_NORM_BACKWARD_SUM_BUFFERS(X)                                                              \
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
