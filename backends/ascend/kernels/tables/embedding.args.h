/* embedding.args.h - what the kernels of embedding are given; see asc_args.h. */
#ifndef EMBEDDING_ARGS_H
#define EMBEDDING_ARGS_H

#include "shared/asc_args.h"

/* Steps: 0 copy in, 1 copy out. */
#define EMBEDDING_FORWARD(X)                        \
    X(TENSOR, weight, ASC_T)                        \
    X(VECTOR, indices, int64_t)                     \
    X(TENSOR, y, ASC_T)                             \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, rows, .to = 1, .copies = 2)           \
    X(BUFFER, index, .per = TG_UB_ROW, .bytes = 8, .copies = 2)

/* dweight is of 4 bytes and its tile in UB is what is summed up in; or of 2, and
 * sums are narrowed. */
#define EMBEDDING_WIDE_SUMS TG_UB_OPTION(0)
#define EMBEDDING_NARROW_SUMS TG_UB_OPTION(1)

/* Which records are whose: see embedding_order. */
#define EMBEDDING_ORDER(X) \
    X(I64, tile_shift)     \
    X(I64, owner_shift)    \
    X(I64, tiles_each)

/* size: bytes of an element of dweight. bounds: two for each tile, where its records begin and end.
 * Steps: 0 old rows in, 1 rows of dy in, 2 sum, 3 narrow, 4 copy out. */
enum { EMBEDDING_BOUNDS = 32 }; /* tiles whose bounds a block copies in at a time */
#define EMBEDDING_BACKWARD(X)                                                                    \
    X(TENSOR, dy, ASC_T)                                                                         \
    X(TENSOR, dweight, char)                                                                     \
    X(MEMORY, records, uint64_t)                                                                 \
    X(MEMORY, bounds, int32_t)                                                                   \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    EMBEDDING_ORDER(X)                                                                           \
    X(I64, size)                                                                                 \
    X(I64, accumulate)                                                                           \
    X(BUFFER, bound, .per = TG_UB_FIXED, .bytes = 32 * EMBEDDING_BOUNDS, .to = TG_UB_LAST)       \
    X(BUFFER, record, .per = TG_UB_ROW, .bytes = 8, .to = 2, .copies = 2)                        \
    X(BUFFER, sum, .bytes = 4, .to = 4, .copies = 2, .bank = TG_UB_BANK_LOW,                     \
      .when = EMBEDDING_WIDE_SUMS)                                                               \
    X(BUFFER, dweight, .bytes = 2, .to = 4, .copies = 2, .when = EMBEDDING_NARROW_SUMS)          \
    X(BUFFER, sum32, .bytes = 4, .to = 3, .bank = TG_UB_BANK_LOW, .when = EMBEDDING_NARROW_SUMS) \
    X(BUFFER, dy, .from = 1, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH)                      \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT)

/* A block sorts as many positions at a time as its list holds; a smaller one where UB is small. It
 * writes the bounds of EMBEDDING_ENDS tiles at a time. */
#define EMBEDDING_LARGE TG_UB_OPTION(0)
#define EMBEDDING_MIDDLE TG_UB_OPTION(1)
#define EMBEDDING_SMALL TG_UB_OPTION(2)
enum { EMBEDDING_LARGE_LIST = 8192, EMBEDDING_MIDDLE_LIST = 2048, EMBEDDING_SMALL_LIST = 512 };
enum { EMBEDDING_ENDS = 256 };
enum { EMBEDDING_SHARES = 128, EMBEDDING_OWNERS = 256 }; /* at most, where shares are merged */
enum { EMBEDDING_NONE = 0x7fffffff };                    /* a key behind all others */

/* indices: a piece; a list, twice. */
#define EMBEDDING_LISTED(X)                                                                     \
    X(BUFFER, indices, .bytes = 8, .copies = 2)                                                 \
    X(BUFFER, index, .bytes = 4)                                                                \
    X(BUFFER, step, .bytes = 4)                                                                 \
    X(BUFFER, position, .bytes = 4)                                                             \
    X(BUFFER, owner, .bytes = 4)                                                                \
    X(BUFFER, value, .bytes = 4)                                                                \
    X(BUFFER, large_list, .per = TG_UB_FIXED, .bytes = 8 * EMBEDDING_LARGE_LIST, .copies = 2,   \
      .when = EMBEDDING_LARGE)                                                                  \
    X(BUFFER, middle_list, .per = TG_UB_FIXED, .bytes = 8 * EMBEDDING_MIDDLE_LIST, .copies = 2, \
      .when = EMBEDDING_MIDDLE)                                                                 \
    X(BUFFER, small_list, .per = TG_UB_FIXED, .bytes = 8 * EMBEDDING_SMALL_LIST, .copies = 2,   \
      .when = EMBEDDING_SMALL)

/* list: most records at a time; piece: a multiple of 64 and less than a list. */
#define EMBEDDING_LIST(X) \
    X(I64, list)          \
    X(GRID, one, planned, one_row, piece)

/* Shares of `chunk` positions, each sorted: records, n of 8 bytes; starts: `pitch` numbers a share,
 * where the records of each owner begin. */
#define EMBEDDING_SHARE(X)       \
    X(VECTOR, indices, int64_t)  \
    X(MEMORY, records, uint64_t) \
    X(MEMORY, starts, int32_t)   \
    X(I64, n)                    \
    EMBEDDING_ORDER(X)           \
    X(I64, chunk)                \
    X(I64, pitch)                \
    EMBEDDING_LIST(X)            \
    EMBEDDING_LISTED(X)          \
    X(BUFFER, start, .per = TG_UB_FIXED, .bytes = 4 * (EMBEDDING_OWNERS + 8))

/* records: n of 8 bytes, sorted by slot of their tiles and by row; shares, starts: of
 * EMBEDDING_SHARE, of `chunks` chunks; 0: there are none. */
#define EMBEDDING_SORT(X)                               \
    X(VECTOR, indices, int64_t)                         \
    X(MEMORY, shares, uint64_t)                         \
    X(MEMORY, starts, int32_t)                          \
    X(MEMORY, records, uint64_t)                        \
    X(MEMORY, bounds, int32_t)                          \
    X(I64, n)                                           \
    EMBEDDING_ORDER(X)                                  \
    X(I64, chunk)                                       \
    X(I64, chunks)                                      \
    X(I64, pitch)                                       \
    EMBEDDING_LIST(X)                                   \
    EMBEDDING_LISTED(X)                                 \
    X(BUFFER, own, .bytes = 1, .every = 8)              \
    X(BUFFER, from, .bytes = 1, .every = 8)             \
    X(BUFFER, to, .bytes = 1, .every = 8)               \
    X(BUFFER, mask, .per = TG_UB_FIXED, .bytes = 256)   \
    X(BUFFER, before, .per = TG_UB_FIXED, .bytes = 256) \
    X(BUFFER, ends, .per = TG_UB_FIXED, .bytes = 32 * EMBEDDING_ENDS)

#endif
