/* From log-probabilities to losses, and back to their gradients: the definition of all loss
 * types, in double. Beside V logits a token it costs nothing; policy_loss, which has no logits, has
 * a faster one (grpo_loss_cpu.h).
 */
#include <float.h>
#include <math.h>

#include "grpo_loss.h"

grpo grpo_with(tg_grpo_options o, const tg_tensor *tokens, const tg_tensor *advantages,
               const tg_tensor *old_logp, const tg_tensor *ref_logp, const tg_tensor *mask,
               const tg_tensor *ratio_mask, const tg_tensor *is_ratio)
{
    grpo g = {o,
              tokens->shape[0],
              tokens->shape[1],
              0,
              grpo_plane_of(advantages),
              grpo_plane_of(old_logp),
              grpo_plane_of(ref_logp),
              grpo_plane_of(mask),
              grpo_plane_of(ratio_mask),
              grpo_plane_of(is_ratio)};
    return g;
}

grpo grpo_counted(grpo g)
{
    for (int64_t b = 0; b < g.batch && g.mask.data; b++)
        for (int64_t l = 0; l < g.length; l++)
            g.kept += grpo_kept(&g.mask, b, l);
    if (!g.mask.data)
        g.kept = (double)(g.batch * g.length);
    return g;
}

typedef grpo_sequence sequence;
typedef grpo_token token;

/* ---- the policy's part of a token ---- */

typedef token policy_fn(const tg_grpo_options *o, const sequence *s, double rho, double logp);

/* Comparisons are such that NaN is carried. */
static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static token clip(const tg_grpo_options *o, const sequence *s, double rho, double logp)
{
    (void)logp;
    const double a = s->advantage, low = 1 - o->low, high = 1 + o->high;
    const double capped = rho > o->delta ? o->delta : rho, clipped = clamp(rho, low, high);
    const double chosen = capped * a <= clipped * a ? capped : clipped;
    const int held = chosen < rho || chosen > rho; /* by a bound that does not move with rho */
    return (token){.loss = -chosen * a,
                   .clipped = (rho < low && a < 0) || (rho > high && a > 0),
                   .by_log_rho = held && a == a ? 0 : -chosen * a};
}

static token cispo(const tg_grpo_options *o, const sequence *s, double rho, double logp)
{
    const double k = (rho > o->high ? o->high : rho) * s->advantage;
    return (token){.loss = -k * logp, .clipped = rho > o->high && s->advantage > 0, .direct = -k};
}

static token sapo(const tg_grpo_options *o, const sequence *s, double rho, double logp)
{
    (void)logp;
    const double t = s->advantage > 0 ? o->sapo_pos : o->sapo_neg, e = exp(-fabs(t * (rho - 1)));
    const double small = e / (1 + e), gate = rho < 1 ? small : 1 / (1 + e);
    return (token){.loss = -s->advantage * gate * 4 / t,
                   .by_log_rho = -s->advantage * 4 * (small / (1 + e)) * rho};
}

static token vespo(const tg_grpo_options *o, const sequence *s, double rho, double logp)
{
    (void)o, (void)rho;
    return (token){.loss = -s->phi * s->advantage * logp, .direct = -s->phi * s->advantage};
}

/* ---- what a token of a sequence counts in the reduced loss ---- */

typedef double weight_fn(const grpo *g, double kept);

static double at_least_1(double n)
{
    return n < 1 ? 1 : n;
}

static double by_sequence(const grpo *g, double kept)
{
    return 1 / ((double)g->batch * at_least_1(kept));
}

static double by_token(const grpo *g, double kept)
{
    (void)kept;
    return 1 / at_least_1(g->kept);
}

static double by_item(const grpo *g, double kept)
{
    (void)kept;
    return 1 / at_least_1(g->o.items == 0 ? g->kept : g->o.items);
}

static double by_space(const grpo *g, double kept)
{
    (void)kept;
    return 1 / ((double)g->batch * (double)(g->o.length ? g->o.length : g->length));
}

static double by_length(const grpo *g, double kept)
{
    return kept / ((double)g->batch * (double)g->length);
}

static const struct {
    policy_fn *policy;
    weight_fn *weight;
} types[] = {
    [TG_GRPO] = {clip, by_sequence}, [TG_DAPO] = {clip, by_item},    [TG_BNPO] = {clip, by_token},
    [TG_DR_GRPO] = {clip, by_space}, [TG_LUSPO] = {clip, by_length}, [TG_CISPO] = {cispo, by_item},
    [TG_SAPO] = {sapo, by_sequence}, [TG_VESPO] = {vespo, by_item},
};

/* ---- a sequence, and its tokens ---- */

static double log_is_ratio(const grpo *g, int64_t b, int64_t l)
{
    return clamp(log(grpo_get(&g->is_ratio, b, l, 1)), log(1e-8), 20);
}

static double phi(const grpo *g, double advantage, double log_ratio)
{
    const tg_grpo_options *o = &g->o;
    const double k = advantage >= 0 ? o->k_pos : o->k_neg;
    const double lambda = fmax(advantage >= 0 ? o->lambda_pos : o->lambda_neg, 1e-4);
    const double w = clamp(log_ratio, log(1e-8), 20);
    const double phi = exp(lambda + k * w - lambda * exp(w));
    return isinf(phi) ? 0 : phi;
}

int grpo_compares(const grpo *g)
{
    return g->o.sequence || g->o.type == TG_VESPO;
}

void grpo_weigh(const grpo *g, sequence *s, double moved, double clamped)
{
    if (grpo_compares(g)) {
        s->rho = exp(moved / at_least_1(s->rated));
        s->phi =
            phi(g, s->advantage, clamped + (g->is_ratio.by_token ? 0 : log_is_ratio(g, s->b, 0)));
    }
    s->weight = g->o.each ? 1 : types[g->o.type].weight(g, s->kept);
}

/* What needs all tokens of the sequence. */
static void compare(const grpo *g, const grpo_plane *logp, sequence *s)
{
    const int each_ratio = g->is_ratio.by_token != 0;
    double sum = 0, clamped = 0;
    for (int64_t l = 0; l < g->length && grpo_compares(g); l++) {
        if (!grpo_kept(&g->ratio_mask, s->b, l))
            continue;
        const double lp = grpo_get(logp, s->b, l, 0);
        const double moved = lp - grpo_get(&g->old_logp, s->b, l, lp);
        sum += moved;
        clamped += clamp(moved, -20, 20) + (each_ratio ? log_is_ratio(g, s->b, l) : 0);
    }
    grpo_weigh(g, s, sum, clamped);
}

static sequence sequence_of(const grpo *g, const grpo_plane *logp, int64_t b)
{
    sequence s = {.b = b, .advantage = grpo_get(&g->advantages, b, 0, 0)};
    for (int64_t l = 0; l < g->length; l++) {
        s.kept += grpo_kept(&g->mask, b, l);
        s.rated += grpo_kept(&g->ratio_mask, b, l);
    }
    compare(g, logp, &s);
    return s;
}

token grpo_token_of(const grpo *g, const sequence *s, int64_t l, double lp)
{
    const tg_grpo_options *o = &g->o;
    const double rho = o->sequence ? s->rho : exp(lp - grpo_get(&g->old_logp, s->b, l, lp));
    const double factor = o->type == TG_VESPO ? 1 : grpo_get(&g->is_ratio, s->b, l, 1);
    token t = types[o->type].policy(o, s, rho, lp);
    t.loss *= factor;
    t.direct *= factor;
    t.by_log_rho *= factor;
    if (!g->ref_logp.data)
        return t;
    const double u = grpo_get(&g->ref_logp, s->b, l, 0) - lp, scale = o->corrected ? rho : 1;
    t.kl = scale * (expm1(u) - fmin(u, DBL_MAX)); /* infinite where u is */
    if (o->beta == 0)
        return t;
    t.loss += o->beta * t.kl;
    if (o->corrected && !o->sequence) { /* both paths in one: their sum cancels */
        t.direct -= o->beta * rho * u;
    } else {
        t.direct -= o->beta * scale * expm1(u);
        t.by_log_rho += o->corrected ? o->beta * t.kl : 0;
    }
    return t;
}

/* ---- the whole ---- */

void grpo_losses(const grpo *g, const grpo_plane *logp, const tg_tensor *loss, const tg_tensor *kl,
                 const tg_tensor *clipped)
{
    const grpo_plane out[3] = {grpo_plane_of(loss), grpo_plane_of(kl), grpo_plane_of(clipped)};
    double sum[3] = {0};
    for (int64_t b = 0; b < g->batch; b++) {
        const sequence s = sequence_of(g, logp, b);
        for (int64_t l = 0; l < g->length; l++) {
            token t = {0};
            if (grpo_kept(&g->mask, b, l))
                t = grpo_token_of(g, &s, l, grpo_get(logp, b, l, 0));
            const double value[3] = {t.loss, t.kl, t.clipped};
            for (int i = 0; i < 3; i++) {
                sum[i] += value[i] * (i ? 1 / at_least_1(g->kept) : s.weight);
                if (g->o.each)
                    grpo_put(&out[i], b, l, value[i]);
            }
        }
    }
    for (int i = 0; i < 3 && !g->o.each; i++)
        grpo_put(&out[i], 0, 0, sum[i]);
}

/* What a token counts, times the upstream gradient. */
static double upstream_of(const sequence *s, const grpo_plane *dloss, int64_t l)
{
    return s->weight * grpo_get(dloss, s->b, l, 1);
}

/* At TG_SEQUENCE_LEVEL log rho is the mean of logp - old_logp, so each token that it is made of
 * gets an equal part of what reaches it. That is added before anything is rounded to the type of
 * dlogp: with few tokens the exponentials of a divergence cancel. */
static double part_of_ratio(const grpo *g, const sequence *s, const grpo_plane *logp,
                            const grpo_plane *dloss)
{
    double sum = 0;
    for (int64_t l = 0; l < g->length && g->o.sequence; l++)
        if (grpo_kept(&g->mask, s->b, l))
            sum += upstream_of(s, dloss, l) *
                   grpo_token_of(g, s, l, grpo_get(logp, s->b, l, 0)).by_log_rho;
    return sum / at_least_1(s->rated);
}

void grpo_gradients(const grpo *g, const grpo_plane *logp, const tg_tensor *dloss,
                    const grpo_plane *dlogp)
{
    const grpo_plane upstream = grpo_plane_of(dloss);
    for (int64_t b = 0; b < g->batch; b++) {
        const sequence s = sequence_of(g, logp, b);
        const double part = part_of_ratio(g, &s, logp, &upstream);
        for (int64_t l = 0; l < g->length; l++) {
            double d = 0;
            if (grpo_kept(&g->mask, b, l)) {
                const token t = grpo_token_of(g, &s, l, grpo_get(logp, b, l, 0));
                d = upstream_of(&s, &upstream, l) *
                    (g->o.sequence ? t.direct : t.direct + t.by_log_rho);
            }
            if (g->o.sequence && grpo_kept(&g->ratio_mask, b, l))
                d += part;
            grpo_put(dlogp, b, l, d);
        }
    }
}

/* ---- policy_loss ---- */

tg_status policy_loss_forward(tg_ctx *ctx, const tg_policy_loss_forward_args *args)
{
    (void)ctx;
    const grpo g = grpo_counted(GRPO_OF_POLICY(args));
    const grpo_plane logp = grpo_plane_of(args->logp);
    grpo_losses(&g, &logp, args->loss, args->kl, args->clipped);
    return TG_OK;
}

tg_status policy_loss_backward(tg_ctx *ctx, const tg_policy_loss_backward_args *args)
{
    (void)ctx;
    const grpo g = grpo_counted(GRPO_OF_POLICY(args));
    const grpo_plane logp = grpo_plane_of(args->logp), dlogp = grpo_plane_of(args->dlogp);
    grpo_gradients(&g, &logp, args->dloss, &dlogp);
    return TG_OK;
}
