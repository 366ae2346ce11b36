/* jsd.c - host of kernels/losses/jsd.asc.c. */
#include "kernels/losses/jsd.args.h"
#include "terms.h"

enum { FORWARD, BACKWARD };

ASCEND_KERNEL_OF(terms, jsd, JSD);

ASCEND_KERNELS(jsd) = {
    [FORWARD] = TERMS_KERNEL("jsd_forward", jsd),
    [BACKWARD] = TERMS_KERNEL("jsd_backward", jsd),
    {0},
};

/* A mixture's beta is kept from 0, where log(M/P) would be that of 0 beside a probability of 0. */
static double inner(double beta)
{
    const double least = 0x1p-24;
    return beta < least ? least : beta > 1 - least ? 1 - least : beta;
}

/* Weights of which none is small: kernels/losses/mixture_middle.h. */
static int64_t variant_of(double beta)
{
    const double least = 1.0 / 16;
    if (beta == 0 || beta == 1)
        return beta == 0 ? JSD_FORWARD : JSD_REVERSE;
    return beta >= least && beta <= 1 - least ? JSD_MIDDLE : JSD_MIXTURE;
}

/* term: JSD_MIDDLE's have the other sign. */
#define JSD_CALL(args)                                                                         \
    .x = (args)->student, .y = (args)->teacher, .d = (args)->dstudent, .dloss = (args)->dloss, \
    .labels = (args)->labels, .ignore_index = (args)->ignore_index, .reduction = TG_BATCHMEAN, \
    .term = variant_of((args)->beta) == JSD_MIDDLE ? -1 : 1, .parameter = inner((args)->beta), \
    .variant = variant_of((args)->beta),                                                       \
    .options = (args)->beta == 0 || (args)->beta == 1 ? 0 : JSD_IS_MIXTURE

ASCEND_OPERATOR(jsd_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(jsd_backward, TG_TAKES_FLOATS);

tg_status ascend_jsd_forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    const terms_call call = {JSD_CALL(args), .loss = args->loss};
    return ascend_terms(ctx, &ascend_ub_jsd[FORWARD], &jsd_kernel, &call);
}

tg_status ascend_jsd_backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    const terms_call call = {JSD_CALL(args)};
    return ascend_terms(ctx, &ascend_ub_jsd[BACKWARD], &jsd_kernel, &call);
}
