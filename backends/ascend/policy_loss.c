/* policy_loss.c - host of policy_loss: log-probabilities in f32, without gaps, masks as tokens that
 * are left out, then what grpo_loss does with a number a token (kernels/losses/grpo_loss.asc.c). */
#include "grpo_loss.h"

ASCEND_OPERATOR(policy_loss_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(policy_loss_backward, TG_TAKES_FLOATS);

#define POLICY_CALL(args) .tokens = {.mask = (args)->mask}, GRPO_OPTIONS(args, (args)->logp)

/* Takes in log-probabilities and masks. */
static tg_status prepare(tg_ctx *ctx, grpo_call *c, const tg_tensor *logp,
                         const tg_tensor *ratio_mask)
{
    tokens_call rated = {.mask = ratio_mask};
    ASCEND_TRY(ascend_grpo_room(ctx, c, logp));
    ASCEND_TRY(ascend_select_tokens(ctx, &c->tokens));
    ASCEND_TRY(ascend_select_tokens(ctx, &rated));
    if (ratio_mask)
        c->rated = ascend_memory_of(&rated.selected);
    return ascend_convert(ctx, logp, &c->logp);
}

tg_status ascend_policy_loss_forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args)
{
    grpo_call c = {POLICY_CALL(args), .loss = args->loss, .kl = args->kl, .clipped = args->clipped};
    ASCEND_TRY(prepare(ctx, &c, args->logp, args->ratio_mask));
    return ascend_grpo_losses(ctx, &c);
}

tg_status ascend_policy_loss_backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args)
{
    grpo_call c = {POLICY_CALL(args), .dloss = args->dloss};
    ASCEND_TRY(prepare(ctx, &c, args->logp, args->ratio_mask));
    ASCEND_TRY(ascend_grpo_gradient(ctx, &c));
    return ascend_convert(ctx, &c.logp, args->dlogp);
}
