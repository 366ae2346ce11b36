/* softmax_jsd.args.h - what the kernels of softmax_jsd are given; see asc_args.h. */
#ifndef SOFTMAX_JSD_ARGS_H
#define SOFTMAX_JSD_ARGS_H

#include "terms.args.h"

enum {
    SOFTMAX_JSD_FORWARD,
    SOFTMAX_JSD_REVERSE,
    SOFTMAX_JSD_MIXTURE
}; /* beta is 0, 1, or between */

enum { SOFTMAX_JSD_RING = 4 };   /* buffers of its ring, whose rows are read up to four times */
enum { SOFTMAX_JSD_LANES = 22 }; /* times 64: numbers of a row */

/* out: an ASC_ANY_ type; labels: of the rows, of which those of ignore_index count as nothing;
 * counts: of the others, a part from each of count_blocks; sums: this block's part of the sum of
 * all losses. scale: 1 / temperature; factor: of the gradient; rest: 1 - beta. */
#define SOFTMAX_JSD_GIVEN(X)   \
    X(VECTOR, dloss, float)    \
    X(MEMORY, labels, int64_t) \
    X(MEMORY, counts, float)   \
    X(MEMORY, sums, float)     \
    X(I64, kind)               \
    X(I64, ignore_index)       \
    X(I64, count_blocks)       \
    X(F32, scale)              \
    X(F32, factor)             \
    X(F32, beta)               \
    X(F32, rest)               \
    X(F32, odds)               \
    X(F32, log_rest)

/* Steps: 0 copy in, 1 compute, 2 copy out. */
#define SOFTMAX_JSD(X)                                                                       \
    SOFTMAX_JSD_GIVEN(X)                                                                     \
    X(TENSOR, student, void)                                                                 \
    X(TENSOR, teacher, void)                                                                 \
    X(TENSOR, dstudent, void)                                                                \
    X(I64, reads)                                                                            \
    X(I64, out)                                                                              \
    X(GRID, rows, columns, one_row, piece)                                                   \
    X(BUFFER, student, .to = 2, .copies = SOFTMAX_JSD_RING, .bank = TG_UB_BANK_LOW)          \
    X(BUFFER, teacher, .to = 2, .copies = SOFTMAX_JSD_RING, .bank = TG_UB_BANK_HIGH)         \
    X(BUFFER, u, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                     \
    X(BUFFER, v, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH)                    \
    X(BUFFER, t, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                     \
    X(BUFFER, a, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH)                    \
    X(BUFFER, b, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH)                    \
    X(BUFFER, c, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW)                     \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = SOFTMAX_JSD_LANES * 256, .to = TG_UB_LAST, \
      .bank = TG_UB_BANK_HIGH)                                                               \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

enum { SOFTMAX_JSD_NUMBERS = 11 }; /* numbers of a short row */

#define SOFTMAX_JSD_WRITES TG_UB_OPTION(0)

/* Short rows, whose gradient is of the data's type. near: see softmax_jsd_short.asc.c. Steps: 0
 * copy in, 1 transpose, 2 arithmetic, 3 transpose back, 4 copy out. */
#define SOFTMAX_JSD_SHORT(X)                                                                    \
    SOFTMAX_JSD_GIVEN(X)                                                                        \
    X(TENSOR, student, ASC_T)                                                                   \
    X(TENSOR, teacher, ASC_T)                                                                   \
    X(TENSOR, dstudent, ASC_T)                                                                  \
    X(F32, near)                                                                                \
    ASC_SHORT_PLANNED(X)                                                                        \
    X(BUFFER, student, .to = 1, .copies = 2)                                                    \
    X(BUFFER, teacher, .to = 1, .copies = 2)                                                    \
    X(BUFFER, student32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW)                \
    X(BUFFER, teacher32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)               \
    X(BUFFER, t, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, a, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, b, .bytes = 4, .from = 2, .to = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, c, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, dstudent, .from = 3, .to = 4, .copies = 2, .when = SOFTMAX_JSD_WRITES)            \
    X(BUFFER, labels, .per = TG_UB_COLUMN, .bytes = 8, .to = 2, .copies = 2)                    \
    X(BUFFER, numbers, .per = TG_UB_COLUMN, .bytes = SOFTMAX_JSD_NUMBERS * 4, .to = TG_UB_LAST) \
    X(BUFFER, mask, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, ignored, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                      \
    X(BUFFER, total, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                        \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                          \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

#endif
