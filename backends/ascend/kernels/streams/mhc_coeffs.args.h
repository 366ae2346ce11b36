/* mhc_coeffs.args.h - what the kernels of mhc_coeffs are given; see asc_args.h. */
#ifndef MHC_COEFFS_ARGS_H
#define MHC_COEFFS_ARGS_H

#include "shared/asc_args.h"

/* Tokens are taken in groups of eight, whose numbers of one kind are a line: 32 bytes. */
enum { MHC_GROUP = 8 };

/* Numbers of a token as memory has them: those of all columns behind each other, in whole blocks of
 * 32 bytes for types of 16 bits, too; or pre, post and res each in blocks of their own. */
#define MHC_BLOCKS(numbers) (((numbers) + 7) / 8 * 8)
#define MHC_COLUMNS(streams) ((streams) * ((streams) + 2))
#define MHC_TOGETHER(streams) ((MHC_COLUMNS(streams) + 15) / 16 * 16)
#define MHC_APART(streams) (2 * MHC_BLOCKS(streams) + MHC_BLOCKS((streams) * (streams)))

/* Lines of a tile: what it keeps of each group. divisions: how many it keeps the divisors of;
 * columns: of z or of its parts. */
#define MHC_FORWARD_LINES(streams) \
    (MHC_TOGETHER(streams) + 2 * MHC_COLUMNS(streams) + 2 * MHC_APART(streams) + (streams) + 10)
#define MHC_BACKWARD_LINES(streams, divisions, columns)                          \
    (2 * MHC_TOGETHER(streams) + 5 * MHC_COLUMNS(streams) + MHC_APART(streams) + \
     3 * (streams) * (streams) + (5 + (divisions)) * (streams) + 10 +            \
     ((columns) > MHC_COLUMNS(streams) ? MHC_TOGETHER(streams) / 2 * 5 : 0))

/* squares[token] = the sum of squares of its row, which comes as `segments` rows of x. AT_ONCE
 * tokens are a task. sums: 256 lanes of each, and scratch for their sums. Steps: 0 copy in, 1
 * compute. */
enum { MHC_SQUARES_AT_ONCE = 16 };
#define MHC_SQUARES(X)                                                                          \
    X(TENSOR, x, ASC_T)                                                                         \
    X(MEMORY, squares, float)                                                                   \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(I64, tokens)                                                                              \
    X(I64, segments)                                                                            \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 1024 * MHC_SQUARES_AT_ONCE, .to = TG_UB_LAST, \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, sums, .per = TG_UB_FIXED, .bytes = 32 * MHC_SQUARES_AT_ONCE, .to = TG_UB_LAST)

/* to[c][r] = from[r][c], of compact rows. table: where the next column's elements lie. */
#define MHC_TURN(X)                                 \
    X(TENSOR, from, ASC_T)                          \
    X(TENSOR, to, ASC_T)                            \
    X(GRID, rows, columns, tile_rows, tile_columns) \
    X(BUFFER, from, .to = TG_UB_LAST)               \
    X(BUFFER, to, .to = TG_UB_LAST)                 \
    X(BUFFER, table, .per = TG_UB_ROW, .bytes = 4, .to = TG_UB_LAST)

/* sums: of the products of a token's row with the columns of phi. */
#define MHC_COEFFS_FORWARD(X)                       \
    X(MEMORY, sums, float)                          \
    X(MEMORY, squares, float)                       \
    X(VECTOR, bias, float)                          \
    X(VECTOR, alpha_pre, float)                     \
    X(VECTOR, alpha_post, float)                    \
    X(VECTOR, alpha_res, float)                     \
    X(VECTOR, h_pre, float)                         \
    X(VECTOR, h_post, float)                        \
    X(VECTOR, h_res, float)                         \
    X(VECTOR, mix, float)                           \
    X(VECTOR, rstd, float)                          \
    X(GRID, groups, width, tile_groups, tile_width) \
    X(I64, tokens)                                  \
    X(I64, streams)                                 \
    X(I64, iterations)                              \
    X(F32, mean)                                    \
    X(F32, rms_eps)                                 \
    X(F32, pre_eps)                                 \
    X(F32, sinkhorn_eps)                            \
    X(F32, post_multiplier)                         \
    X(BUFFER, lines, .bytes = 4, .to = TG_UB_LAST)

/* z: the gradient of the products with phi; parts: the same as sums of three bf16, of which each
 * token has those of all columns behind each other, or NULL. pull: what x is multiplied with in
 * dx. partials: each block's sums of the gradients of bias, and in whole blocks behind them of the
 * three alphas; or NULL. */
#define MHC_COEFFS_BACKWARD(X)                      \
    X(VECTOR, mix, float)                           \
    X(VECTOR, rstd, float)                          \
    X(VECTOR, bias, float)                          \
    X(VECTOR, alpha_pre, float)                     \
    X(VECTOR, alpha_post, float)                    \
    X(VECTOR, alpha_res, float)                     \
    X(VECTOR, dh_pre, float)                        \
    X(VECTOR, dh_post, float)                       \
    X(VECTOR, dh_res, float)                        \
    X(MEMORY, z, float)                             \
    X(MEMORY, parts, bfloat16_t)                    \
    X(MEMORY, pull, float)                          \
    X(MEMORY, partials, float)                      \
    X(GRID, groups, width, tile_groups, tile_width) \
    X(I64, tokens)                                  \
    X(I64, streams)                                 \
    X(I64, iterations)                              \
    X(I64, partials_stride)                         \
    X(F32, mean)                                    \
    X(F32, sinkhorn_eps)                            \
    X(F32, post_multiplier)                         \
    X(BUFFER, lines, .bytes = 4, .to = TG_UB_LAST)

/* dx = p + pull x; `segments` rows of x are a token. Steps: 0 copy in, 1 compute, 2 copy out. */
#define MHC_COEFFS_DX(X)                                                                        \
    X(TENSOR, x, ASC_T)                                                                         \
    X(MEMORY, p, float)                                                                         \
    X(MEMORY, pull, float)                                                                      \
    X(TENSOR, dx, ASC_T)                                                                        \
    X(GRID, rows, columns, tile_rows, tile_columns)                                             \
    X(I64, segments)                                                                            \
    X(BUFFER, x, .to = 1, .copies = 2, .bank = TG_UB_BANK_LOW)                                  \
    X(BUFFER, p, .bytes = 4, .to = 2, .copies = 2, .bank = TG_UB_BANK_HIGH)                     \
    X(BUFFER, x32, .bytes = 4, .from = 1, .to = 1, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT) \
    X(BUFFER, dx, .from = 1, .to = 2, .copies = 2)

/* dphi = the sum of `parts` numbers of each column, which lie in a row behind each other;
 * accumulate: + dphi as it was. */
#define MHC_COEFFS_DPHI(X)                                              \
    X(MEMORY, sums, float)                                              \
    X(TENSOR, dphi, ASC_T)                                              \
    X(GRID, rows, columns, tile_rows, tile_columns)                     \
    X(I64, parts)                                                       \
    X(I64, accumulate)                                                  \
    X(BUFFER, old, .to = TG_UB_LAST)                                    \
    X(BUFFER, old32, .bytes = 4, .to = TG_UB_LAST, .when = TG_UB_16BIT) \
    X(BUFFER, part, .bytes = 4, .to = TG_UB_LAST)                       \
    X(BUFFER, sum, .bytes = 4, .to = TG_UB_LAST)

#endif
