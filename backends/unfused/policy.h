/* policy.h - the losses of policies as an eager framework's user writes them: from
 * log-probabilities one loop for each step over tensors [B,L], and derivatives as reverse-mode
 * differentiation forms them. */
#ifndef UNFUSED_POLICY_H
#define UNFUSED_POLICY_H

#include "tigon/options.h"

#include "tokens.h"

/* One call of either direction. */
typedef struct grpo {
    tg_grpo_options o;
    int64_t batch, length;
    double kept; /* tokens */
    plane advantages, old_logp, ref_logp, mask, ratio_mask, is_ratio;
} grpo;

/* tokens: a tensor of their shape. */
#define GRPO_WITH(args, tokens, rated)                                                         \
    policy_counted((grpo){TG_GRPO_OPTIONS(args), (tokens)->shape[0], (tokens)->shape[1], 0,    \
                          plane_of((args)->advantages), plane_of((args)->old_logp),            \
                          plane_of((args)->ref_logp), plane_of((args)->mask), plane_of(rated), \
                          plane_of((args)->is_ratio)})
#define GRPO_OF(args) GRPO_WITH(args, (args)->target, (args)->mask)

/* Elements of the tensors; dlogp and drho: derivatives of loss with the other one fixed. */
typedef struct step_token {
    int64_t b, l;
    int kept, rated;
    double logp, log_ratio, rho, is_ratio, advantage;
    double n, of_ratio; /* tokens kept in its sequence, and those that its ratio is made of */
    double loss, kl, clipped, dlogp, drho;
} step_token;

grpo policy_counted(grpo g);
/* All tokens up to their losses and derivatives; NULL without memory. */
step_token *policy_steps(tg_ctx *ctx, const grpo *g, const plane *logp);
void policy_losses(const grpo *g, const step_token *t, const tg_tensor *loss, const tg_tensor *kl,
                   const tg_tensor *clipped);
void policy_gradients(const grpo *g, const step_token *t, const tg_tensor *dloss,
                      const plane *dlogp);

#endif
