/* grpo_loss as an eager framework's user writes it: after log_softmax and a gather the steps of
 * policy.c. */
#include "policy.h"
#include "selective_log_softmax.h"

/* All tokens up to their losses and derivatives. */
static step_token *loss_steps(softmax_steps *s, const grpo *g, mat logp)
{
    const plane of_logp = {softmax_at(logp), TG_F32, g->length, 1};
    step_token *t = s->e.status ? NULL : policy_steps(s->e.ctx, g, &of_logp);
    if (!t && !s->e.status)
        s->e.status = TG_ENOMEM;
    return t;
}

static tg_status loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    const grpo g = GRPO_OF(args);
    softmax_steps s = softmax_begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = softmax_column(&s), lse = softmax_column(&s);
    softmax_forward(&s, logp, lse);
    const step_token *t = loss_steps(&s, &g, logp);
    if (s.e.status)
        return eager_end(&s.e);
    policy_losses(&g, t, args->loss, args->kl, args->clipped);
    softmax_write(&s, args->lse, lse);
    return eager_end(&s.e);
}

static tg_status loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    const grpo g = GRPO_OF(args);
    softmax_steps s = softmax_begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = softmax_column(&s), lse = softmax_column(&s);
    softmax_read(&s, lse, args->lse);
    for (int64_t r = 0; r < s.rows && !s.e.status; r++)
        if (softmax_kept(&s, r))
            softmax_at(logp)[r] =
                softmax_at(s.x)[r * s.classes + softmax_target(&s, r)] - softmax_at(lse)[r];
    const step_token *t = loss_steps(&s, &g, logp);
    if (s.e.status)
        return eager_end(&s.e);
    const plane dlogp = {softmax_at(logp), TG_F32, g.length, 1};
    policy_gradients(&g, t, args->dloss, &dlogp);
    softmax_gradient(&s, lse, logp, args->dlogits);
    return eager_end(&s.e);
}

UNFUSED_IMPLS(grpo_loss) = {UNFUSED_IMPL(grpo_loss_forward, loss_forward),
                            UNFUSED_IMPL(grpo_loss_backward, loss_backward), TG_IMPLS_END};
