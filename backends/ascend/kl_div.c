/* kl_div.c - host of kernels/losses/kl_div.asc.c. */
#include <float.h>

#include "kernels/losses/kl_div.args.h"
#include "terms.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL_OF(terms, kl_div, KL_DIV);

ASCEND_KERNELS(kl_div) = {
    [FORWARD] = TERMS_KERNEL("kl_div_forward", kl_div),
    [BACKWARD] = TERMS_KERNEL("kl_div_backward", kl_div),
    {0},
};

ASCEND_OPERATOR(kl_div_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(kl_div_backward, TG_TAKES_FLOATS);

tg_status ascend_kl_div_forward(tg_ctx *ctx, const tg_kl_div_forward_args *args)
{
    const terms_call call = {.x = args->y_pred,
                             .y = args->y_true,
                             .d = args->dy_pred,
                             .dloss = args->dloss,
                             .loss = args->loss,
                             .reduction = args->reduction,
                             .term = 1,
                             .variant = args->log_target       ? KL_DIV_LOGS
                                        : args->eps >= FLT_MIN ? KL_DIV_WEIGHTS
                                                               : KL_DIV_ANY_WEIGHTS,
                             .parameter = args->eps};
    return ascend_terms(ctx, &ascend_ub_kl_div[FORWARD], &kl_div_kernel, &call);
}

tg_status ascend_kl_div_backward(tg_ctx *ctx, const tg_kl_div_backward_args *args)
{
    const terms_call call = {.y = args->y_true,
                             .d = args->dy_pred,
                             .dloss = args->dloss,
                             .reduction = args->reduction,
                             .term = 1,
                             .variant = args->log_target ? KL_DIV_LOGS : KL_DIV_WEIGHTS};
    return ascend_terms(ctx, &ascend_ub_kl_div[BACKWARD], &kl_div_kernel, &call);
}
