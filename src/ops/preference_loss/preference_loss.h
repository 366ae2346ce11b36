/* What the implementations of preference_loss share: the losses themselves, in double, in
 * preference_loss_shared.c. */
#ifndef TG_PREFERENCE_LOSS_H
#define TG_PREFERENCE_LOSS_H

#include "core/services.h"

/* One call of either direction. */
typedef struct preference {
    int64_t type, reduction, count; /* count: of losses */
    double beta, gamma, smoothing, tau;
    const tg_tensor *logp, *ref_logp, *preferred, *kl; /* but for logp NULL: not given */
} preference;

#define PREFERENCE_OF(args)                                                                      \
    (preference)                                                                                 \
    {                                                                                            \
        .type = (args)->loss_type, .reduction = (args)->reduction,                               \
        .count = (args)->logp->shape[1], .beta = (args)->beta, .gamma = (args)->gamma,           \
        .smoothing = (args)->label_smoothing, .tau = (args)->discopop_tau, .logp = (args)->logp, \
        .ref_logp = (args)->ref_logp, .preferred = (args)->preferred, .kl = (args)->kl,          \
    }

/* Of a pair of sequences, or of one. */
typedef struct preference_pair {
    double loss, margin;
    double by[2]; /* derivatives of the loss by a and b, log-probabilities less the reference's */
} preference_pair;

preference_pair preference_pair_of(const preference *p, int64_t i);

/* What a loss counts in the result. */
double preference_share(const preference *p);

/* Both directions, of any implementation. */
tg_status preference_loss_forward(tg_ctx *ctx, const tg_preference_loss_forward_args *args);
tg_status preference_loss_backward(tg_ctx *ctx, const tg_preference_loss_backward_args *args);

#endif
