/* mhc_pre.args.h - what the kernels of mhc_pre are given; see asc_args.h. */
#ifndef MHC_PRE_ARGS_H
#define MHC_PRE_ARGS_H

#include "streams.args.h"

/* A tile: a piece of a token's streams, and behind them of y or dy. h: numbers of some tokens;
 * spread: those of one, each in a block. */
#define MHC_PRE_FORWARD(X)                                                                       \
    X(TENSOR, x, ASC_T)                                                                          \
    X(VECTOR, h, float)                                                                          \
    X(TENSOR, y, ASC_T)                                                                          \
    X(GRID, rows, columns, tile_rows, tile_columns)                                              \
    X(I64, tokens)                                                                               \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                   \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)  \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, y, .per = TG_UB_COLUMN, .bytes = 4, .from = 1, .to = 2, .copies = 2)               \
    X(BUFFER, h, .per = TG_UB_FIXED, .bytes = STREAMS_LINES, .to = TG_UB_LAST)                   \
    X(BUFFER, spread, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST, .align = 256)

/* width: columns that there are, perhaps none. sums: of each stream, in the first number of a
 * block; dh: those of one token. */
#define MHC_PRE_BACKWARD(X)                                                                        \
    X(TENSOR, dy, ASC_T)                                                                           \
    X(TENSOR, x, ASC_T)                                                                            \
    X(VECTOR, h, float)                                                                            \
    X(TENSOR, dx, ASC_T)                                                                           \
    X(VECTOR, dh, float)                                                                           \
    X(GRID, rows, columns, tile_rows, tile_columns)                                                \
    X(I64, tokens)                                                                                 \
    X(I64, width)                                                                                  \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                     \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)    \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)                          \
    X(BUFFER, dx, .from = 1, .to = 2, .copies = 2)                                                 \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 1, .to = 2)                                  \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 1, .to = 2)                                   \
    X(BUFFER, h, .per = TG_UB_FIXED, .bytes = STREAMS_LINES, .to = TG_UB_LAST)                     \
    X(BUFFER, dh, .per = TG_UB_FIXED, .bytes = STREAMS_LINE, .to = TG_UB_LAST)                     \
    X(BUFFER, spread, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST, .align = 256) \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST, .align = 256)   \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST, .align = 256)

#endif
