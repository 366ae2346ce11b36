/* What all implementations of grpo_loss and selective_log_softmax share: how they see their
 * tensors, the options, and, in grpo_loss_shared.c, the definition of all loss types.
 */
#ifndef TG_GRPO_LOSS_H
#define TG_GRPO_LOSS_H

#include "core/services.h"
#include "tigon/options.h"

/* Logits or their gradient: position (b, l) begins at element b * by_batch + l * by_row. */
typedef struct grpo_logits {
    char *data;
    int type;
    int64_t batch, rows, n; /* rows: positions of a sequence, with the last one that has no token */
    int64_t by_batch, by_row;
} grpo_logits;

static inline grpo_logits grpo_logits_of(const tg_tensor *t)
{
    return (grpo_logits){tg_data(t),  tg_type_of(t),   t->shape[0],    t->shape[1],
                         t->shape[2], tg_stride(t, 0), tg_stride(t, 1)};
}

static inline int64_t grpo_row(const grpo_logits *x, int64_t b, int64_t l)
{
    return b * x->by_batch + l * x->by_row;
}

/* One number a token; one a sequence, or one for all, where strides are 0. No data: not given. */
typedef struct grpo_plane {
    void *data;
    int type;
    int64_t by_batch, by_token;
} grpo_plane;

static inline grpo_plane grpo_plane_of(const tg_tensor *t)
{
    if (!t)
        return (grpo_plane){0};
    const int one = tg_numel(t) == 1;
    return (grpo_plane){tg_data(t), tg_type_of(t), one ? 0 : tg_stride(t, 0),
                        t->ndim < 2 || t->shape[1] == 1 ? 0 : 1};
}

/* Most numbers here are f32: those need no call. */
static inline double grpo_get(const grpo_plane *p, int64_t b, int64_t l, double otherwise)
{
    const int64_t i = b * p->by_batch + l * p->by_token;
    if (!p->data)
        return otherwise;
    return p->type == TG_F32 ? ((const float *)p->data)[i] : tg_get(p->data, p->type, i);
}

static inline void grpo_put(const grpo_plane *p, int64_t b, int64_t l, double value)
{
    const int64_t i = b * p->by_batch + l * p->by_token;
    if (p->data && p->type == TG_F32)
        ((float *)p->data)[i] = (float)value;
    else if (p->data)
        tg_set(p->data, p->type, i, value);
}

static inline int grpo_kept(const grpo_plane *mask, int64_t b, int64_t l)
{
    return !mask->data ||
           ((const int64_t *)mask->data)[b * mask->by_batch + l * mask->by_token] != 0;
}

/* The class of a token that is kept. */
static inline int64_t grpo_class(const grpo_plane *target, int64_t b, int64_t l)
{
    return ((const int64_t *)target->data)[b * target->by_batch + l * target->by_token];
}

/* One call of either direction. */
typedef struct grpo {
    tg_grpo_options o;
    int64_t batch, length;
    double kept; /* tokens, once they are counted */
    grpo_plane advantages, old_logp, ref_logp, mask, ratio_mask, is_ratio;
} grpo;

/* tokens: a tensor of their shape. */
grpo grpo_with(tg_grpo_options o, const tg_tensor *tokens, const tg_tensor *advantages,
               const tg_tensor *old_logp, const tg_tensor *ref_logp, const tg_tensor *mask,
               const tg_tensor *ratio_mask, const tg_tensor *is_ratio);

#define GRPO_WITH(args, tokens, ratio_mask)                                       \
    grpo_with((tg_grpo_options)TG_GRPO_OPTIONS(args), tokens, (args)->advantages, \
              (args)->old_logp, (args)->ref_logp, (args)->mask, ratio_mask, (args)->is_ratio)
#define GRPO_OF(args) grpo_counted(GRPO_WITH(args, (args)->target, (args)->mask))
/* The tokens that ratios are made of: those of mask, if no others are given. */
#define GRPO_OF_POLICY(args) \
    GRPO_WITH(args, (args)->logp, (args)->ratio_mask ? (args)->ratio_mask : (args)->mask)

grpo grpo_counted(grpo g);

/* What the tokens of a sequence have in common. */
typedef struct grpo_sequence {
    int64_t b;
    double advantage;
    double kept;   /* tokens */
    double rated;  /* tokens that its ratio is made of */
    double rho;    /* at TG_SEQUENCE_LEVEL */
    double phi;    /* of TG_VESPO */
    double weight; /* of a token in the reduced loss */
} grpo_sequence;

typedef struct grpo_token {
    double loss, kl, clipped;
    double direct;     /* derivative of loss by logp where rho is a constant */
    double by_log_rho; /* derivative of loss by log rho */
} grpo_token;

/* 1 if rho or phi are the sequence's. */
int grpo_compares(const grpo *g);
/* Sets rho and phi, where they are the sequence's, and weight. Of the tokens that the ratio is made
 * of, moved is the sum of the logarithms of their ratios, clamped that of these and of an is_ratio
 * of each token, within their bounds. */
void grpo_weigh(const grpo *g, grpo_sequence *s, double moved, double clamped);
/* Token l, whose log-probability is lp. */
grpo_token grpo_token_of(const grpo *g, const grpo_sequence *s, int64_t l, double lp);

/* From log-probabilities to losses, or their means. */
void grpo_losses(const grpo *g, const grpo_plane *logp, const tg_tensor *loss, const tg_tensor *kl,
                 const tg_tensor *clipped);
/* dlogp may be logp. */
void grpo_gradients(const grpo *g, const grpo_plane *logp, const tg_tensor *dloss,
                    const grpo_plane *dlogp);

/* Both directions of policy_loss, of any implementation. */
tg_status policy_loss_forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args);
tg_status policy_loss_backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args);

#endif
