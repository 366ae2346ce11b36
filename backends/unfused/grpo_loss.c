/* grpo_loss as an eager framework's user writes it: after log_softmax and a gather one loop for
 * each step over tensors [B,L], and derivatives as reverse-mode differentiation forms them.
 */
#include <float.h>
#include <math.h>

#include "tigon/options.h"

#include "selective_log_softmax.h"

/* One call of either direction. */
typedef struct grpo {
    tg_grpo_options o;
    int64_t batch, length;
    double kept; /* tokens */
    plane advantages, old_logp, ref_logp, mask, is_ratio;
} grpo;

#define GRPO_OF(args)                                                                            \
    counted((grpo){TG_GRPO_OPTIONS(args), (args)->target->shape[0], (args)->target->shape[1], 0, \
                   plane_of((args)->advantages), plane_of((args)->old_logp),                     \
                   plane_of((args)->ref_logp), plane_of((args)->mask),                           \
                   plane_of((args)->is_ratio)})

static grpo counted(grpo g)
{
    for (int64_t r = 0; r < g.batch * g.length; r++)
        g.kept += plane_kept(&g.mask, r / g.length, r % g.length);
    return g;
}

/* Elements of the tensors; dlogp and drho: derivatives of loss with the other one fixed. */
typedef struct step_token {
    int64_t b, l;
    int kept;
    double logp, log_ratio, rho, is_ratio, advantage, n; /* n: tokens kept in its sequence */
    double loss, kl, clipped, dlogp, drho;
} step_token;

static void step_inputs(const grpo *g, step_token *t, int64_t rows, const float *logp)
{
    for (int64_t r = 0; r < rows; r++) {
        t[r] = (step_token){.b = r / g->length, .l = r % g->length};
        t[r].kept = plane_kept(&g->mask, t[r].b, t[r].l);
        t[r].logp = t[r].kept ? logp[r] : 0;
        t[r].advantage = plane_get(&g->advantages, t[r].b, 0, 0);
        t[r].is_ratio = t[r].kept ? plane_get(&g->is_ratio, t[r].b, t[r].l, 1) : 1;
        if (t[r].kept)
            t[r].log_ratio = t[r].logp - plane_get(&g->old_logp, t[r].b, t[r].l, t[r].logp);
    }
    for (int64_t first = 0; first < rows; first += g->length) {
        double n = 0, sum = 0;
        for (int64_t r = first; r < first + g->length; r++) {
            n += t[r].kept;
            sum += t[r].log_ratio;
        }
        for (int64_t r = first; r < first + g->length; r++) {
            t[r].n = n;
            t[r].rho = exp(g->o.sequence ? sum / fmax(n, 1) : t[r].log_ratio);
        }
    }
}

/* NaN stays NaN, as in frameworks. */
static double step_clamp(double x, double low, double high)
{
    return isnan(x) ? x : fmin(fmax(x, low), high);
}

/* loss = -min(min(rho, delta) A, clip(rho) A) */
static void step_clip(const tg_grpo_options *o, step_token *t)
{
    const double low = 1 - o->low, high = 1 + o->high, a = t->advantage, rho = t->rho;
    const double first = fmin(rho, o->delta) * a, second = fmin(fmax(rho, low), high) * a;
    t->loss = first < second ? -first : -second;
    const int flows = first < second              ? rho <= o->delta
                      : rho >= low && rho <= high ? 1
                                                  : first == second && rho <= o->delta;
    t->drho = flows ? -a : 0;
    t->clipped = a < 0 ? rho < low : a > 0 && rho > high;
    if (isnan(rho * a))
        t->loss = t->drho = NAN;
}

static void step_sapo(const tg_grpo_options *o, step_token *t)
{
    const double tau = t->advantage > 0 ? o->sapo_pos : o->sapo_neg;
    const double gate = 1 / (1 + exp(-tau * (t->rho - 1)));
    t->loss = -t->advantage * gate * 4 / tau;
    t->drho = -t->advantage * 4 * gate * (1 - gate);
}

/* phi of the sequence that begins at t */
static double step_phi(const grpo *g, const step_token *t)
{
    const tg_grpo_options *o = &g->o;
    const int positive = t->advantage >= 0;
    double w = 0;
    for (int64_t l = 0; l < g->length; l++) {
        w += step_clamp(t[l].log_ratio, -20, 20); /* 0 where mask is */
        const double ratio =
            g->is_ratio.by_token ? t[l].is_ratio : plane_get(&g->is_ratio, t->b, 0, 1);
        if (g->is_ratio.by_token || l == 0)
            w += step_clamp(log(ratio), log(1e-8), 20);
    }
    w = step_clamp(w, log(1e-8), 20);
    const double k = positive ? o->k_pos : o->k_neg;
    const double lambda = fmax(positive ? o->lambda_pos : o->lambda_neg, 1e-4);
    const double phi = exp(lambda) * pow(exp(w), k) * exp(-lambda * exp(w));
    return isinf(phi) ? 0 : phi;
}

static void step_policy(const grpo *g, step_token *t, int64_t rows)
{
    double phi = 0;
    for (int64_t r = 0; r < rows; r++) {
        if (g->o.type == TG_VESPO) {
            phi = t[r].l == 0 ? step_phi(g, t + r) : phi;
            t[r].dlogp = -phi * t[r].advantage;
            t[r].loss = t[r].dlogp * t[r].logp;
            t[r].is_ratio = 1;
        } else if (g->o.type == TG_CISPO) {
            t[r].clipped = t[r].advantage > 0 && t[r].rho > g->o.high;
            t[r].dlogp = -(t[r].rho > g->o.high ? g->o.high : t[r].rho) * t[r].advantage;
            t[r].loss = t[r].dlogp * t[r].logp;
        } else if (g->o.type == TG_SAPO) {
            step_sapo(&g->o, t + r);
        } else {
            step_clip(&g->o, t + r);
        }
        t[r].loss *= t[r].is_ratio;
        t[r].dlogp *= t[r].is_ratio;
        t[r].drho *= t[r].is_ratio;
    }
}

static void step_kl(const grpo *g, step_token *t, int64_t rows)
{
    for (int64_t r = 0; r < rows && g->ref_logp.data; r++) {
        if (!t[r].kept)
            continue;
        const double u = plane_get(&g->ref_logp, t[r].b, t[r].l, 0) - t[r].logp;
        const double plain = exp(u) - fmin(u, DBL_MAX) - 1; /* infinite where u is */
        const double factor = g->o.corrected ? t[r].rho : 1;
        t[r].kl = plain * factor;
        if (g->o.beta == 0)
            continue;
        t[r].loss += g->o.beta * t[r].kl;
        t[r].dlogp += g->o.beta * factor * (1 - exp(u));
        t[r].drho += g->o.corrected ? g->o.beta * plain : 0;
    }
}

/* What the token counts in the reduced loss. */
static double step_weight(const grpo *g, const step_token *t)
{
    const double batch = (double)g->batch, length = (double)g->length;
    switch (g->o.type) {
    case TG_GRPO:
    case TG_SAPO:
        return 1 / fmax(t->n, 1) / batch;
    case TG_BNPO:
        return 1 / fmax(g->kept, 1);
    case TG_DR_GRPO:
        return 1 / (batch * (g->o.length ? (double)g->o.length : length));
    case TG_LUSPO:
        return t->n / (batch * length);
    default:
        return 1 / fmax(g->o.items ? g->o.items : g->kept, 1);
    }
}

static void step_losses(const grpo *g, const step_token *t, int64_t rows, const plane *loss,
                        const plane *kl, const plane *clipped)
{
    double sum = 0, kls = 0, clips = 0;
    for (int64_t r = 0; r < rows; r++) {
        if (g->o.each) {
            plane_put(loss, t[r].b, t[r].l, t[r].kept ? t[r].loss : 0);
            plane_put(kl, t[r].b, t[r].l, t[r].kept ? t[r].kl : 0);
            plane_put(clipped, t[r].b, t[r].l, t[r].kept ? t[r].clipped : 0);
        } else if (t[r].kept) {
            sum += t[r].loss * step_weight(g, t + r);
            kls += t[r].kl;
            clips += t[r].clipped;
        }
    }
    if (g->o.each)
        return;
    plane_put(loss, 0, 0, sum);
    plane_put(kl, 0, 0, kls / fmax(g->kept, 1));
    plane_put(clipped, 0, 0, clips / fmax(g->kept, 1));
}

static void step_gradients(const grpo *g, const step_token *t, int64_t rows, const plane *dloss,
                           float *dlogp)
{
    for (int64_t first = 0; first < rows; first += g->length) {
        double through_rho = 0;
        for (int64_t r = first; r < first + g->length; r++) {
            const double w = (g->o.each ? 1 : step_weight(g, t + r)) *
                             (t[r].kept ? plane_get(dloss, t[r].b, t[r].l, 1) : 0);
            const double mine = t[r].kept ? w * t[r].drho * t[r].rho : 0;
            through_rho += mine;
            dlogp[r] = (float)(t[r].kept ? w * t[r].dlogp + (g->o.sequence ? 0 : mine) : 0);
        }
        for (int64_t r = first; r < first + g->length && g->o.sequence; r++)
            dlogp[r] += (float)(t[r].kept ? through_rho / t[r].n : 0);
    }
}

/* ---- grpo_loss ---- */

/* All tokens up to their losses and derivatives. */
static step_token *loss_steps(softmax_steps *s, const grpo *g, mat logp)
{
    step_token *t = unfused_host->workspace(s->e.ctx, (size_t)s->rows * sizeof *t + 1);
    if (!t)
        s->e.status = TG_ENOMEM;
    if (s->e.status)
        return NULL;
    step_inputs(g, t, s->rows, softmax_at(logp));
    step_policy(g, t, s->rows);
    step_kl(g, t, s->rows);
    return t;
}

static tg_status loss_forward(tg_ctx *ctx, const tg_grpo_loss_forward_args *args)
{
    const grpo g = GRPO_OF(args);
    softmax_steps s = softmax_begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = softmax_column(&s), lse = softmax_column(&s);
    softmax_forward(&s, logp, lse);
    const step_token *t = loss_steps(&s, &g, logp);
    if (s.e.status)
        return eager_end(&s.e);
    const plane loss = plane_of(args->loss), kl = plane_of(args->kl);
    const plane clipped = plane_of(args->clipped);
    step_losses(&g, t, s.rows, &loss, &kl, &clipped);
    softmax_write(&s, args->lse, lse);
    return eager_end(&s.e);
}

static tg_status loss_backward(tg_ctx *ctx, const tg_grpo_loss_backward_args *args)
{
    const grpo g = GRPO_OF(args);
    softmax_steps s = softmax_begin(ctx, args->logits, args->target, args->mask, args->temperature);
    const mat logp = softmax_column(&s), lse = softmax_column(&s);
    softmax_read(&s, lse, args->lse);
    for (int64_t r = 0; r < s.rows && !s.e.status; r++)
        if (softmax_kept(&s, r))
            softmax_at(logp)[r] =
                softmax_at(s.x)[r * s.classes + softmax_target(&s, r)] - softmax_at(lse)[r];
    const step_token *t = loss_steps(&s, &g, logp);
    if (s.e.status)
        return eager_end(&s.e);
    const plane dloss = plane_of(args->dloss);
    step_gradients(&g, t, s.rows, &dloss, softmax_at(logp));
    softmax_gradient(&s, lse, logp, args->dlogits);
    return eager_end(&s.e);
}

UNFUSED_IMPLS(grpo_loss) = {UNFUSED_IMPL(grpo_loss_forward, loss_forward),
                            UNFUSED_IMPL(grpo_loss_backward, loss_backward), TG_IMPLS_END};
