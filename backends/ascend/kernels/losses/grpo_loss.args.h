/* grpo_loss.args.h - what the kernels of grpo_loss are given, which compute with a number a
 * token; see asc_args.h. */
#ifndef GRPO_LOSS_ARGS_H
#define GRPO_LOSS_ARGS_H

#include "terms.args.h"
#include "tokens.args.h"

/* How rho becomes the policy's part of a token: the loss types, of which TG_GRPO to TG_LUSPO differ
 * in their weights alone. */
enum { GRPO_CLIP, GRPO_CISPO, GRPO_SAPO, GRPO_VESPO };

/* What a token counts in the loss: `weight`, over its sequence's number of kept tokens, times it,
 * or over that of all. */
enum { GRPO_AS_IT_IS, GRPO_BY_SEQUENCE, GRPO_BY_LENGTH, GRPO_BY_TOKEN };

enum {
    GRPO_SEQUENCE = 1,   /* rho is one for a sequence */
    GRPO_CORRECTED = 2,  /* the divergence is multiplied by rho */
    GRPO_RATIO_EACH = 4, /* is_ratio has a number for every token, not one for a sequence */
    GRPO_DLOSS_EACH = 8
};

/* Option: other tokens than those that are kept make the ratio. */
#define GRPO_RATED_APART TG_UB_OPTION(0)

enum { GRPO_SUMS = 3 * TERMS_PARTIAL }; /* what a block leaves of the sums of loss, kl, clipped */

/* Numbers of the tokens of a sequence, in pieces. logp: of all tokens; logp_again: of those that
 * were computed anew, if again_counts say that there are any, beside which logp is 0. selected:
 * TOKENS_LEFT_OUT for those to be left out; NULL: for none. rated: the same of the tokens that a
 * sequence's ratio is made of; NULL: of those that are kept. counts: how many are kept. Forward:
 * loss, kl, clipped of every token, or sums: of each block. Backward: dlogp. pos, neg: of a
 * positive advantage and of another: sapo_temperature or vespo_k. */
#define GRPO_POLICY(X)                                                       \
    X(TENSOR, old_logp, void)                                                \
    X(TENSOR, ref_logp, void)                                                \
    X(TENSOR, is_ratio, float)                                               \
    X(TENSOR, dloss, float)                                                  \
    X(TENSOR, loss, float)                                                   \
    X(TENSOR, kl, float)                                                     \
    X(TENSOR, clipped, float)                                                \
    X(VECTOR, advantages, float)                                             \
    X(MEMORY, logp, float)                                                   \
    X(MEMORY, logp_again, float)                                             \
    X(MEMORY, again_counts, float)                                           \
    X(MEMORY, selected, int64_t)                                             \
    X(MEMORY, rated, int64_t)                                                \
    X(MEMORY, counts, float)                                                 \
    X(MEMORY, sums, float)                                                   \
    X(MEMORY, dlogp, float)                                                  \
    X(GRID, rows, columns, tile_rows, tile_columns)                          \
    X(I64, old_type)                                                         \
    X(I64, ref_type)                                                         \
    X(I64, again_blocks)                                                     \
    X(I64, count_blocks)                                                     \
    X(I64, policy)                                                           \
    X(I64, weighs)                                                           \
    X(I64, flags)                                                            \
    X(F32, weight)                                                           \
    X(F32, beta)                                                             \
    X(F32, low)                                                              \
    X(F32, high)                                                             \
    X(F32, delta)                                                            \
    X(F32, pos)                                                              \
    X(F32, neg)                                                              \
    X(F32, lambda_pos)                                                       \
    X(F32, lambda_neg)                                                       \
    X(BUFFER, selected, .bytes = 8)                                          \
    X(BUFFER, old_in, .bytes = 4)                                            \
    X(BUFFER, ref_in, .bytes = 4)                                            \
    X(BUFFER, again, .bytes = 4)                                             \
    X(BUFFER, logp, .bytes = 4)                                              \
    X(BUFFER, old, .bytes = 4)                                               \
    X(BUFFER, ref, .bytes = 4)                                               \
    X(BUFFER, ratio, .bytes = 4)                                             \
    X(BUFFER, upstream, .bytes = 4)                                          \
    X(BUFFER, kept, .bytes = 4)                                              \
    X(BUFFER, rho, .bytes = 4)                                               \
    X(BUFFER, loss, .bytes = 4)                                              \
    X(BUFFER, kl, .bytes = 4)                                                \
    X(BUFFER, clipped, .bytes = 4)                                           \
    X(BUFFER, direct, .bytes = 4)                                            \
    X(BUFFER, by_rho, .bytes = 4)                                            \
    X(BUFFER, a, .bytes = 4)                                                 \
    X(BUFFER, b, .bytes = 4)                                                 \
    X(BUFFER, rated_in, .bytes = 8, .when = GRPO_RATED_APART)                \
    X(BUFFER, rated, .bytes = 4, .when = GRPO_RATED_APART)                   \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 7 * 256, .to = TG_UB_LAST) \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST)     \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

/* The means of a loss: the sum of the blocks' sums, for kl and clipped times `mean`,
 * over what is counted. */
#define GRPO_TOTAL(X)                                                       \
    X(MEMORY, sums, float)                                                  \
    X(MEMORY, counts, float)                                                \
    X(VECTOR, loss, float)                                                  \
    X(VECTOR, kl, float)                                                    \
    X(VECTOR, clipped, float)                                               \
    X(GRID, rows, columns, tile_rows, tile_columns)                         \
    X(I64, blocks)                                                          \
    X(I64, count_blocks)                                                    \
    X(F32, mean)                                                            \
    X(BUFFER, sums, .bytes = GRPO_SUMS * 4)                                 \
    X(BUFFER, value, .per = TG_UB_FIXED, .bytes = 3 * 32, .to = TG_UB_LAST) \
    X(BUFFER, counted, .per = TG_UB_FIXED, .bytes = 4096, .to = TG_UB_LAST)

/* logp of every token by its saved lse, and 0 where the rounding of that would tell: those tokens
 * are what `again` selects, which counts says how many there are of. target: as selected. */
#define GRPO_SAVED(X)                                                    \
    X(TENSOR, logits, ASC_T)                                             \
    X(TENSOR, target, int64_t)                                           \
    X(TENSOR, lse, float)                                                \
    X(MEMORY, logp, float)                                               \
    X(MEMORY, again, int64_t)                                            \
    X(MEMORY, counts, float)                                             \
    X(GRID, rows, columns, tile_rows, tile_columns)                      \
    X(I64, logits_group)                                                 \
    X(I64, classes)                                                      \
    X(F32, scale)                                                        \
    X(F32, roundings)                                                    \
    X(BUFFER, target, .bytes = 8)                                        \
    X(BUFFER, lse, .bytes = 4)                                           \
    X(BUFFER, hit, .bytes = 32)                                          \
    X(BUFFER, hit32, .bytes = 64, .when = TG_UB_16BIT)                   \
    X(BUFFER, eighth, .bytes = 8, .when = TG_UB_16BIT)                   \
    X(BUFFER, x, .bytes = 4)                                             \
    X(BUFFER, p, .bytes = 4)                                             \
    X(BUFFER, q, .bytes = 4)                                             \
    X(BUFFER, a, .bytes = 4)                                             \
    X(BUFFER, b, .bytes = 4)                                             \
    X(BUFFER, index, .bytes = 4)                                         \
    X(BUFFER, trusted, .bytes = 4)                                       \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST) \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)

#endif
