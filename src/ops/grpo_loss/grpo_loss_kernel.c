/* policy_loss on the CPU: what the tokens of a sequence have in common. */
#include "grpo_loss_cpu.h"

/* ---- numbers of a sequence's tokens ---- */

numbers policy_numbers(const grpo_plane *p, int64_t b, float otherwise)
{
    const el type = (el)tg_el(p->type);
    if (p->data && p->by_token)
        return (numbers){(char *)p->data + b * p->by_batch * el_size(type), type, 0};
    return (numbers){NULL, type, (float)grpo_get(p, b, 0, otherwise)};
}

static inline token_options token_options_of(const grpo *g, const grpo_sequence *s)
{
    const tg_grpo_options *o = &g->o;
    const int clips = o->type <= TG_LUSPO;
    return (token_options){.type = (int)o->type,
                           .sequence = (int)o->sequence,
                           .corrected = o->corrected,
                           .refers = g->ref_logp.data != NULL,
                           .sign = (s->advantage > 0) - (s->advantage < 0),
                           .advantage = v_set((float)s->advantage),
                           .low = v_set((float)(1 - o->low)),
                           .high = v_set((float)(clips ? 1 + o->high : o->high)),
                           .delta = v_set((float)o->delta),
                           .beta = v_set((float)o->beta),
                           .rho = v_set((float)s->rho),
                           .phi = v_set((float)s->phi),
                           .sapo = v_set((float)(s->advantage > 0 ? o->sapo_pos : o->sapo_neg))};
}

/* 1 if what a sequence's tokens have in common is of ordinary size. */
static inline int sequence_ordinary(const grpo *g, const grpo_sequence *s)
{
    const double rho = g->o.sequence ? s->rho : 1, phi = g->o.type == TG_VESPO ? s->phi : 1;
    return fabs(s->advantage) <= 0x1p30 && rho >= 0x1p-60 && rho <= 0x1p60 &&
           (phi == 0 || (fabs(phi) >= 0x1p-60 && fabs(phi) <= 0x1p60));
}

policy_span policy_span_of(const policy_job *j, int64_t item)
{
    const grpo *g = &j->g;
    const int64_t b = item / j->pieces, begin = item % j->pieces * PIECE;
    const int64_t end = g->length - begin < PIECE ? g->length : begin + PIECE;
    const grpo_sequence *s = &j->sequences[b];
    const grpo_plane none = {0}, *ratio = g->o.type == TG_VESPO ? &none : &g->is_ratio;
    return (policy_span){.j = j,
                         .s = s,
                         .b = b,
                         .begin = begin,
                         .end = end,
                         .o = token_options_of(g, s),
                         .ordinary = v_seti(sequence_ordinary(g, s) ? -1 : 0),
                         .logp = policy_numbers(&j->logp, b, 0),
                         .old = policy_numbers(&g->old_logp, b, 0),
                         .ref = policy_numbers(&g->ref_logp, b, 0),
                         .factor = policy_numbers(ratio, b, 1)};
}

void policy_define(const policy_span *p, int64_t l, vi lanes, vf logp, tokens *t)
{
    *t = (tokens){.loss = {0}};
    for (int i = 0; i < VL; i++) {
        if (!lanes[i])
            continue;
        const grpo_token one = grpo_token_of(&p->j->g, p->s, l + i, logp[i]);
        t->loss[i] = (float)one.loss;
        t->kl[i] = (float)one.kl;
        t->clipped[i] = (float)one.clipped;
        t->direct[i] = (float)one.direct;
        t->by_log_rho[i] = (float)one.by_log_rho;
    }
}

/* ---- what the tokens of a sequence have in common ---- */

enum { KEPT, RATED, MOVED, CLAMPED };

SIMD_INLINE vf clamped_to(vf x, float low, float high)
{
    const vf a = v_set(low), b = v_set(high);
    return v_select(x < a, a, v_select(x > b, b, x));
}

static void count_run(const policy_span *p, int64_t begin, int64_t end, double *sums)
{
    const grpo *g = &p->j->g;
    const float least = -18.420680743952367f; /* log 1e-8 */
    const vf zero = v_set(0.0f), one = v_set(1.0f);
    vf sum[SUMS] = {zero, zero, zero, zero};
    for (int64_t l = begin; l < end; l += VL) {
        const int64_t n = v_tail(end, l);
        const vi rated = kept_of(&g->ratio_mask, p->b, l, n);
        sum[KEPT] += v_select(kept_of(&g->mask, p->b, l, n), one, zero);
        sum[RATED] += v_select(rated, one, zero);
        if (!g->old_logp.data && !g->is_ratio.by_token)
            continue;
        const vf logp = numbers_get(&p->logp, l, n);
        const vf moved = logp - (g->old_logp.data ? numbers_get(&p->old, l, n) : logp);
        vf clamped = clamped_to(moved, -20, 20);
        if (g->is_ratio.by_token)
            clamped += clamped_to(v_log(numbers_get(&p->factor, l, n)), least, 20);
        sum[MOVED] += v_select(rated, moved, zero);
        sum[CLAMPED] += v_select(rated, clamped, zero);
    }
    for (int i = 0; i < SUMS; i++)
        sums[i] += v_sum(sum[i]);
}

static void count_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const policy_job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        policy_span p = policy_span_of(j, item);
        p.factor = policy_numbers(&j->g.is_ratio, p.b, 1);
        double *sums = j->sums + item * SUMS;
        sums[KEPT] = sums[RATED] = sums[MOVED] = sums[CLAMPED] = 0;
        for (int64_t l = p.begin; l < p.end; l += NUMBERS_RUN)
            count_run(&p, l, p.end - l < NUMBERS_RUN ? p.end : l + NUMBERS_RUN, sums);
    }
}

/* ---- a call ---- */

void policy_each(tg_ctx *ctx, policy_job *j, tg_range_fn items)
{
    const int64_t n = j->g.length < PIECE ? j->g.length : PIECE;
    tg_parallel_for(ctx, j->g.batch * j->pieces, rows_worth(n, ROWS_WORTH), items, j);
}

double policy_sum(const policy_job *j, int64_t b, int which)
{
    double sum = 0;
    for (int64_t i = 0; i < j->pieces; i++)
        sum += j->sums[(b * j->pieces + i) * SUMS + which];
    return sum;
}

tg_status policy_begin(tg_ctx *ctx, policy_job *j)
{
    grpo *g = &j->g;
    const size_t batch = (size_t)g->batch;
    j->pieces = (g->length + PIECE - 1) / PIECE;
    j->sequences = tg_workspace(ctx, (batch + 1) * sizeof *j->sequences);
    j->sums = tg_workspace(ctx, (batch * (size_t)j->pieces + 1) * SUMS * sizeof *j->sums);
    if (!j->sequences || !j->sums)
        return TG_ENOMEM;
    const double length = (double)g->length;
    for (int64_t b = 0; b < g->batch; b++)
        j->sequences[b] = (grpo_sequence){.b = b,
                                          .advantage = grpo_get(&g->advantages, b, 0, 0),
                                          .kept = length,
                                          .rated = length};
    const int counts = g->mask.data || g->ratio_mask.data || grpo_compares(g);
    if (counts)
        policy_each(ctx, j, count_items);
    for (int64_t b = 0; b < g->batch; b++) {
        if (counts) {
            j->sequences[b].kept = policy_sum(j, b, KEPT);
            j->sequences[b].rated = policy_sum(j, b, RATED);
        }
        g->kept += j->sequences[b].kept;
    }
    for (int64_t b = 0; b < g->batch; b++)
        grpo_weigh(g, &j->sequences[b], counts ? policy_sum(j, b, MOVED) : 0,
                   counts ? policy_sum(j, b, CLAMPED) : 0);
    return TG_OK;
}
