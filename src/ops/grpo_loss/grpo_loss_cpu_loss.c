/* grpo_loss on the CPU: selective_log_softmax through dispatch, and what grpo_loss_shared.c makes
 * of one number a token. */
#include "grpo_loss.h"
#include "rows/exponentials.h"

/* logp in f32, and its view for the parts. */
static tg_status make_room(tg_ctx *ctx, const tg_tensor *target, tg_tensor *logp)
{
    *logp = tg_tensor_of(NULL, TG_F32, 2, target->shape);
    logp->data = tg_workspace(ctx, (size_t)tg_numel(target) * sizeof(float) + 1);
    return logp->data ? TG_OK : TG_ENOMEM;
}

static tg_status loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    tg_tensor logp;
    TG_TRY(make_room(ctx, args->target, &logp));
    TG_TRY(tg_selective_log_softmax_forward(
        ctx, &(tg_selective_log_softmax_forward_args){.logits = args->logits,
                                                      .target = args->target,
                                                      .mask = args->mask,
                                                      .logp = &logp,
                                                      .lse = args->lse,
                                                      .temperature = args->temperature}));
    const grpo g = GRPO_OF(args);
    const grpo_plane each = grpo_plane_of(&logp);
    grpo_losses(&g, &each, args->loss, args->kl, args->clipped);
    return TG_OK;
}

/* logp by the saved lse */
static double saved_logp(const tg_grpo_loss_backward_args *args, int64_t b, int64_t l, double lse)
{
    const grpo_logits x = grpo_logits_of(args->logits);
    const grpo_plane target = grpo_plane_of(args->target);
    const int64_t at = grpo_row(&x, b, l) + grpo_class(&target, b, l);
    return tg_get(x.data, x.type, at) / args->temperature - lse;
}

/* logp again: by the saved lse, or, where its rounding would tell, by another forward of those
 * tokens, which is the mask `again`. */
static tg_status gather(tg_ctx *ctx, const grpo *g, const tg_grpo_loss_backward_args *args,
                        tg_tensor *logp)
{
    const grpo_plane lses = grpo_plane_of(args->lse), each = grpo_plane_of(logp);
    const int64_t rows = g->batch * g->length, classes = grpo_logits_of(args->logits).n;
    int64_t *again = tg_workspace(ctx, (size_t)rows * sizeof *again + 1), any = 0;
    if (!again)
        return TG_ENOMEM;
    tg_tensor mask = tg_tensor_of(again, TG_I64, 2, args->target->shape);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t b = i / g->length, l = i % g->length;
        const double lse = grpo_get(&lses, b, l, 0);
        again[i] = 0;
        if (!grpo_kept(&g->mask, b, l))
            continue;
        const double q = -expm1(saved_logp(args, b, l, lse));
        again[i] = !exps_trusts_lse(lse, 1 - q, q, classes);
        any |= again[i];
    }
    if (any)
        TG_TRY(tg_selective_log_softmax_forward(
            ctx, &(tg_selective_log_softmax_forward_args){.logits = args->logits,
                                                          .target = args->target,
                                                          .mask = &mask,
                                                          .logp = logp,
                                                          .temperature = args->temperature}));
    for (int64_t i = 0; i < rows; i++) {
        const int64_t b = i / g->length, l = i % g->length;
        if (grpo_kept(&g->mask, b, l) && !again[i])
            grpo_put(&each, b, l, saved_logp(args, b, l, grpo_get(&lses, b, l, 0)));
    }
    return TG_OK;
}

static tg_status loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    tg_tensor logp;
    TG_TRY(make_room(ctx, args->target, &logp));
    const grpo g = GRPO_OF(args);
    const grpo_plane each = grpo_plane_of(&logp);
    TG_TRY(gather(ctx, &g, args, &logp));
    grpo_gradients(&g, &each, args->dloss, &each);
    return tg_selective_log_softmax_backward(
        ctx, &(tg_selective_log_softmax_backward_args){.logits = args->logits,
                                                       .target = args->target,
                                                       .mask = args->mask,
                                                       .lse = args->lse,
                                                       .dlogp = &logp,
                                                       .dlogits = args->dlogits,
                                                       .temperature = args->temperature});
}

TG_CPU_IMPLS(grpo_loss_loss) = {TG_CPU_IMPL(grpo_loss_forward, loss_forward),
                                TG_CPU_IMPL(grpo_loss_backward, loss_backward), TG_IMPLS_END};
