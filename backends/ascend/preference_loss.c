/* preference_loss.c - host of kernels/losses/preference_loss.asc.c: which formula a loss is, and
 * with which numbers. Losses that are reduced are added up by a second launch. */
#include <math.h>

#include "ascend.h"
#include "kernels/losses/preference_loss.args.h"

ASCEND_KERNEL(preference_loss, PREFERENCE_LOSS);

ASCEND_KERNELS(preference_loss) = {
    {.name = "preference_loss.flat",
     ASCEND_BUFFERS(preference_loss),
     .flat = 1,
     .column_multiple = 64,
     .max_rows = 1,
     .max_columns = 1024},
    {0},
};

ASCEND_OPERATOR(preference_loss_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(preference_loss_backward, TG_TAKES_FLOATS);

/* A call of either direction. */
typedef struct preference_call {
    const tg_tensor *logp, *ref_logp, *preferred, *kl, *dloss, *loss, *rewards, *margin, *dlogp;
    int64_t type, reduction;
    double beta, gamma, smoothing, tau;
} preference_call;

#define PREFERENCE_CALL(a)                                                                       \
    .logp = (a)->logp, .ref_logp = (a)->ref_logp, .preferred = (a)->preferred, .kl = (a)->kl,    \
    .type = (a)->loss_type, .reduction = (a)->reduction, .beta = (a)->beta, .gamma = (a)->gamma, \
    .smoothing = (a)->label_smoothing, .tau = (a)->discopop_tau

typedef struct formula {
    int64_t which;
    double p, q, r;
} formula;

static formula formula_of(const preference_call *c)
{
    const double e = c->smoothing, scale = 1 / (1 - 2 * e);
    const formula formulas[] = {
        [TG_DPO_SIGMOID] = {PREFERENCE_LOGARITHMS, e - 1, -e, 0},
        [TG_DPO_HINGE] = {PREFERENCE_HINGE, 0, 0, 0},
        [TG_DPO_EXO_PAIR] = {PREFERENCE_DIVERGENCE, log1p(-e), log(e), 0},
        [TG_DPO_NCA_PAIR] = {PREFERENCE_EACH, -1, -0.5, -0.5},
        [TG_DPO_ROBUST] = {PREFERENCE_LOGARITHMS, -scale * (1 - e), scale * e, 0},
        [TG_DPO_BCO_PAIR] = {PREFERENCE_EACH, -1, 0, -1},
        [TG_DPO_SPPO_HARD] = {PREFERENCE_SQUARES, 0.5 / c->beta, 0, 0},
        [TG_DPO_APO_ZERO] = {PREFERENCE_ZERO, 0, 0, 0},
        [TG_DPO_APO_DOWN] = {PREFERENCE_DOWN, 0, 0, 0},
        [TG_DPO_DISCOPOP] = {PREFERENCE_DISCOPOP, 1 / c->tau, 0, 0},
        [TG_ORPO] = {PREFERENCE_ODDS, 0, 0, 0},
        [TG_KTO] = {PREFERENCE_ONE, 0, 0, 0},
    };
    return formulas[c->type];
}

/* One number for each loss, of which there may be one alone. */
static int is_each(const tg_tensor *t, int64_t losses)
{
    return t && tg_numel(t) == losses;
}

static tg_status run(tg_ctx *ctx, const preference_call *c)
{
    const int64_t losses = c->logp->shape[1];
    const int sums = c->loss && c->reduction != TG_NONE;
    const formula f = formula_of(c);
    ascend_partial_sums parts;
    ascend_plan plan;
    ASCEND_TRY(
        ascend_begin(&plan, ascend_ub_preference_loss, c->logp, losses > 0, losses, TG_F32, 0));
    ASCEND_TRY(ascend_choose(&plan));
    ASCEND_TRY(ascend_partials(ctx, sums ? plan.layout.blocks : 0, 1, &parts));
    ASCEND_TRY(ASCEND_LAUNCH(
        ctx, &plan, preference_loss, .logp = c->logp, .ref = c->ref_logp, .preferred = c->preferred,
        .kl = c->kl, .dloss = c->dloss, .loss = sums ? NULL : c->loss, .sums = &parts.memory,
        .rewards = c->rewards, .margin = c->margin, .dlogp = c->dlogp, .type = ascend_any(c->logp),
        .ref_type = ascend_any(c->ref_logp), .sequences = c->logp->shape[0], .formula = f.which,
        .kl_each = is_each(c->kl, losses), .dloss_each = is_each(c->dloss, losses),
        .sums_stride = parts.stride, .beta = c->beta, .gamma = c->gamma, .p = f.p, .q = f.q,
        .r = f.r, .share = c->reduction == TG_MEAN ? 1 / (double)losses : 1));
    return sums ? ascend_sum_partials(ctx, &parts, c->loss, 0) : TG_OK;
}

tg_status ascend_preference_loss_forward(tg_ctx *ctx, const tg_preference_loss_forward_args *args)
{
    return run(ctx, &(preference_call){PREFERENCE_CALL(args), .loss = args->loss,
                                       .rewards = args->rewards, .margin = args->margin});
}

tg_status ascend_preference_loss_backward(tg_ctx *ctx, const tg_preference_loss_backward_args *args)
{
    return run(
        ctx, &(preference_call){PREFERENCE_CALL(args), .dloss = args->dloss, .dlogp = args->dlogp});
}
