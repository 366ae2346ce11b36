/* embedding.args.h - what the kernels of embedding are given; see asc_args.h. */
#ifndef EMBEDDING_ARGS_H
#define EMBEDDING_ARGS_H

#include "asc_args.h"

/* Steps: 0 copy in, 1 copy out. */
#define EMBEDDING_FORWARD(X)                        \
    X(TENSOR, weight, ASC_T)                        \
    X(VECTOR, indices, int64_t)                     \
    X(TENSOR, y, ASC_T)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, rows, .to = 1, .copies = 2)           \
    X(BUFFER, index, .per = TG_UB_ROW, .bytes = 8, .copies = 2)

/* dweight is of 4 bytes and its tile in UB is what is summed up in; or of 2, and sums are narrowed. */
#define EMBEDDING_WIDE_SUMS TG_UB_OPTION(0)
#define EMBEDDING_NARROW_SUMS TG_UB_OPTION(1)

/* size: bytes of an element of dweight. Steps: 0 old rows in, 1 rows of dy in, 2 sum, 3 narrow, 4 copy out. */
#define EMBEDDING_BACKWARD(X)                                                                    \
    X(TENSOR, dy, ASC_T)                                                                         \
    X(TENSOR, dweight, char)                                                                     \
    X(MEMORY, records, uint64_t)                                                                 \
    X(MEMORY, ends, int32_t)                                                                     \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    X(I64, size)                                                                                 \
    X(I64, accumulate)                                                                           \
    X(BUFFER, sum, .bytes = 4, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW,                     \
      .when = EMBEDDING_WIDE_SUMS)                                                               \
    X(BUFFER, dweight, .bytes = 2, .to = 4, .copies = 2, .when = EMBEDDING_NARROW_SUMS)          \
    X(BUFFER, sum32, .bytes = 4, .to = 3, .bank = TG_UB_BANK_LOW, .when = EMBEDDING_NARROW_SUMS) \
    X(BUFFER, dy, .from = 1, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)

/* A block writes the records of its tiles by windows of them; a smaller one where UB is small. Indices are looked through in
 * pieces of EMBEDDING_SCAN. */
#define EMBEDDING_LARGE TG_UB_OPTION(0)
#define EMBEDDING_SMALL TG_UB_OPTION(1)
enum { EMBEDDING_LARGE_WINDOW = 8192, EMBEDDING_SMALL_WINDOW = 256, EMBEDDING_SCAN = 1024 };

/* records: n of 8 bytes, sorted by tile; ends: for each tile of the table where its records end. A column is a tile of the table. */
#define EMBEDDING_SORT(X)                                                            \
    X(VECTOR, indices, int64_t)                                                      \
    X(MEMORY, records, uint64_t)                                                     \
    X(MEMORY, ends, int32_t)                                                         \
    X(I64, n)                                                                        \
    X(I64, table_rows)                                                               \
    X(I64, tile_rows)                                                                \
    X(GRID, rows, tiles, one, own_tiles)                                             \
    X(I64, window)                                                                   \
    X(BUFFER, next, .bytes = 4)                                                      \
    X(BUFFER, ends, .bytes = 4)                                                      \
    X(BUFFER, indices, .per = TG_UB_FIXED, .bytes = 8 * EMBEDDING_SCAN)              \
    X(BUFFER, values, .per = TG_UB_FIXED, .bytes = 4 * EMBEDDING_SCAN)               \
    X(BUFFER, above, .per = TG_UB_FIXED, .bytes = EMBEDDING_SCAN / 8)                \
    X(BUFFER, below, .per = TG_UB_FIXED, .bytes = EMBEDDING_SCAN / 8)                \
    X(BUFFER, large_window, .per = TG_UB_FIXED, .bytes = 8 * EMBEDDING_LARGE_WINDOW, \
      .when = EMBEDDING_LARGE)                                                       \
    X(BUFFER, small_window, .per = TG_UB_FIXED, .bytes = 8 * EMBEDDING_SMALL_WINDOW, \
      .when = EMBEDDING_SMALL)

#endif
