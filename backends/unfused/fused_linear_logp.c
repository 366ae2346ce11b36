/* fused_linear_logp as an eager framework runs it: the whole matrix of logits by one product,
 * softmax_logp over it in elementary steps, and one product for each gradient. */
#include "linear.h"

/* What both directions of softmax_logp are given. */
#define LOGP_ARGS(a, all)                                                                         \
    .logits = eager_tensor(&of_logits, all),                                                      \
    .target = eager_part(&target, (a)->target, 0, (all).rows), .selected_ids = (a)->selected_ids, \
    .ignore_index = TG_VALUE((a)->ignore_index), .softcap = (a)->softcap,                         \
    .temperature = (a)->temperature

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_logp_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat logits = linear_outputs(&e, a->x, a->weight, a->bias, a->logit_scale);
    view of_logits, target;
    if (a->logits)
        eager_put(&e, eager_rows(a->logits), logits, 0);
    if (e.status)
        return eager_end(&e);
    TRY(CALL(ctx, softmax_logp_forward, LOGP_ARGS(a, logits), .logp = a->logp, .lse = a->lse,
             .entropy = a->entropy, .selected = a->selected, .mean_logits = a->mean_logits,
             .log_sum_sq_probs = a->log_sum_sq_probs, .predicted = a->predicted));
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_logp_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat logits = linear_outputs(&e, a->x, a->weight, a->bias, a->logit_scale);
    const mat d = eager_new(&e, linear_gradient_type(a->x), logits.rows, logits.cols);
    view of_logits, of_d, target;
    if (e.status)
        return eager_end(&e);
    TRY(CALL(ctx, softmax_logp_backward, LOGP_ARGS(a, logits), .lse = a->lse, .entropy = a->entropy,
             .dlogp = a->dlogp, .dentropy = a->dentropy, .dselected = a->dselected,
             .dlogits = eager_tensor(&of_d, d)));
    if (a->logit_scale != 1)
        eager_scalar(&e, EAGER_MUL, d, d, a->logit_scale);
    linear_gradients(&e, d, a->x, a->weight, a->dx, a->dweight, a->dbias, a->accumulate);
    return eager_end(&e);
}

/* All classes: what it stands for knows no slices. */
static int accepts_forward(const tg_fused_linear_logp_forward_args *args)
{
    return !args->vocab_size;
}

static int accepts_backward(const tg_fused_linear_logp_backward_args *args)
{
    return !args->vocab_size;
}

UNFUSED_IMPLS(fused_linear_logp) = {
    UNFUSED_IMPL_IF(fused_linear_logp_forward, accepts_forward, forward),
    UNFUSED_IMPL_IF(fused_linear_logp_backward, accepts_backward, backward), TG_IMPLS_END};
