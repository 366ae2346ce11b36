/* tvd.c - host of kernels/losses/tvd.asc.c. */
#include "kernels/losses/tvd.args.h"
#include "terms.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL_OF(terms, tvd, TVD);

ASCEND_KERNELS(tvd) = {
    [FORWARD] = TERMS_KERNEL("tvd_forward", tvd),
    [BACKWARD] = TERMS_KERNEL("tvd_backward", tvd),
    {0},
};

#define TVD_CALL(args)                                                       \
    .x = (args)->p, .y = (args)->q, .d = (args)->dp, .dloss = (args)->dloss, \
    .labels = (args)->labels, .ignore_index = (args)->ignore_index,          \
    .reduction = (args)->reduction, .term = 0.5

ASCEND_OPERATOR(tvd_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(tvd_backward, TG_TAKES_FLOATS);

tg_status ascend_tvd_forward(tg_ctx *ctx, const tg_tvd_forward_args *args)
{
    const terms_call call = {TVD_CALL(args), .loss = args->loss};
    return ascend_terms(ctx, &ascend_ub_tvd[FORWARD], &tvd_kernel, &call);
}

tg_status ascend_tvd_backward(tg_ctx *ctx, const tg_tvd_backward_args *args)
{
    const terms_call call = {TVD_CALL(args)};
    return ascend_terms(ctx, &ascend_ub_tvd[BACKWARD], &tvd_kernel, &call);
}
