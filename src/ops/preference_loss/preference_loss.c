/* preference_loss: what the shapes do not say of the arguments. */
#include <inttypes.h>
#include <math.h>

#include "preference_loss.h"

/* Where label_smoothing may lie. */
static tg_status check_smoothing(const char *op, const preference *p)
{
    if (p->type == TG_DPO_EXO_PAIR && !(p->smoothing > 0 && p->smoothing < 1))
        return tg_fail(TG_EINVAL,
                       "%s: label_smoothing is %g, expected more than 0 and less than 1, since "
                       "loss_type is exo_pair",
                       op, p->smoothing);
    if (p->type == TG_DPO_ROBUST)
        return tg_expect_below(op, "label_smoothing", p->smoothing, 0, 0.5);
    return tg_expect_f64(op, "label_smoothing", p->smoothing, 0, 1);
}

/* What belongs to TG_KTO, or to all others. */
static tg_status check_kind(const char *op, const preference *p)
{
    const int single = p->type == TG_KTO;
    if (p->logp->shape[0] != (single ? 1 : 2))
        return tg_fail(TG_EINVAL,
                       "%s: logp is of %" PRId64 " by %" PRId64 " sequences, expected %s", op,
                       p->logp->shape[0], p->count,
                       single ? "1 by N, since loss_type is kto"
                              : "2 by N, the chosen ones and the rejected ones");
    if (single && !p->preferred)
        return tg_fail(TG_EINVAL,
                       "%s: preferred is NULL, expected a tensor, since loss_type is kto", op);
    const struct {
        const char *name;
        const tg_tensor *given;
    } of_kto[] = {{"preferred", p->preferred}, {"kl", p->kl}};
    for (size_t i = 0; i < sizeof of_kto / sizeof *of_kto && !single; i++)
        if (of_kto[i].given)
            return tg_fail(TG_EINVAL, "%s: %s is given, expected NULL: only kto has it", op,
                           of_kto[i].name);
    if (p->type == TG_ORPO && p->ref_logp)
        return tg_fail(TG_EINVAL, "%s: ref_logp is given, expected NULL, since loss_type is orpo",
                       op);
    return TG_OK;
}

static tg_status check(const char *op, const preference *p)
{
    if (p->type == TG_DPO_SPPO_HARD)
        TG_TRY(tg_expect_positive(op, "beta", p->beta));
    TG_TRY(tg_expect_positive(op, "discopop_tau", p->tau));
    TG_TRY(check_smoothing(op, p));
    return check_kind(op, p);
}

tg_status tg_check_preference_loss_forward(const tg_preference_loss_forward_args *args)
{
    return check("preference_loss_forward", &PREFERENCE_OF(args));
}

tg_status tg_check_preference_loss_backward(const tg_preference_loss_backward_args *args)
{
    return check("preference_loss_backward", &PREFERENCE_OF(args));
}
