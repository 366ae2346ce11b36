/* moe_router.args.h - what the kernels of moe_router are given; see asc_args.h. */
#ifndef MOE_ROUTER_ARGS_H
#define MOE_ROUTER_ARGS_H

#include "shared/asc_args.h"

/* Tokens of a tile, at most: each has a lane where an expert of each token stands in a line. Chosen
 * experts: usual ones, and many. Groups that are limited, and lists of 32 experts, at most. */
enum { ROUTER_TOKENS = 64, ROUTER_USUAL = 8, ROUTER_MANY = 32, ROUTER_GROUPS = 32 };
enum { ROUTER_LIST = 32, ROUTER_LISTS = 58 };
#define ROUTER_FEW TG_UB_OPTION(0)
#define ROUTER_DEEP TG_UB_OPTION(1)
#define ROUTER_LIMITED TG_UB_OPTION(2)

/* Lines of a number for each chosen expert of each token. */
#define ROUTER_LINES(X, name, count)                                                             \
    X(BUFFER, name, .per = TG_UB_FIXED, .bytes = 256 * ROUTER_USUAL * (count), .to = TG_UB_LAST, \
      .when = ROUTER_FEW)                                                                        \
    X(BUFFER, name##_deep, .per = TG_UB_FIXED, .bytes = 256 * ROUTER_MANY * (count),             \
      .to = TG_UB_LAST, .when = ROUTER_DEEP)

/* A column of the grid is a position: experts stand in groups of `each`, and a group takes `room`
 * positions, whole lists. marked: mask as 0, or -1 for tokens that are left out, or NULL. counted:
 * experts as they are counted, of tokens that are left out `experts`, or NULL. partials: of each
 * block sums over its tokens, or NULL: of probabilities, one a position, of squares of lse, and of
 * tokens, 64 each. wants: ROUTER_ bits. Of two sources of one instruction one lies LOW, the other
 * HIGH. */
enum { ROUTER_PROBABILITIES = 1, ROUTER_SIGMOID = 2, ROUTER_RENORMALISE = 4, ROUTER_BEST_ONE = 8 };
#define ROUTER_FORWARD(X)                                                                       \
    X(TENSOR, logits, ASC_T)                                                                    \
    X(VECTOR, bias, float)                                                                      \
    X(MEMORY, marked, int64_t)                                                                  \
    X(VECTOR, index, int64_t)                                                                   \
    X(VECTOR, weights, void)                                                                    \
    X(VECTOR, lse, float)                                                                       \
    X(MEMORY, counted, int64_t)                                                                 \
    X(MEMORY, partials, float)                                                                  \
    X(GRID, tokens, positions, tile_rows, tile_columns)                                         \
    X(I64, experts)                                                                             \
    X(I64, groups)                                                                              \
    X(I64, kept)                                                                                \
    X(I64, top_k)                                                                               \
    X(I64, wants)                                                                               \
    X(I64, weights_f32)                                                                         \
    X(I64, partials_stride)                                                                     \
    X(F32, scale)                                                                               \
    X(BUFFER, logits, .to = TG_UB_LAST, .copies = 2)                                            \
    X(BUFFER, x, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, s, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                          \
    X(BUFFER, key, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                        \
    X(BUFFER, first, .bytes = 8, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                     \
    X(BUFFER, second, .bytes = 2, .to = TG_UB_LAST, .when = ROUTER_FEW)                         \
    X(BUFFER, second_deep, .bytes = 8, .to = TG_UB_LAST, .when = ROUTER_DEEP)                   \
    X(BUFFER, columns, .per = TG_UB_COLUMN, .bytes = 24, .to = TG_UB_LAST,                      \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, folds, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH) \
    X(BUFFER, block, .per = TG_UB_ROW, .bytes = 32, .to = TG_UB_LAST, .align = 256,             \
      .bank = TG_UB_BANK_HIGH)                                                                  \
    X(BUFFER, of_groups, .per = TG_UB_ROW, .bytes = 256 * 9, .to = TG_UB_LAST,                  \
      .when = ROUTER_LIMITED)                                                                   \
    X(BUFFER, marked, .per = TG_UB_FIXED, .bytes = 8 * ROUTER_TOKENS, .copies = 2)              \
    X(BUFFER, numbers, .per = TG_UB_FIXED, .bytes = 256 * 12, .to = TG_UB_LAST)                 \
    ROUTER_LINES(X, lines, 14)

/* The blocks' sums become results. width: of a row of partials; totals: how many slots each expert
 * has, or NULL. part: rows of ROUTER_PARTS blocks. */
enum { ROUTER_PARTS = 16 };
#define ROUTER_TOTALS(X)                             \
    X(MEMORY, partials, float)                       \
    X(MEMORY, totals, int32_t)                       \
    X(VECTOR, counts, int64_t)                       \
    X(VECTOR, probs, float)                          \
    X(VECTOR, balance, float)                        \
    X(VECTOR, z_loss, float)                         \
    X(I64, experts)                                  \
    X(I64, groups)                                   \
    X(I64, blocks)                                   \
    X(GRID, one, width, one_row, whole)              \
    X(BUFFER, part, .bytes = 64, .to = TG_UB_LAST)   \
    X(BUFFER, sum, .bytes = 4, .to = TG_UB_LAST)     \
    X(BUFFER, probs, .bytes = 4, .to = TG_UB_LAST)   \
    X(BUFFER, count, .bytes = 4, .to = TG_UB_LAST)   \
    X(BUFFER, table, .bytes = 4, .to = TG_UB_LAST)   \
    X(BUFFER, scratch, .bytes = 4, .to = TG_UB_LAST) \
    X(BUFFER, counts, .bytes = 8, .to = TG_UB_LAST)  \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 512, .to = TG_UB_LAST)

/* What backward knows of the sums over tokens: for each expert the gradient of its probabilities,
 * and for each token that of lse by lse, 64 times. */
#define ROUTER_PREPARE(X)                           \
    X(VECTOR, counts, int64_t)                      \
    X(VECTOR, dprobs, float)                        \
    X(VECTOR, dbalance, float)                      \
    X(VECTOR, dz_loss, float)                       \
    X(MEMORY, factors, float)                       \
    X(I64, experts)                                 \
    X(I64, top_k)                                   \
    X(GRID, one, width, one_row, whole)             \
    X(BUFFER, counts, .bytes = 8, .to = TG_UB_LAST) \
    X(BUFFER, count, .bytes = 4, .to = TG_UB_LAST)  \
    X(BUFFER, factor, .bytes = 4, .to = TG_UB_LAST) \
    X(BUFFER, scalars, .per = TG_UB_FIXED, .bytes = 64 + 256, .to = TG_UB_LAST)

/* factors: as prepared, or NULL. dweights may be NULL. */
#define ROUTER_BACKWARD(X)                                                                     \
    X(TENSOR, logits, ASC_T)                                                                   \
    X(MEMORY, marked, int64_t)                                                                 \
    X(VECTOR, index, int64_t)                                                                  \
    X(VECTOR, lse, float)                                                                      \
    X(VECTOR, dweights, float)                                                                 \
    X(MEMORY, factors, float)                                                                  \
    X(TENSOR, dlogits, ASC_T)                                                                  \
    X(GRID, tokens, experts, tile_rows, tile_columns)                                          \
    X(I64, top_k)                                                                              \
    X(I64, wants)                                                                              \
    X(F32, scale)                                                                              \
    X(BUFFER, logits, .to = TG_UB_LAST, .copies = 2, .bank = TG_UB_BANK_LOW)                   \
    X(BUFFER, x, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW, .when = TG_UB_16BIT)    \
    X(BUFFER, p, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_HIGH)                        \
    X(BUFFER, d, .bytes = 4, .to = TG_UB_LAST, .bank = TG_UB_BANK_LOW)                         \
    X(BUFFER, out, .to = TG_UB_LAST, .copies = 2)                                              \
    X(BUFFER, factor, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                       \
    X(BUFFER, pads, .per = TG_UB_COLUMN, .bytes = 4, .to = TG_UB_LAST)                         \
    X(BUFFER, folds, .per = TG_UB_ROW, .bytes = 256, .to = TG_UB_LAST)                         \
    X(BUFFER, block, .per = TG_UB_FIXED, .bytes = 32 * ROUTER_TOKENS, .to = TG_UB_LAST)        \
    X(BUFFER, marked, .per = TG_UB_FIXED, .bytes = 8 * ROUTER_TOKENS, .copies = 2)             \
    X(BUFFER, lse, .per = TG_UB_FIXED, .bytes = 4 * ROUTER_TOKENS, .copies = 2)                \
    X(BUFFER, numbers, .per = TG_UB_FIXED, .bytes = 256 * 8, .to = TG_UB_LAST)                 \
    X(BUFFER, index, .per = TG_UB_FIXED, .bytes = 512 * ROUTER_USUAL, .to = TG_UB_LAST,        \
      .copies = 2, .when = ROUTER_FEW)                                                         \
    X(BUFFER, index_deep, .per = TG_UB_FIXED, .bytes = 512 * ROUTER_MANY, .to = TG_UB_LAST,    \
      .copies = 2, .when = ROUTER_DEEP)                                                        \
    X(BUFFER, dweights, .per = TG_UB_FIXED, .bytes = 256 * ROUTER_USUAL, .to = TG_UB_LAST,     \
      .copies = 2, .when = ROUTER_FEW)                                                         \
    X(BUFFER, dweights_deep, .per = TG_UB_FIXED, .bytes = 256 * ROUTER_MANY, .to = TG_UB_LAST, \
      .copies = 2, .when = ROUTER_DEEP)                                                        \
    ROUTER_LINES(X, lines, 8)

#endif
