/* grouped_sums.args.h - what the kernel is given that adds up rows in groups; see asc_args.h. */
#ifndef GROUPED_SUMS_ARGS_H
#define GROUPED_SUMS_ARGS_H

#include "shared/asc_any.args.h"
#include "shared/asc_args.h"

enum { GROUPED_SUMS_AT_ONCE = 32 }; /* rows that are copied in together, at most */

/* y[e] = the sum of rows offset[e] up to offset[e + 1] of x; accumulate: + y as it was. gather: row
 * j is row gather[j] / top_k of x; absent: row j. weights, if given: a row is multiplied with
 * weights[gather[j]]. Tasks: pieces of rows of y. Steps: 0 copy in, 1 add, 2 copy out. */
#define GROUPED_SUMS(X)                                                                         \
    X(TENSOR, x, ASC_T)                                                                         \
    X(TENSOR, y, void)                                                                          \
    X(MEMORY, offset, int64_t)                                                                  \
    X(MEMORY, gather, int64_t)                                                                  \
    X(MEMORY, weights, float)                                                                   \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(I64, groups)                                                                              \
    X(I64, top_k)                                                                               \
    X(I64, y_type)                                                                              \
    X(I64, accumulate)                                                                          \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, old, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, out, .per = TG_UB_COLUMN, .bytes = 4, .to = 2)

#endif
