/* policy_loss as an eager framework's user writes it. */
#include "policy.h"

/* The tokens that ratios are made of: those of mask, if no others are given. */
#define POLICY_OF(args) \
    GRPO_WITH(args, (args)->logp, (args)->ratio_mask ? (args)->ratio_mask : (args)->mask)

static tg_status forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args)
{
    const grpo g = POLICY_OF(args);
    const plane logp = plane_of(args->logp);
    const step_token *t = policy_steps(ctx, &g, &logp);
    if (!t)
        return TG_ENOMEM;
    policy_losses(&g, t, args->loss, args->kl, args->clipped);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args)
{
    const grpo g = POLICY_OF(args);
    const plane logp = plane_of(args->logp), dlogp = plane_of(args->dlogp);
    const step_token *t = policy_steps(ctx, &g, &logp);
    if (!t)
        return TG_ENOMEM;
    policy_gradients(&g, t, args->dloss, &dlogp);
    return TG_OK;
}

UNFUSED_IMPLS(policy_loss) = {UNFUSED_IMPL(policy_loss_forward, forward),
                              UNFUSED_IMPL(policy_loss_backward, backward), TG_IMPLS_END};
