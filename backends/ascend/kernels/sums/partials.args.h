/* partials.args.h - what the kernel that adds blocks' partial sums is given; see asc_args.h. */
#ifndef PARTIALS_ARGS_H
#define PARTIALS_ARGS_H

#include "shared/asc_args.h"

enum { PARTIALS_AT_ONCE = 8 }; /* partial sums that are copied in together */

/* count: of partial sums, partials_stride elements apart. Steps: 0 copy in, 1 add, 2
 * narrow, 3 copy out. */
#define SUM_PARTIALS(X)                                                      \
    X(MEMORY, partials, float)                                               \
    X(VECTOR, result, ASC_T)                                                 \
    X(GRID, rows, columns, tile_rows, tile_columns)                          \
    X(I64, count)                                                            \
    X(I64, partials_stride)                                                  \
    X(I64, accumulate)                                                       \
    X(BUFFER, partials, .bytes = PARTIALS_AT_ONCE * 4, .to = 1, .copies = 2) \
    X(BUFFER, sum, .bytes = 4, .to = 3)                                      \
    X(BUFFER, old, .to = 3) /* copied in while the last result leaves */     \
    X(BUFFER, out, .from = 2, .to = 3, .when = TG_UB_16BIT)

#endif
