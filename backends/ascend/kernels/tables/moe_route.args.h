/* moe_route.args.h - what the kernels of moe_route are given; see asc_args.h. */
#ifndef MOE_ROUTE_ARGS_H
#define MOE_ROUTE_ARGS_H

#include "shared/asc_args.h"

/* A list of records that is sorted in UB: `list` of them, 32 times a power of 4, of which the first
 * `marks` are one of each expert, and of none, and the others slots. marks: a multiple of 64,
 * greater than the number of experts, and at most half of the list. Slots of one list are a chunk.
 * An entry of `pieces` is the place of an expert's first slot in its chunk, times MOE_PIECE, plus
 * their number. */
enum { MOE_LARGE_LIST = 2048, MOE_SMALL_LIST = 512, MOE_PIECE = 4096 };

/* order: the slots of each chunk by expert; ranks: where each slot stands there; starts and counts:
 * `marks` of each chunk, where experts begin in it, and how many slots they have. */
#define MOE_ROUTE_SORT(X)                   \
    X(VECTOR, index, int64_t)               \
    X(MEMORY, order, int32_t)               \
    X(MEMORY, ranks, int32_t)               \
    X(MEMORY, starts, int32_t)              \
    X(MEMORY, counts, int32_t)              \
    X(I64, slots)                           \
    X(I64, experts)                         \
    X(I64, marks)                           \
    X(GRID, one, planned, one_row, list)    \
    X(BUFFER, index, .bytes = 8)            \
    X(BUFFER, expert, .bytes = 4)           \
    X(BUFFER, step, .bytes = 4)             \
    X(BUFFER, odd, .bytes = 4)              \
    X(BUFFER, first, .bytes = 8)            \
    X(BUFFER, second, .bytes = 8)           \
    X(BUFFER, sorted, .bytes = 4)           \
    X(BUFFER, rank, .bytes = 4)             \
    X(BUFFER, mine, .bytes = 1, .every = 8) \
    X(BUFFER, order, .bytes = 4)            \
    X(BUFFER, rows, .bytes = 4)             \
    X(BUFFER, tables, .bytes = 4)

/* What is summed over chunks, 64 experts at a time. before: slots of an expert in chunks before;
 * totals: of each expert; neither more than capacity, if that is not 0. A row of the plan is a
 * chunk. */
#define MOE_ROUTE_SCAN(X)                             \
    X(MEMORY, starts, int32_t)                        \
    X(MEMORY, counts, int32_t)                        \
    X(MEMORY, before, int32_t)                        \
    X(MEMORY, pieces, int32_t)                        \
    X(MEMORY, totals, int32_t)                        \
    X(I64, capacity)                                  \
    X(I64, marks)                                     \
    X(GRID, chunks, columns, tile_rows, tile_columns) \
    X(BUFFER, start, .bytes = 4)                      \
    X(BUFFER, count, .bytes = 4)                      \
    X(BUFFER, sum, .bytes = 4)                        \
    X(BUFFER, other, .bytes = 4)                      \
    X(BUFFER, piece, .bytes = 4)                      \
    X(BUFFER, carry, .per = TG_UB_COLUMN, .bytes = 4)

/* From all that the results. capacity: more than there are slots if there is none. place may be
 * NULL. */
#define MOE_ROUTE_PLACE(X)                   \
    X(VECTOR, index, int64_t)                \
    X(MEMORY, order, int32_t)                \
    X(MEMORY, ranks, int32_t)                \
    X(MEMORY, starts, int32_t)               \
    X(MEMORY, before, int32_t)               \
    X(MEMORY, pieces, int32_t)               \
    X(MEMORY, totals, int32_t)               \
    X(VECTOR, slot, int64_t)                 \
    X(VECTOR, offset, int64_t)               \
    X(VECTOR, place, int64_t)                \
    X(I64, slots)                            \
    X(I64, experts)                          \
    X(I64, marks)                            \
    X(I64, capacity)                         \
    X(GRID, one, planned, one_row, list)     \
    X(BUFFER, x, .bytes = 4)                 \
    X(BUFFER, y, .bytes = 4)                 \
    X(BUFFER, steps, .bytes = 4)             \
    X(BUFFER, offset, .bytes = 4)            \
    X(BUFFER, rows, .bytes = 4, .copies = 2) \
    X(BUFFER, by_expert, .bytes = 4)         \
    X(BUFFER, wide, .bytes = 8, .copies = 2) \
    X(BUFFER, rank, .bytes = 4, .copies = 2) \
    X(BUFFER, parts, .bytes = 12)            \
    X(BUFFER, mine, .bytes = 1)              \
    X(BUFFER, strip, .bytes = 4)             \
    X(BUFFER, result, .bytes = 8, .copies = 2)

#endif
