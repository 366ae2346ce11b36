/* grpo_loss and selective_log_softmax, plain and in double: the definition. The losses themselves,
 * one number a token, are in grpo_loss_shared.c. */
#include <math.h>

#include "grpo_loss.h"

/* What log-probabilities are made of. */
typedef struct source {
    grpo_logits logits;
    grpo_plane target, mask;
    int64_t batch, length;
    double temperature;
} source;

static source source_of(const tg_tensor *logits, const tg_tensor *target, const tg_tensor *mask,
                        double temperature)
{
    return (source){grpo_logits_of(logits), grpo_plane_of(target), grpo_plane_of(mask),
                    target->shape[0],       target->shape[1],      temperature};
}

static double logit(const source *s, int64_t b, int64_t l, int64_t i)
{
    return tg_get(s->logits.data, s->logits.type, grpo_row(&s->logits, b, l) + i) / s->temperature;
}

static int64_t target_of(const source *s, int64_t b, int64_t l)
{
    return grpo_class(&s->target, b, l);
}

static double largest(const source *s, int64_t b, int64_t l)
{
    double max = logit(s, b, l, 0);
    for (int64_t i = 1; i < s->logits.n; i++)
        max = fmax(max, logit(s, b, l, i));
    return max;
}

/* sum of exp(x_i - max) over all i but one */
static double sum_of_others(const source *s, int64_t b, int64_t l, double max, int64_t but)
{
    double sum = 0;
    for (int64_t i = 0; i < s->logits.n; i++)
        sum += i == but ? 0 : exp(logit(s, b, l, i) - max);
    return sum;
}

/* lse = max + log_sum. The two stay apart, so that a common offset of the
 * logits costs no digits. */
typedef struct row_log {
    double max, log_sum;
    double logp; /* of the target */
} row_log;

static row_log log_row(const source *s, int64_t b, int64_t l)
{
    const int64_t y = target_of(s, b, l);
    const double x_y = logit(s, b, l, y), max = largest(s, b, l);
    const double others = sum_of_others(s, b, l, max, y), log_sum = log(others + exp(x_y - max));
    /* the same, but where all are -inf: log1p keeps digits */
    const int likeliest = x_y == max && max > -INFINITY;
    return (row_log){max, log_sum, likeliest ? -log1p(others) : x_y - max - log_sum};
}

static void log_softmax(const source *s, const grpo_plane *logp, const grpo_plane *lse)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t l = 0; l < s->length; l++) {
            row_log r = {0};
            if (grpo_kept(&s->mask, b, l))
                r = log_row(s, b, l);
            grpo_put(logp, b, l, r.logp);
            grpo_put(lse, b, l, r.max > -INFINITY ? r.max + r.log_sum : r.max);
        }
}

/* Element i of dlogits depends on element i of logits alone, so both may be one buffer. */
static void gradient_row(const source *s, int64_t b, int64_t l, double dlogp,
                         const grpo_logits *dlogits)
{
    const int64_t y = target_of(s, b, l);
    const row_log r = log_row(s, b, l); /* lse saves fast implementations that */
    for (int64_t i = 0; i < s->logits.n; i++) {
        const double p = exp(logit(s, b, l, i) - r.max - r.log_sum);
        tg_set(dlogits->data, dlogits->type, grpo_row(dlogits, b, l) + i,
               dlogp * (i == y ? -expm1(r.logp) : -p) / s->temperature);
    }
}

static void gradient(const source *s, const grpo_plane *dlogp, const tg_tensor *dlogits)
{
    const grpo_logits out = grpo_logits_of(dlogits);
    for (int64_t b = 0; b < out.batch; b++)
        for (int64_t l = 0; l < out.rows; l++) {
            if (l < s->length && grpo_kept(&s->mask, b, l))
                gradient_row(s, b, l, grpo_get(dlogp, b, l, 0), &out);
            else
                for (int64_t i = 0; i < out.n; i++)
                    tg_set(out.data, out.type, grpo_row(&out, b, l) + i, 0);
        }
}

static tg_status select_forward(tg_ctx *ctx, const tg_selective_log_softmax_forward_args *args)
{
    (void)ctx;
    const source s = source_of(args->logits, args->target, args->mask, args->temperature);
    const grpo_plane logp = grpo_plane_of(args->logp), lse = grpo_plane_of(args->lse);
    log_softmax(&s, &logp, &lse);
    return TG_OK;
}

static tg_status select_backward(tg_ctx *ctx, const tg_selective_log_softmax_backward_args *args)
{
    (void)ctx;
    const source s = source_of(args->logits, args->target, args->mask, args->temperature);
    const grpo_plane dlogp = grpo_plane_of(args->dlogp);
    gradient(&s, &dlogp, args->dlogits);
    return TG_OK;
}

/* Room for a number a token; no data without memory. */
static grpo_plane room(tg_ctx *ctx, const source *s)
{
    const size_t bytes = (size_t)(s->batch * s->length) * sizeof(double) + 1;
    return (grpo_plane){tg_workspace(ctx, bytes), TG_F64, s->length, 1};
}

static tg_status loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    const source s = source_of(args->logits, args->target, args->mask, args->temperature);
    const grpo_plane logp = room(ctx, &s), lse = grpo_plane_of(args->lse);
    if (!logp.data)
        return TG_ENOMEM;
    const grpo g = GRPO_OF(args);
    log_softmax(&s, &logp, &lse);
    grpo_losses(&g, &logp, args->loss, args->kl, args->clipped);
    return TG_OK;
}

static tg_status loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    const source s = source_of(args->logits, args->target, args->mask, args->temperature);
    const grpo_plane logp = room(ctx, &s);
    if (!logp.data)
        return TG_ENOMEM;
    const grpo g = GRPO_OF(args);
    const grpo_plane none = {0};
    log_softmax(&s, &logp, &none);
    grpo_gradients(&g, &logp, args->dloss, &logp);
    gradient(&s, &logp, args->dlogits);
    return TG_OK;
}

TG_REF_IMPLS(grpo_loss) = {TG_REF_IMPL(selective_log_softmax_forward, select_forward),
                           TG_REF_IMPL(selective_log_softmax_backward, select_backward),
                           TG_REF_IMPL(grpo_loss_forward, loss_forward),
                           TG_REF_IMPL(grpo_loss_backward, loss_backward),
                           TG_REF_IMPL(policy_loss_forward, policy_loss_forward),
                           TG_REF_IMPL(policy_loss_backward, policy_loss_backward),
                           TG_IMPLS_END};
