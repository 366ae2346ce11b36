/* grpo_loss.h - what the host files of grpo_loss and policy_loss share: a call, and the launches
 * that compute with a number a token. */
#ifndef ASCEND_GRPO_LOSS_H
#define ASCEND_GRPO_LOSS_H

#include "tokens.h"

/* A call of either direction. */
typedef struct grpo_call {
    tokens_call tokens;
    ascend_memory rated; /* as tokens.selected, of those that ratios are made of; or none */
    const tg_tensor *advantages, *old_logp, *ref_logp, *is_ratio, *dloss, *loss, *kl, *clipped;
    int64_t type, sequence, each, corrected, length;
    double beta, low, high, delta, items, pos, neg, lambda_pos, lambda_neg;
    int64_t batch, columns;
    tg_tensor logp;                    /* of every token, f32 without gaps */
    ascend_memory again, again_counts; /* backward: of the tokens that are computed anew */
    int64_t again_blocks;
} grpo_call;

/* The options, and the numbers beside log-probabilities; tokens: a tensor of a number each. */
#define GRPO_OPTIONS(args, of_tokens)                                                             \
    .advantages = (args)->advantages, .old_logp = (args)->old_logp, .ref_logp = (args)->ref_logp, \
    .is_ratio = (args)->is_ratio, .type = (args)->loss_type,                                      \
    .sequence = (args)->importance_sampling_level == TG_SEQUENCE_LEVEL,                           \
    .each = (args)->reduction == TG_NONE, .corrected = (args)->use_bias_correction_kl,            \
    .length = (args)->max_completion_length, .beta = (args)->beta, .low = 1 - (args)->eps_low,    \
    .high = ((args)->loss_type == TG_CISPO ? 0 : 1) + (args)->eps_high, .delta = (args)->delta,   \
    .items = (args)->num_items_in_batch,                                                          \
    .pos = (args)->loss_type == TG_VESPO ? (args)->vespo_k_pos : (args)->sapo_temperature_pos,    \
    .neg = (args)->loss_type == TG_VESPO ? (args)->vespo_k_neg : (args)->sapo_temperature_neg,    \
    .lambda_pos = (args)->vespo_lambda_pos, .lambda_neg = (args)->vespo_lambda_neg,               \
    .batch = (of_tokens)->shape[0], .columns = (of_tokens)->shape[1]

/* Memory for the log-probabilities of all tokens. */
tg_status ascend_grpo_room(tg_ctx *ctx, grpo_call *c, const tg_tensor *tokens);

/* From log-probabilities losses of tokens and, if they are reduced, their total. */
tg_status ascend_grpo_losses(tg_ctx *ctx, const grpo_call *c);

/* From log-probabilities their gradient, in their place. */
tg_status ascend_grpo_gradient(tg_ctx *ctx, const grpo_call *c);

#endif
