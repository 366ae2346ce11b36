/* terms.args.h - what kernels are given that compute a loss of two tensors term by term, and its
 * gradient; and the kernels that count rows before and add up losses behind; see asc_args.h. */
#ifndef TERMS_ARGS_H
#define TERMS_ARGS_H

#include "shared/asc_any.args.h"
#include "shared/asc_args.h"

enum {
    TERMS_PARTIAL = 8
}; /* floats that a block leaves of a sum or a count: one that counts, and zeros */

#define TERMS_Y_SAME TG_UB_OPTION(0)   /* y is no wider than the data */
#define TERMS_Y_WIDE TG_UB_OPTION(1)   /* y is f32 beside data of 16 bits */
#define TERMS_Y_NARROW TG_UB_OPTION(2) /* y is of 16 bits */
#define TERMS_X TG_UB_OPTION(3)
#define TERMS_GRADIENT TG_UB_OPTION(4)
#define TERMS_EACH TG_UB_OPTION(5)       /* every loss is written */
#define TERMS_EACH_DLOSS TG_UB_OPTION(6) /* every element has an upstream gradient of its own */
/* 7 is the family's */
#define TERMS_SHORT TG_UB_OPTION(8) /* short rows with labels */

enum { TERMS_LEAST_COLUMNS = 4 }; /* of short rows with labels */

/* x, y: the two tensors; d: the gradient with respect to x. each, deach: the loss of every element,
 * and its upstream gradient; upstream: the one for all. labels: rows of ignore_index count as
 * nothing; counts: of the others, a part from each of count_blocks.
 * sums: this block's part of the sum of all losses. scale: of the gradient; term: of a loss.
 * variant, parameter: the family's.
 * short_columns: 0, or of short rows with labels, which are taken as one, how many columns each
 * has: a tile has whole ones. Every one of the pointers but y may be NULL. Steps: 0 copy in, 1
 * widen, 2 compute, 3 copy out. */
#define TERMS_GIVEN(X)                                                                            \
    X(TENSOR, x, ASC_T)                                                                           \
    X(TENSOR, y, void)                                                                            \
    X(TENSOR, d, ASC_T)                                                                           \
    X(TENSOR, each, float)                                                                        \
    X(TENSOR, deach, float)                                                                       \
    X(VECTOR, upstream, float)                                                                    \
    X(VECTOR, labels, int64_t)                                                                    \
    X(MEMORY, counts, float)                                                                      \
    X(MEMORY, sums, float)                                                                        \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(I64, y_type)                                                                                \
    X(I64, ignore_index)                                                                          \
    X(I64, count_blocks)                                                                          \
    X(F32, scale)                                                                                 \
    X(F32, term)                                                                                  \
    X(I64, variant)                                                                               \
    X(I64, short_columns)                                                                         \
    X(F32, parameter)                                                                             \
    X(F32, rest) /* 1 - parameter */                                                              \
    X(BUFFER, x, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW, .when = TERMS_X)                   \
    X(BUFFER, y, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH, .when = TERMS_Y_SAME)             \
    X(BUFFER, y_wide, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH,                  \
      .when = TERMS_Y_WIDE)                                                                       \
    X(BUFFER, deach, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH,                   \
      .when = TERMS_EACH_DLOSS)                                                                   \
    X(BUFFER, d, .from = 2, .to = 3, .copies = 2, .bank = TG_UB_BANK_LOW, .when = TERMS_GRADIENT) \
    X(BUFFER, each, .bytes = 4, .from = 2, .to = 3, .copies = 2, .when = TERMS_EACH)              \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW,                        \
      .when = TG_UB_16BIT | TERMS_X)                                                              \
    X(BUFFER, y32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH,                       \
      .when = TERMS_Y_NARROW)                                                                     \
    X(BUFFER, t, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, d32, .bytes = 4, .from = 2, .to = 3, .bank = TG_UB_BANK_LOW,                        \
      .when = TG_UB_16BIT | TERMS_GRADIENT)                                                       \
    X(BUFFER, mask, .bytes = 4, .to = TG_UB_LAST, .when = TERMS_SHORT)                            \
    X(BUFFER, row_of, .bytes = 4, .to = TG_UB_LAST, .when = TERMS_SHORT)                          \
    X(BUFFER, labels, .bytes = 8, .every = TERMS_LEAST_COLUMNS, .to = 2, .copies = 2,             \
      .when = TERMS_SHORT)                                                                        \
    X(BUFFER, kept, .bytes = 4, .every = TERMS_LEAST_COLUMNS, .to = TG_UB_LAST,                   \
      .when = TERMS_SHORT)                                                                        \
    X(BUFFER, ignored, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .when = TERMS_SHORT)   \
    X(BUFFER, lanes, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)   \
    X(BUFFER, total, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                          \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                            \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

/* How many of the labels are not ignore_index: each block's part. pairs: the halves of labels, less
 * those of ignore_index. */
#define COUNT_LABELS(X)                                                                           \
    X(VECTOR, labels, int64_t)                                                                    \
    X(MEMORY, counts, float)                                                                      \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(I64, ignore_index)                                                                          \
    X(BUFFER, labels, .bytes = 8, .bank = TG_UB_BANK_LOW)                                         \
    X(BUFFER, pairs, .bytes = 8)                                                                  \
    X(BUFFER, kept, .bytes = 4, .bank = TG_UB_BANK_LOW)                                           \
    X(BUFFER, ignored, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST,                        \
      .bank = TG_UB_BANK_HIGH)                                                                    \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)

/* result = scale, over what is counted, times the sum of the blocks' parts. */
#define TERMS_TOTAL(X)                                                   \
    X(MEMORY, sums, float)                                               \
    X(MEMORY, counts, float)                                             \
    X(VECTOR, result, float)                                             \
    X(GRID, rows, columns, tile_rows, tile_columns)                      \
    X(I64, blocks)                                                       \
    X(I64, count_blocks)                                                 \
    X(F32, scale)                                                        \
    X(BUFFER, sums, .bytes = 4)                                          \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST) \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)   \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

#endif
