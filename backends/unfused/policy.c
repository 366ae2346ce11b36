#include "policy.h"

#include <float.h>
#include <math.h>

grpo policy_counted(grpo g)
{
    for (int64_t r = 0; r < g.batch * g.length; r++)
        g.kept += plane_kept(&g.mask, r / g.length, r % g.length);
    return g;
}

static step_token step_input(const grpo *g, const plane *logp, int64_t b, int64_t l)
{
    step_token t = {.b = b, .l = l};
    t.kept = plane_kept(&g->mask, b, l);
    t.rated = plane_kept(&g->ratio_mask, b, l);
    t.advantage = plane_get(&g->advantages, b, 0, 0);
    t.is_ratio = 1;
    if (t.kept || t.rated) {
        t.logp = plane_get(logp, b, l, 0);
        t.is_ratio = plane_get(&g->is_ratio, b, l, 1);
        t.log_ratio = t.logp - plane_get(&g->old_logp, b, l, t.logp);
    }
    return t;
}

static void step_inputs(const grpo *g, step_token *t, int64_t rows, const plane *logp)
{
    for (int64_t r = 0; r < rows; r++)
        t[r] = step_input(g, logp, r / g->length, r % g->length);
    for (int64_t first = 0; first < rows; first += g->length) {
        double n = 0, of_ratio = 0, sum = 0;
        for (int64_t r = first; r < first + g->length; r++) {
            n += t[r].kept;
            of_ratio += t[r].rated;
            sum += t[r].rated ? t[r].log_ratio : 0;
        }
        for (int64_t r = first; r < first + g->length; r++) {
            t[r].n = n;
            t[r].of_ratio = of_ratio;
            t[r].rho = exp(g->o.sequence ? sum / fmax(of_ratio, 1) : t[r].log_ratio);
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
        const int each = g->is_ratio.by_token != 0;
        w += t[l].rated ? step_clamp(t[l].log_ratio, -20, 20) : 0;
        if (each ? t[l].rated : l == 0)
            w += step_clamp(log(plane_get(&g->is_ratio, t->b, l, 1)), log(1e-8), 20);
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
            continue; /* is_ratio is in phi */
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

void policy_losses(const grpo *g, const step_token *t, const tg_tensor *loss_to,
                   const tg_tensor *kl_to, const tg_tensor *clipped_to)
{
    const int64_t rows = g->batch * g->length;
    const plane of_loss = plane_of(loss_to), of_kl = plane_of(kl_to);
    const plane of_clipped = plane_of(clipped_to), *loss = &of_loss, *kl = &of_kl,
                *clipped = &of_clipped;
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

void policy_gradients(const grpo *g, const step_token *t, const tg_tensor *dloss,
                      const plane *dlogp)
{
    const plane upstream = plane_of(dloss);
    for (int64_t first = 0; first < g->batch * g->length; first += g->length) {
        double through_rho = 0;
        for (int64_t pass = 0; pass < 2; pass++)
            for (int64_t r = first; r < first + g->length; r++) {
                const double w = (g->o.each ? 1 : step_weight(g, t + r)) *
                                 (t[r].kept ? plane_get(&upstream, t[r].b, t[r].l, 1) : 0);
                const double mine = t[r].kept ? w * t[r].drho * t[r].rho : 0;
                const double ratio = !g->o.sequence ? mine
                                     : t[r].rated   ? through_rho / t[r].of_ratio
                                                    : 0;
                if (pass == 0)
                    through_rho += mine;
                else
                    plane_put(dlogp, t[r].b, t[r].l, ratio + (t[r].kept ? w * t[r].dlogp : 0));
            }
    }
}

step_token *policy_steps(tg_ctx *ctx, const grpo *g, const plane *logp)
{
    const int64_t rows = g->batch * g->length;
    step_token *t = unfused_host->workspace(ctx, (size_t)rows * sizeof *t + 1);
    if (!t)
        return NULL;
    step_inputs(g, t, rows, logp);
    step_policy(g, t, rows);
    step_kl(g, t, rows);
    return t;
}
