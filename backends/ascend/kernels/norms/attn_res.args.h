/* attn_res.args.h - what the kernels of attn_res are given; see asc_args.h. */
#ifndef ATTN_RES_ARGS_H
#define ATTN_RES_ARGS_H

#include "shared/asc_args.h"

/* Blocks of depth, at most, of whose numbers UB is kept free: usual ones, and deep ones. */
enum { ATTN_RES_USUAL = 256, ATTN_RES_DEPTH = 1024 };
#define ATTN_RES_SHALLOW TG_UB_OPTION(0)
#define ATTN_RES_DEEP TG_UB_OPTION(1)

/* Numbers of the rows of a token: `floats` for each block of depth. */
#define ATTN_RES_NUMBERS(X, floats)                                                                \
    X(BUFFER, numbers, .per = TG_UB_FIXED, .bytes = 4 * (floats)*ATTN_RES_USUAL, .to = TG_UB_LAST, \
      .when = ATTN_RES_SHALLOW)                                                                    \
    X(BUFFER, deep_numbers, .per = TG_UB_FIXED, .bytes = 4 * (floats)*ATTN_RES_DEPTH,              \
      .to = TG_UB_LAST, .when = ATTN_RES_DEEP)

/* The rows of `vectors`: query weight, query, weight, all f32. */
enum { ATTN_RES_KEY, ATTN_RES_QUERY, ATTN_RES_WEIGHT, ATTN_RES_VECTORS };

/* Steps: 0 copy in, 1 widen, 2 multiply, 3 copy out. */
#define ATTN_RES_PREPARE(X)                             \
    X(VECTOR, query, void)                              \
    X(VECTOR, weight, void)                             \
    X(MEMORY, vectors, float)                           \
    X(GRID, rows, columns, tile_rows, tile_columns)     \
    X(I64, vectors_stride)                              \
    X(I64, query_f32)                                   \
    X(I64, weight_f32)                                  \
    X(BUFFER, staged, .bytes = 4, .to = 1, .copies = 2) \
    X(BUFFER, query, .bytes = 4, .from = 1, .to = 3)    \
    X(BUFFER, weight, .bytes = 4, .from = 1, .to = 3)   \
    X(BUFFER, key, .bytes = 4, .from = 2, .to = 3)

/* Slots of the rows that stay in UB from one pass to the next. */
enum { ATTN_RES_SLOTS = 8 };

/* A tile is rows of a token: of some blocks of depth, whole or, where they do not fit, in pieces.
 * A block of the launch has a share of the tokens. mean: 1 / columns. numbers: attn_res_numbers. */
#define ATTN_RES_FORWARD_GIVEN(X) \
    X(TENSOR, v, ASC_T)           \
    X(MEMORY, vectors, float)     \
    X(TENSOR, y, ASC_T)           \
    X(VECTOR, alpha, float)       \
    X(VECTOR, rstd, float)        \
    X(I64, tokens)                \
    X(F32, mean)                  \
    X(F32, eps)
#define ATTN_RES_FORWARD_BUFFERS(X)                                                            \
    X(BUFFER, v32, .bytes = 4, .from = 1, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW,            \
      .when = TG_UB_16BIT)                                                                     \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)             \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 1, .to = TG_UB_LAST)                     \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 1, .to = TG_UB_LAST)                      \
    X(BUFFER, key, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, y, .per = TG_UB_COLUMN, .to = TG_UB_LAST, .copies = 2)                           \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)             \
    ATTN_RES_NUMBERS(X, 19)                                                                    \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                       \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                        \
    X(BUFFER, block, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)

/* Rows that are copied in twice. */
#define ATTN_RES_FORWARD(X)                                             \
    ATTN_RES_FORWARD_GIVEN(X)                                           \
    X(GRID, depth, columns, tile_rows, tile_columns)                    \
    X(BUFFER, v, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_LOW) \
    ATTN_RES_FORWARD_BUFFERS(X)

/* Whole rows, of at most ATTN_RES_SLOTS tiles a token, that stay. Both sums of a row are made side
 * by side. */
#define ATTN_RES_FORWARD_KEPT(X)                                                     \
    ATTN_RES_FORWARD_GIVEN(X)                                                        \
    X(GRID, depth, columns, tile_rows, tile_columns)                                 \
    X(BUFFER, v, .to = TG_UB_LAST, .copies = ATTN_RES_SLOTS, .bank = TG_UB_BANK_LOW) \
    ATTN_RES_FORWARD_BUFFERS(X)                                                      \
    X(BUFFER, q, .bytes = 4, .from = 1, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)   \
    X(BUFFER, q_eighth, .bytes = 4, .every = 8, .from = 1, .to = TG_UB_LAST)         \
    X(BUFFER, q_rest, .bytes = 4, .every = 64, .from = 1, .to = TG_UB_LAST)

/* partials: of each block of the launch the sum of ds rstd v times weight, and behind all those the
 * same times query; or NULL. numbers: attn_res_pulls. */
#define ATTN_RES_BACKWARD(X)                                                                    \
    X(TENSOR, dy, ASC_T)                                                                        \
    X(TENSOR, v, ASC_T)                                                                         \
    X(MEMORY, vectors, float)                                                                   \
    X(VECTOR, alpha, float)                                                                     \
    X(VECTOR, rstd, float)                                                                      \
    X(TENSOR, dv, ASC_T)                                                                        \
    X(MEMORY, partials, float)                                                                  \
    X(GRID, depth, columns, tile_rows, tile_columns)                                            \
    X(I64, tokens)                                                                              \
    X(I64, vectors_stride)                                                                      \
    X(I64, partials_stride)                                                                     \
    X(F32, mean)                                                                                \
    X(BUFFER, v, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, v32, .bytes = 4, .from = 1, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW,             \
      .when = TG_UB_16BIT)                                                                      \
    X(BUFFER, p, .bytes = 4, .from = 1, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)              \
    X(BUFFER, dv, .from = 1, .to = TG_UB_LAST, .copies = 2)                                     \
    X(BUFFER, eighth, .bytes = 4, .every = 8, .from = 1, .to = TG_UB_LAST)                      \
    X(BUFFER, rest, .bytes = 4, .every = 64, .from = 1, .to = TG_UB_LAST)                       \
    X(BUFFER, dy, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                            \
    X(BUFFER, dy32, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, key, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, sum, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)  \
    X(BUFFER, part, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256)              \
    ATTN_RES_NUMBERS(X, 28)                                                                     \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)                        \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)                         \
    X(BUFFER, block, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)

#endif
