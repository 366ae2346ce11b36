/* grpo_loss and selective_log_softmax: what the arguments must be. */
#include <inttypes.h>
#include <math.h>

#include "grpo_loss.h"

/* The arguments that all four operators have; NULL where one has none. */
typedef struct common {
    const char *op;
    const tg_tensor *logits, *target, *mask, *lse, *dlogits;
    double temperature;
} common;

/* A number for each token. */
static tg_status check_plane(const common *c, const char *name, const tg_tensor *t)
{
    return tg_expect_same_shape(c->op, name, t, "target", c->target);
}

static tg_status check_stat(const common *c, const char *name, const tg_tensor *t)
{
    return check_plane(c, name, t);
}

static tg_status check_common(const common *c)
{
    TG_TRY(tg_expect_ndim(c->op, "logits", c->logits, 3));
    TG_TRY(tg_expect_ndim(c->op, "target", c->target, 2));
    const int64_t *x = c->logits->shape, *y = c->target->shape;
    if (x[0] != y[0] || (x[1] != y[1] && x[1] - 1 != y[1])) {
        char found[128];
        return tg_fail(TG_EINVAL,
                       "%s: target is %s, expected [%" PRId64 ",%" PRId64 "] or one column less, "
                       "the first dimensions of logits",
                       c->op, tg_describe(c->target, found, sizeof found), x[0], x[1]);
    }
    TG_TRY(check_plane(c, "mask", c->mask));
    TG_TRY(check_stat(c, "lse", c->lse));
    TG_TRY(tg_expect_same_shape(c->op, "dlogits", c->dlogits, "logits", c->logits));
    TG_TRY(tg_expect_positive(c->op, "temperature", c->temperature));
    return tg_expect_indices_where(c->op, "target", c->target, x[2], NULL, c->mask);
}

tg_status tg_check_selective_log_softmax_forward(const tg_selective_log_softmax_forward_args *args)
{
    const common c = {"selective_log_softmax_forward",
                      args->logits,
                      args->target,
                      args->mask,
                      args->lse,
                      NULL,
                      args->temperature};
    TG_TRY(check_common(&c));
    return check_stat(&c, "logp", args->logp);
}

tg_status
tg_check_selective_log_softmax_backward(const tg_selective_log_softmax_backward_args *args)
{
    const common c = {"selective_log_softmax_backward",
                      args->logits,
                      args->target,
                      args->mask,
                      args->lse,
                      args->dlogits,
                      args->temperature};
    TG_TRY(check_common(&c));
    return check_stat(&c, "dlogp", args->dlogp);
}

/* ---- grpo_loss ---- */

static tg_status check_options(const char *op, const grpo_options *o)
{
    TG_TRY(tg_expect_i64(op, "max_completion_length", o->length, 0, INT64_MAX));
    const struct {
        const char *name;
        double value;
    } given[] = {{"eps_low", o->low},
                 {"eps_high", o->high},
                 {"vespo_k_pos", o->k_pos},
                 {"vespo_lambda_pos", o->lambda_pos},
                 {"vespo_k_neg", o->k_neg},
                 {"vespo_lambda_neg", o->lambda_neg},
                 {"num_items_in_batch", o->items}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        TG_TRY(tg_expect_f64(op, given[i].name, given[i].value, 0, FLT_MAX));
    TG_TRY(tg_expect_positive(op, "sapo_temperature_pos", o->sapo_pos));
    TG_TRY(tg_expect_positive(op, "sapo_temperature_neg", o->sapo_neg));
    const int bounded = o->delta != INFINITY, clips = o->type <= TG_LUSPO;
    if (bounded)
        TG_TRY(tg_expect_f64(op, "delta", o->delta, 0, FLT_MAX));
    if (bounded && !clips)
        return tg_fail(TG_EINVAL,
                       "%s: delta is %g, expected 0 with loss_type %" PRId64
                       ": only TG_GRPO to TG_LUSPO have it",
                       op, o->delta, o->type);
    if (o->sequence && !clips)
        return tg_fail(TG_EINVAL,
                       "%s: importance_sampling_level is TG_SEQUENCE_LEVEL (1), expected "
                       "TG_TOKEN_LEVEL (0) with loss_type %" PRId64
                       ": only TG_GRPO to TG_LUSPO have the other",
                       op, o->type);
    return TG_OK;
}

/* What the policy compares itself with. */
static tg_status check_policy(const common *c, const grpo_options *o, const tg_tensor *advantages,
                              const tg_tensor *old_logp, const tg_tensor *ref_logp,
                              const tg_tensor *is_ratio)
{
    const int64_t *shape = c->target->shape;
    TG_TRY(tg_expect_vector(c->op, "advantages", advantages, shape[0],
                            "the first dimension of target"));
    TG_TRY(check_plane(c, "old_logp", old_logp));
    TG_TRY(check_plane(c, "ref_logp", ref_logp));
    if (o->beta != 0 && !ref_logp)
        return tg_fail(TG_EINVAL, "%s: ref_logp is NULL, expected a tensor, since beta is %g",
                       c->op, o->beta);
    if (!is_ratio ||
        (is_ratio->ndim == 2 && is_ratio->shape[0] == shape[0] && is_ratio->shape[1] == 1))
        return TG_OK;
    if (is_ratio->ndim == 1)
        return tg_expect_vector(c->op, "is_ratio", is_ratio, shape[0],
                                "the first dimension of target");
    return check_plane(c, "is_ratio", is_ratio);
}

/* A loss or its gradient: one number, or one a token. */
static tg_status check_loss(const common *c, const char *name, const tg_tensor *t, int each)
{
    if (each)
        return check_plane(c, name, t);
    return tg_expect_numel(c->op, name, t, 1, "one for a reduced loss");
}

tg_status tg_check_grpo_loss_forward(const tg_grpo_loss_forward_args *args)
{
    const common c = {"grpo_loss_forward", args->logits, args->target,     args->mask,
                      args->lse,           NULL,         args->temperature};
    const grpo_options o = GRPO_OPTIONS(args);
    TG_TRY(check_options(c.op, &o));
    TG_TRY(check_common(&c));
    TG_TRY(check_policy(&c, &o, args->advantages, args->old_logp, args->ref_logp, args->is_ratio));
    TG_TRY(check_loss(&c, "loss", args->loss, o.each));
    TG_TRY(check_loss(&c, "kl", args->kl, o.each));
    if (args->kl && !args->ref_logp)
        return tg_fail(TG_EINVAL, "%s: ref_logp is NULL, expected a tensor, since kl is given",
                       c.op);
    return check_loss(&c, "clipped", args->clipped, o.each);
}

tg_status tg_check_grpo_loss_backward(const tg_grpo_loss_backward_args *args)
{
    const common c = {"grpo_loss_backward", args->logits,     args->target, args->mask, args->lse,
                      args->dlogits,        args->temperature};
    const grpo_options o = GRPO_OPTIONS(args);
    TG_TRY(check_options(c.op, &o));
    TG_TRY(check_common(&c));
    TG_TRY(check_policy(&c, &o, args->advantages, args->old_logp, args->ref_logp, args->is_ratio));
    return check_loss(&c, "dloss", args->dloss, o.each);
}
