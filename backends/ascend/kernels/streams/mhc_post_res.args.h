/* mhc_post_res.args.h - what the kernels of mhc_post_res are given; see asc_args.h. */
#ifndef MHC_POST_RES_ARGS_H
#define MHC_POST_RES_ARGS_H

#include "streams.args.h"

/* A tile: a piece of a token's streams, and behind them of f or df. post, res: numbers of some
 * tokens; post_spread, res_spread: those of one, each in a block. */
#define MHC_POST_RES_FORWARD(X)                                                                 \
    X(TENSOR, x, ASC_T)                                                                         \
    X(TENSOR, f, ASC_T)                                                                         \
    X(VECTOR, post, float)                                                                      \
    X(VECTOR, res, float)                                                                       \
    X(TENSOR, y, ASC_T)                                                                         \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(I64, tokens)                                                                              \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = 2, .bank = TG_UB_BANK_HIGH)                       \
    X(BUFFER, y, .from = 1, .to = 2, .copies = 2)                                               \
    X(BUFFER, post, .per = TG_UB_FIXED, .bytes = STREAMS_LINES, .to = TG_UB_LAST)               \
    X(BUFFER, res, .per = TG_UB_FIXED, .bytes = STREAMS_MATRICES, .to = TG_UB_LAST)             \
    X(BUFFER, post_spread, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST,       \
      .align = 256)                                                                             \
    X(BUFFER, res_spread, .per = TG_UB_FIXED, .bytes = STREAMS_MATRIX, .to = TG_UB_LAST,        \
      .align = 256)

/* width: columns that there are, perhaps none. sums: of each stream of dy with those of x, and with
 * f, in the first number of a block each, a line of blocks a stream; dpost, dres: those of one
 * token. */
#define MHC_POST_RES_BACKWARD(X)                                                                  \
    X(TENSOR, dy, ASC_T)                                                                          \
    X(TENSOR, x, ASC_T)                                                                           \
    X(TENSOR, f, ASC_T)                                                                           \
    X(VECTOR, post, float)                                                                        \
    X(VECTOR, res, float)                                                                         \
    X(TENSOR, dx, ASC_T)                                                                          \
    X(TENSOR, df, ASC_T)                                                                          \
    X(VECTOR, dpost, float)                                                                       \
    X(VECTOR, dres, float)                                                                        \
    X(GRID, rows, columns, tile_rows, tile_columns)                                               \
    X(I64, tokens)                                                                                \
    X(I64, width)                                                                                 \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                    \
    X(BUFFER, dy, .to = 1, .copies = 2, .bank = TG_UB_BANK_HIGH)                                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)   \
    X(BUFFER, dy32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_HIGH, .when = TG_UB_16BIT) \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = 2)                                                  \
    X(BUFFER, dx, .from = 1, .to = 2, .copies = 2)                                                \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 1, .to = 2)                                 \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 1, .to = 2)                                  \
    X(BUFFER, post, .per = TG_UB_FIXED, .bytes = STREAMS_LINES, .to = TG_UB_LAST)                 \
    X(BUFFER, res, .per = TG_UB_FIXED, .bytes = STREAMS_MATRICES, .to = TG_UB_LAST)               \
    X(BUFFER, post_spread, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST,         \
      .align = 256)                                                                               \
    X(BUFFER, res_spread, .per = TG_UB_FIXED, .bytes = STREAMS_MATRIX, .to = TG_UB_LAST,          \
      .align = 256)                                                                               \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = STREAMS_MATRIX, .to = TG_UB_LAST, .align = 256)  \
    X(BUFFER, post_sums, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST,           \
      .align = 256)                                                                               \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = STREAMS_BLOCKS, .to = TG_UB_LAST, .align = 256)  \
    X(BUFFER, dpost, .per = TG_UB_FIXED, .bytes = STREAMS_LINE, .to = TG_UB_LAST)                 \
    X(BUFFER, dres, .per = TG_UB_FIXED, .bytes = STREAMS_LINE * STREAMS_MOST, .to = TG_UB_LAST)

#endif
