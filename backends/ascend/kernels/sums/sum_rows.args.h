/* sum_rows.args.h - what the kernels of sum_rows are given; see asc_args.h. */
#ifndef SUM_ROWS_ARGS_H
#define SUM_ROWS_ARGS_H

#include "shared/asc_any.args.h"
#include "shared/asc_args.h"

enum { SUM_ROWS_AT_ONCE = 8 }; /* rows that are copied in together */

/* y[chunk][r] = scale times factor[0], if it is given, times the sum over k of x[k][r], k of the
 * chunk; accumulate: + y as it was. count: of numbers k, of which each chunk has its
 * share; halvings: how often the sum of whole rows is folded into its first half before it leaves;
 * y_rows: numbers r; total: 0, or, of compact rows, elements that there are, in which the last row
 * may be shorter. y_chunk: elements from chunk to chunk. Tasks: pieces of rows of y, of each chunk.
 * Steps: 0 copy in, 1 add, 2 copy out. */
#define SUM_ROWS_FORWARD(X)                                                                     \
    X(TENSOR, x, ASC_T)                                                                         \
    X(VECTOR, factor, float)                                                                    \
    X(TENSOR, y, void)                                                                          \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(I64, count)                                                                               \
    X(I64, y_rows)                                                                              \
    X(I64, chunks)                                                                              \
    X(I64, y_chunk)                                                                             \
    X(I64, total)                                                                               \
    X(I64, halvings)                                                                            \
    X(I64, y_type)                                                                              \
    X(I64, accumulate)                                                                          \
    X(F32, scale)                                                                               \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, old, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, out, .per = TG_UB_COLUMN, .bytes = 4, .to = 2)

/* dx[k][r] = scale factor dy[r]. A row of dx is `repeats` of dy's if that is more than 1; then rows
 * of dx are compact, and total is how many elements
 * they have, else 0. Steps: 0 copy in, 1 compute, 2 copy out. */
#define SUM_ROWS_BACKWARD(X)                          \
    X(TENSOR, dy, void)                               \
    X(VECTOR, factor, float)                          \
    X(TENSOR, dx, ASC_T)                              \
    X(GRID, rows, columns, tile_rows, tile_columns)   \
    X(I64, count)                                     \
    X(I64, dy_rows)                                   \
    X(I64, chunks)                                    \
    X(I64, repeats)                                   \
    X(I64, total)                                     \
    X(I64, dy_type)                                   \
    X(F32, scale)                                     \
    X(BUFFER, dy, .bytes = 4, .to = 1)                \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 1)   \
    X(BUFFER, spread, .bytes = 4, .from = 1, .to = 1) \
    X(BUFFER, index, .bytes = 4, .to = TG_UB_LAST)    \
    X(BUFFER, dx, .bytes = 4, .from = 1, .to = 2)

#endif
