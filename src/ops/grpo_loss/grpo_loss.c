/* grpo_loss, policy_loss and selective_log_softmax: what their shapes do not say of the
 * arguments. */
#include <inttypes.h>
#include <math.h>

#include "grpo_loss.h"

/* The arguments that all operators of logits have. */
typedef struct common {
    const char *op;
    const tg_tensor *logits, *target, *mask;
    double temperature;
} common;

#define COMMON(a) (a)->logits, (a)->target, (a)->mask, (a)->temperature

static tg_status check_common(const common *c)
{
    const int64_t *x = c->logits->shape, *y = c->target->shape;
    if (x[1] > y[1] + 1)
        return tg_fail(TG_EINVAL,
                       "%s: logits has %" PRId64 " positions, expected %" PRId64
                       ", as target has, or one more",
                       c->op, x[1], y[1]);
    TG_TRY(tg_expect_positive(c->op, "temperature", c->temperature));
    return tg_expect_indices_where(c->op, "target", c->target, x[2], NULL, c->mask);
}

tg_status tg_check_selective_log_softmax_forward(const tg_selective_log_softmax_forward_args *args)
{
    return check_common(&(common){"selective_log_softmax_forward", COMMON(args)});
}

tg_status
tg_check_selective_log_softmax_backward(const tg_selective_log_softmax_backward_args *args)
{
    return check_common(&(common){"selective_log_softmax_backward", COMMON(args)});
}

/* ---- grpo_loss ---- */

static tg_status check_options(const char *op, const tg_grpo_options *o)
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

static tg_status check_reference(const char *op, const tg_grpo_options *o,
                                 const tg_tensor *ref_logp, const tg_tensor *kl)
{
    TG_TRY(check_options(op, o));
    if (o->beta != 0 && !ref_logp)
        return tg_fail(TG_EINVAL, "%s: ref_logp is NULL, expected a tensor, since beta is %g", op,
                       o->beta);
    if (kl && !ref_logp)
        return tg_fail(TG_EINVAL, "%s: ref_logp is NULL, expected a tensor, since kl is given", op);
    return TG_OK;
}

tg_status tg_check_grpo_loss_forward(const tg_grpo_loss_forward_args *args)
{
    const common c = {"grpo_loss_forward", COMMON(args)};
    const tg_grpo_options o = TG_GRPO_OPTIONS(args);
    TG_TRY(check_reference(c.op, &o, args->ref_logp, args->kl));
    return check_common(&c);
}

tg_status tg_check_grpo_loss_backward(const tg_grpo_loss_backward_args *args)
{
    const common c = {"grpo_loss_backward", COMMON(args)};
    const tg_grpo_options o = TG_GRPO_OPTIONS(args);
    TG_TRY(check_reference(c.op, &o, args->ref_logp, NULL));
    return check_common(&c);
}

tg_status tg_check_policy_loss_forward(const tg_policy_loss_forward_args *args)
{
    const tg_grpo_options o = TG_GRPO_OPTIONS(args);
    return check_reference("policy_loss_forward", &o, args->ref_logp, args->kl);
}

tg_status tg_check_policy_loss_backward(const tg_policy_loss_backward_args *args)
{
    const tg_grpo_options o = TG_GRPO_OPTIONS(args);
    return check_reference("policy_loss_backward", &o, args->ref_logp, NULL);
}
