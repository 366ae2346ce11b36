/* moe_gather.args.h - what the kernels of moe_gather and moe_scatter are given; see asc_args.h. */
#ifndef MOE_GATHER_ARGS_H
#define MOE_GATHER_ARGS_H

#include "shared/asc_args.h"

/* Rows of tokens to rows of slots. Steps: 0 copy in, 1 copy out. */
#define MOE_SPREAD(X)                                           \
    X(TENSOR, x, ASC_T)                                         \
    X(VECTOR, slot, int64_t)                                    \
    X(TENSOR, out, ASC_T)                                       \
    X(GRID, count, columns, tile_rows, tile_columns)            \
    X(I64, top_k)                                               \
    X(BUFFER, taken, .to = 1, .copies = 2)                      \
    X(BUFFER, index, .per = TG_UB_ROW, .bytes = 8, .copies = 2) \
    X(BUFFER, zeros, .per = TG_UB_COLUMN, .to = TG_UB_LAST)

/* The same, each times the weight of its slot, which are f32. weight: a block of 32 bytes a row, of
 * which the first number is copied in. */
#define MOE_SPREAD_WEIGHED(X)                                                       \
    X(TENSOR, x, ASC_T)                                                             \
    X(VECTOR, slot, int64_t)                                                        \
    X(VECTOR, weights, float)                                                       \
    X(TENSOR, out, ASC_T)                                                           \
    X(GRID, count, columns, tile_rows, tile_columns)                                \
    X(I64, top_k)                                                                   \
    X(BUFFER, taken, .to = TG_UB_LAST, .copies = 2)                                 \
    X(BUFFER, wide, .bytes = 4, .to = TG_UB_LAST, .when = TG_UB_16BIT)              \
    X(BUFFER, out, .to = TG_UB_LAST, .copies = 2)                                   \
    X(BUFFER, index, .per = TG_UB_ROW, .bytes = 8, .copies = 2)                     \
    X(BUFFER, weight, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .copies = 2) \
    X(BUFFER, value, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                \
    X(BUFFER, block, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)

/* Places of a tile's slots, at most. */
enum { MOE_PLACES = 512 };

/* Sums of the rows of each token's slots. weights may be NULL: 1; addend, which the sum begins
 * with, too. Steps: 0 copy in, 1 widen, 2 add, 3 copy out. */
#define MOE_COLLECT(X)                                                                           \
    X(TENSOR, x, ASC_T)                                                                          \
    X(VECTOR, place, int64_t)                                                                    \
    X(VECTOR, weights, float)                                                                    \
    X(TENSOR, addend, ASC_T)                                                                     \
    X(TENSOR, out, ASC_T)                                                                        \
    X(GRID, tokens, columns, tile_rows, tile_columns)                                            \
    X(I64, top_k)                                                                                \
    X(BUFFER, x, .to = 2, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, sum32, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, out, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, place, .per = TG_UB_FIXED, .bytes = 8 * MOE_PLACES, .copies = 2)                   \
    X(BUFFER, weight, .per = TG_UB_FIXED, .bytes = 4 * MOE_PLACES, .copies = 2)

/* For each slot the product of its row and its token's: dweights. A tile is of slots. */
#define MOE_DOTS(X)                                                                             \
    X(TENSOR, x, ASC_T)                                                                         \
    X(TENSOR, dy, ASC_T)                                                                        \
    X(VECTOR, place, int64_t)                                                                   \
    X(VECTOR, dweights, float)                                                                  \
    X(GRID, slots, columns, tile_rows, tile_columns)                                            \
    X(I64, top_k)                                                                               \
    X(BUFFER, x, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, dy, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, dy32, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, p, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .to = TG_UB_LAST)                                 \
    X(BUFFER, rest, .bytes = 4, .every = 64, .to = TG_UB_LAST)                                  \
    X(BUFFER, place, .per = TG_UB_ROW, .bytes = 8, .copies = 2)                                 \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)                             \
    X(BUFFER, total, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST, .copies = 2)

#endif
