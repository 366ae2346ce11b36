/* preference_loss on the CPU: what both directions read, and losses of which each reward has one of
 * its own. */
#include "exp_rest.h"
#include "preference_loss_cpu.h"

pair_options pair_options_of(const preference *p)
{
    const double e = p->smoothing;
    return (pair_options){.type = (int)p->type,
                          .beta = v_set((float)p->beta),
                          .gamma = v_set((float)p->gamma),
                          .smoothing = v_set((float)e),
                          .rest = v_set((float)(1 - e)),
                          .scale = v_set((float)(1 / (1 - 2 * e))),
                          .half = v_set((float)(0.5 / p->beta))};
}

/* Those that are left to the definition are long, and rare. */
static int pairs_take(int64_t type)
{
    return type != TG_DPO_EXO_PAIR && type != TG_DPO_DISCOPOP && type != TG_ORPO;
}

numbers pair_numbers(const tg_tensor *t, int64_t c, int64_t count, float otherwise)
{
    if (!t || (c && c * count >= tg_numel(t)))
        return (numbers){NULL, EL_F32, otherwise};
    const el type = el_of(t);
    if (tg_numel(t) == 1)
        return (numbers){NULL, type, (float)tg_get(tg_data(t), tg_type_of(t), 0)};
    return (numbers){(char *)tg_data(t) + c * count * el_size(type), type, 0};
}

numbers pair_results(const tg_tensor *t, int64_t c, int64_t count)
{
    if (!t || (c && c * count >= tg_numel(t)))
        return (numbers){0};
    const el type = el_of(t);
    return (numbers){(char *)tg_data(t) + c * count * el_size(type), type, 0};
}

pair_job pair_job_of(const preference *p)
{
    pair_job j = {.p = *p,
                  .kl = pair_numbers(p->kl, 0, p->count, 0),
                  .share = (float)preference_share(p),
                  .two = p->logp->shape[0] == 2,
                  .takes = pairs_take(p->type)};
    for (int64_t c = 0; c < 2; c++) {
        j.logp[c] = pair_numbers(p->logp, c, p->count, 0);
        j.ref[c] = pair_numbers(p->ref_logp, c, p->count, 0);
    }
    return j;
}

void pairs_define(const preference *p, int64_t i, vi lanes, pairs *t)
{
    *t = (pairs){.loss = {0}};
    for (int k = 0; k < VL; k++) {
        if (!lanes[k])
            continue;
        const preference_pair one = preference_pair_of(p, i + k);
        t->loss[k] = (float)one.loss;
        t->margin[k] = (float)one.margin;
        t->by_a[k] = (float)one.by[0];
        t->by_b[k] = (float)one.by[1];
    }
}

/* ---- losses of two sequences ---- */

static pairs pairs_nca(const pair_options *o, vf a, vf b)
{
    const logistics u = logistics_of(o->beta * a), v = logistics_of(o->beta * b);
    const vf half = v_set(0.5f), up = u.up * half, slope = up - u.down;
    return (pairs){.loss = -u.log_up - (u.log_down + v.log_down) * half,
                   .by_a = o->beta * slope,
                   .by_b = o->beta * v.up * half,
                   .unsure = u.unsure | v.unsure | cancels(slope, up)};
}

static pairs pairs_bco(const pair_options *o, vf a, vf b)
{
    const logistics u = logistics_of(o->beta * a), v = logistics_of(o->beta * b);
    return (pairs){.loss = -u.log_up - v.log_down,
                   .by_a = -(o->beta * u.down),
                   .by_b = o->beta * v.up,
                   .unsure = u.unsure | v.unsure};
}

static pairs pairs_sppo(const pair_options *o, vf a, vf b)
{
    const vf u = a - o->half, v = b + o->half, two = v_set(2.0f);
    return (pairs){.loss = u * u + v * v,
                   .by_a = two * u,
                   .by_b = two * v,
                   .unsure =
                       ~(v_abs(u) + v_abs(v) < v_set(0x1p30f)) | cancels(u, a) | cancels(v, b)};
}

static pairs pairs_apo_zero(const pair_options *o, vf a, vf b)
{
    const logistics u = logistics_of(o->beta * a), v = logistics_of(o->beta * b);
    return (pairs){.loss = u.down + v.up,
                   .by_a = -(o->beta * u.up * u.down),
                   .by_b = o->beta * v.up * v.down,
                   .unsure = u.unsure | v.unsure};
}

/* With u = beta a, df/da is beta (s(u) - s(x)) (s(-u) - s(x)), and s(y) - s(z) is
 * -s(y) s(-z) (exp(z - y) - 1): nothing cancels. */
static pairs pairs_apo_down(const pair_options *o, vf a, vf b, vf x)
{
    const vf below = -(o->beta * b) - o->gamma, above = o->beta * (a + a - b) - o->gamma;
    const logistics u = logistics_of(o->beta * a), v = logistics_of(x);
    const vf first = u.up * v.down * v_expm1(below), second = u.down * v.down * v_expm1(above);
    const vi far = ~(v_max(v_abs(below), v_abs(above)) <= v_set(ORDINARY));
    return (pairs){.loss = u.up + v.down,
                   .by_a = o->beta * first * second,
                   .by_b = o->beta * v.up * v.down,
                   .unsure = u.unsure | v.unsure | far | cancels(a + a - b, b)};
}

pairs pairs_of_others(const pair_options *o, vf a, vf b, vf x)
{
    pairs t = o->type == TG_DPO_NCA_PAIR    ? pairs_nca(o, a, b)
              : o->type == TG_DPO_BCO_PAIR  ? pairs_bco(o, a, b)
              : o->type == TG_DPO_SPPO_HARD ? pairs_sppo(o, a, b)
              : o->type == TG_DPO_APO_ZERO  ? pairs_apo_zero(o, a, b)
                                            : pairs_apo_down(o, a, b, x);
    t.margin = x;
    return t;
}
