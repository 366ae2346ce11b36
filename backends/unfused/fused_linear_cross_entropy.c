/* fused_linear_cross_entropy as an eager framework runs it: the whole matrix of logits by one
 * product, cross_entropy over it in elementary steps, and one product for each gradient. */
#include "linear.h"

/* logits = (x weight^T + bias) / temperature, as which cross_entropy takes them with its softcap
 * divided as well. */
static mat project(eager *e, const tg_tensor *x, const tg_tensor *weight, const tg_tensor *bias,
                   double temperature)
{
    const mat logits = linear_logits(e, x, weight);
    if (bias)
        eager_binary(e, EAGER_ADD, logits, logits, eager_vector(bias));
    if (temperature != 1)
        eager_scalar(e, EAGER_DIV, logits, logits, temperature);
    return logits;
}

/* Of the argument struct of either direction. */
#define ADD_GRADIENTS(e, dlogits, a)                                                  \
    add_gradients(e, dlogits, (a)->x, (a)->weight, (a)->dx, (a)->dweight, (a)->dbias, \
                  (a)->temperature, (a)->accumulate)

static void add_gradients(eager *e, mat dlogits, const tg_tensor *x, const tg_tensor *weight,
                          const tg_tensor *dx, const tg_tensor *dweight, const tg_tensor *dbias,
                          double temperature, int64_t accumulate)
{
    if (temperature != 1)
        eager_scalar(e, EAGER_DIV, dlogits, dlogits, temperature);
    linear_gradients(e, dlogits, x, weight, dx, dweight, dbias, accumulate);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *a)
{
    eager e = eager_begin(ctx);
    const int gradients = a->dx || a->dweight || a->dbias;
    const mat logits = project(&e, a->x, a->weight, a->bias, a->temperature);
    const mat d =
        gradients ? eager_new(&e, linear_gradient_type(a->x), logits.rows, logits.cols) : (mat){0};
    if (a->logits)
        eager_put(&e, eager_rows(a->logits), logits, 0);
    if (e.status)
        return eager_end(&e);
    view of_logits, of_d, target, lse, predicted;
    TRY(CALL(ctx, cross_entropy_forward, .logits = eager_tensor(&of_logits, logits),
             .target = eager_part(&target, a->target, 0, logits.rows),
             .class_weight = a->class_weight, .dloss = a->dloss, .loss = a->loss,
             .z_loss = a->z_loss, .lse = eager_part(&lse, a->lse, 0, logits.rows),
             .accuracy = a->accuracy,
             .predicted = eager_part(&predicted, a->predicted, 0, logits.rows),
             .dlogits = gradients ? eager_tensor(&of_d, d) : NULL,
             .ignore_index = TG_VALUE(a->ignore_index), .reduction = a->reduction,
             .label_smoothing = a->label_smoothing, .lse_square_scale = a->lse_square_scale,
             .softcap = a->softcap / a->temperature, .token_scaling = a->token_scaling));
    ADD_GRADIENTS(&e, d, a);
    return eager_end(&e);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *a)
{
    eager e = eager_begin(ctx);
    const mat logits = project(&e, a->x, a->weight, a->bias, a->temperature);
    const mat d = eager_new(&e, linear_gradient_type(a->x), logits.rows, logits.cols);
    if (e.status)
        return eager_end(&e);
    view of_logits, of_d, target, lse;
    TRY(CALL(ctx, cross_entropy_backward, .logits = eager_tensor(&of_logits, logits),
             .target = eager_part(&target, a->target, 0, logits.rows),
             .class_weight = a->class_weight, .lse = eager_part(&lse, a->lse, 0, logits.rows),
             .dloss = a->dloss, .dlogits = eager_tensor(&of_d, d),
             .ignore_index = TG_VALUE(a->ignore_index), .reduction = a->reduction,
             .label_smoothing = a->label_smoothing, .lse_square_scale = a->lse_square_scale,
             .softcap = a->softcap / a->temperature, .token_scaling = a->token_scaling));
    ADD_GRADIENTS(&e, d, a);
    return eager_end(&e);
}

/* All classes: what it stands for knows no slices. */
static int accepts_forward(const tg_fused_linear_cross_entropy_forward_args *args)
{
    return !args->vocab_size;
}

static int accepts_backward(const tg_fused_linear_cross_entropy_backward_args *args)
{
    return !args->vocab_size;
}

UNFUSED_IMPLS(fused_linear_cross_entropy) = {
    UNFUSED_IMPL_IF(fused_linear_cross_entropy_forward, accepts_forward, forward),
    UNFUSED_IMPL_IF(fused_linear_cross_entropy_backward, accepts_backward, backward), TG_IMPLS_END};
