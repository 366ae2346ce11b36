/* fused_linear_kl_div as an eager framework runs it: the whole matrix of logits by one product,
 * softmax_kl_div over it in elementary steps, and one product for each gradient. */
#include "linear.h"

/* The arguments of either direction. */
typedef struct flkl {
    const tg_tensor *x, *weight, *target, *bias, *labels, *dloss;
    tg_tensor *loss, *logits, *dx, *dweight, *dbias;
    int64_t reduction, ignore_index, accumulate;
    double temperature, eps;
} flkl;

#define FLKL(a, of_loss, of_logits, of_eps)                                                        \
    (flkl)                                                                                         \
    {                                                                                              \
        (a)->x, (a)->weight, (a)->target, (a)->bias, (a)->labels, (a)->dloss, of_loss, of_logits,  \
            (a)->dx, (a)->dweight, (a)->dbias, (a)->reduction, (a)->ignore_index, (a)->accumulate, \
            (a)->temperature, of_eps                                                               \
    }

/* What both directions of softmax_kl_div are given. */
#define KL_ARGS(f)                                                                    \
    .logits = eager_tensor(&of_logits, logits),                                       \
    .target = eager_tensor(&target, eager_rows((f)->target)),                         \
    .labels = eager_part(&labels, (f)->labels, 0, logits.rows), .dloss = (f)->dloss,  \
    .dlogits = dlogits, .reduction = (f)->reduction, .temperature = (f)->temperature, \
    .ignore_index = TG_VALUE((f)->ignore_index)

static tg_status divergence(tg_ctx *ctx, const flkl *f, mat logits, tg_tensor *dlogits)
{
    view of_logits, target, labels;
    if (f->loss)
        return CALL(ctx, softmax_kl_div_forward, KL_ARGS(f), .loss = f->loss,
                    .eps = TG_VALUE(f->eps));
    return dlogits ? CALL(ctx, softmax_kl_div_backward, KL_ARGS(f)) : TG_OK;
}

static tg_status run(tg_ctx *ctx, const flkl *f)
{
    eager e = eager_begin(ctx);
    const int gradients = f->dx || f->dweight || f->dbias;
    const mat logits = linear_outputs(&e, f->x, f->weight, f->bias, 1);
    const mat d = eager_new(&e, linear_gradient_type(f->x), logits.rows, logits.cols);
    view of_d;
    if (f->logits)
        eager_scalar(&e, EAGER_DIV, eager_rows(f->logits), logits, f->temperature);
    if (e.status)
        return eager_end(&e);
    TRY(divergence(ctx, f, logits, gradients ? eager_tensor(&of_d, d) : NULL));
    linear_gradients(&e, d, f->x, f->weight, f->dx, f->dweight, f->dbias, f->accumulate);
    return eager_end(&e);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_kl_div_forward_args *args)
{
    return run(ctx, &FLKL(args, args->loss, args->logits, args->eps));
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_kl_div_backward_args *args)
{
    return run(ctx, &FLKL(args, NULL, NULL, 0));
}

UNFUSED_IMPLS(fused_linear_kl_div) = {UNFUSED_IMPL(fused_linear_kl_div_forward, forward),
                                      UNFUSED_IMPL(fused_linear_kl_div_backward, backward),
                                      TG_IMPLS_END};
