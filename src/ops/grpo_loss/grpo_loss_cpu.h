/* What both directions of policy_loss on the CPU share: its tokens in f32, a vector of them at a
 * time, which is grpo_token_of() of grpo_loss_shared.c for numbers of ordinary size, and that
 * itself for others. Sequences go in pieces. Compiled once per level. */
#ifndef TG_GRPO_LOSS_CPU_H
#define TG_GRPO_LOSS_CPU_H

#include "exp_rest.h"
#include "grpo_loss.h"
#include "rows/level.h"
#include "rows/numbers.h"

#define policy_begin TG_AT_LEVEL(policy_begin)
#define policy_each TG_AT_LEVEL(policy_each)
#define policy_sum TG_AT_LEVEL(policy_sum)
#define policy_span_of TG_AT_LEVEL(policy_span_of)
#define policy_numbers TG_AT_LEVEL(policy_numbers)
#define policy_define TG_AT_LEVEL(policy_define)

/* grpo_token of a vector of tokens. */
typedef struct tokens {
    vf loss, kl, clipped, direct, by_log_rho;
} tokens;

/* What tokens are made of: log-probabilities, and ratios of the sampler. */
typedef struct token_input {
    vf logp, old, ref, factor;
} token_input;

/* What the tokens of a sequence have in common, and the options. */
typedef struct token_options {
    int type, sequence, corrected, refers; /* refers: there is a reference */
    int sign;                              /* of the advantage: -1, 0 or 1 */
    vf advantage, low, high, delta, beta, rho, phi, sapo;
} token_options;

/* Logarithms of ratios up to here; others are those of grpo_token_of(). */
#define ORDINARY 40.0f

/* ---- the policy's part, of numbers of ordinary size: none is NaN ---- */

/* The smaller of capped * a and clipped * a is that of the smaller factor, or of the larger one
 * where a < 0. */
SIMD_INLINE tokens token_clip(const token_options *o, vf rho)
{
    const vf zero = v_set(0.0f), one = v_set(1.0f);
    const vf capped = v_min(rho, o->delta), clipped = v_max(o->low, v_min(o->high, rho));
    const vf chosen = o->sign < 0 ? v_max(capped, clipped) : v_min(capped, clipped);
    const vi outside = o->sign < 0 ? rho < o->low : rho > o->high;
    const vf loss = -(chosen * o->advantage);
    return (tokens){.loss = loss,
                    .clipped = o->sign ? v_select(outside, one, zero) : zero,
                    .by_log_rho = v_select(chosen == rho, loss, zero)};
}

SIMD_INLINE tokens token_cispo(const token_options *o, vf rho, vf logp)
{
    const vf k = v_min(o->high, rho) * o->advantage, zero = v_set(0.0f);
    return (tokens){.loss = -(k * logp),
                    .clipped = o->sign > 0 ? v_select(rho > o->high, v_set(1.0f), zero) : zero,
                    .direct = -k};
}

/* r: the logarithm of rho. */
SIMD_INLINE tokens token_sapo(const token_options *o, vf rho, vf r)
{
    const vf one = v_set(1.0f), four = v_set(4.0f) * o->advantage;
    const vf moved = v_expm1(r); /* rho - 1, with all digits near 0 */
    const vf z = o->sapo * moved, e = v_exp(v_minus_abs(z)), large = one / (one + e);
    const vf small = e * large;
    return (tokens){.loss = -(four / o->sapo) * v_if_negative(z, small, large),
                    .by_log_rho = -(four * (small * large) * rho)};
}

SIMD_INLINE tokens token_policy(const token_options *o, const token_input *in, vf rho)
{
    if (o->type == TG_CISPO)
        return token_cispo(o, rho, in->logp);
    if (o->type == TG_SAPO)
        return token_sapo(o, rho, in->logp - in->old);
    if (o->type == TG_VESPO)
        return (tokens){.loss = -(o->phi * o->advantage * in->logp),
                        .direct = -(o->phi * o->advantage)};
    return token_clip(o, rho);
}

/* ---- the whole token ---- */

/* A divergence in which its two parts at sequence level cancel is not for f32: there `corrected` is
 * 0. */
SIMD_INLINE void token_refer(const token_options *o, const token_input *in, vf rho, tokens *t)
{
    const vf one = v_set(1.0f), u = in->ref - in->logp;
    const vi far = v_abs(u) >= one;
    vf kl = v_exp_rest(u), grown = u + kl;
    if (v_any(far)) {
        grown = v_select(far, v_exp_within(u) - one, grown);
        kl = v_select(far, grown - u, kl);
    }
    t->kl = o->corrected ? rho * kl : kl;
    t->loss += o->beta * t->kl;
    t->direct -= o->beta * (o->corrected ? rho * u : grown);
}

SIMD_INLINE tokens token_of(const token_options *o, const token_input *in)
{
    const vf rho = o->sequence ? o->rho : v_exp_within(in->logp - in->old);
    tokens t = token_policy(o, in, rho);
    t.loss *= in->factor;
    t.direct *= in->factor;
    t.by_log_rho *= in->factor;
    if (o->refers)
        token_refer(o, in, rho, &t);
    return t;
}

/* Tokens that are so computed. */
SIMD_INLINE vi token_ordinary(const token_input *in)
{
    const vf most = v_set(ORDINARY);
    return (v_abs(in->logp - in->old) <= most) & (v_abs(in->ref - in->logp) <= most) &
           (v_abs(in->factor) <= v_set(0x1p30f));
}

/* PIECE: most tokens of an item, which has SUMS sums. */
enum { PIECE = 4096, SUMS = 4 };

typedef struct policy_job {
    grpo g;
    grpo_plane logp, dloss, dlogp, out[3]; /* out: loss, kl, clipped */
    grpo_sequence *sequences;
    double *sums; /* SUMS of an item */
    int64_t pieces;
} policy_job;

SIMD_INLINE vi kept_of(const grpo_plane *mask, int64_t b, int64_t l, int64_t n)
{
    vi kept = v_first(n);
    for (int64_t i = 0; i < n && mask->data; i++)
        kept[i] = grpo_kept(mask, b, l + i) ? -1 : 0;
    return kept;
}

/* ---- a piece of a sequence ---- */

typedef struct policy_span {
    const policy_job *j;
    const grpo_sequence *s;
    int64_t b, begin, end;
    token_options o;
    vi ordinary; /* all lanes: what the tokens have in common is so */
    numbers logp, old, ref, factor;
} policy_span;

/* A divergence with bias correction at sequence level is for the definition: its two ways to a
 * token cancel. */
static inline int policy_takes(const tg_grpo_options *o)
{
    return !(o->sequence && o->corrected);
}

/* What is common to the tokens of all sequences, in memory of the workspace. */
tg_status policy_begin(tg_ctx *ctx, policy_job *j);
/* Over all pieces of all sequences. */
void policy_each(tg_ctx *ctx, policy_job *j, tg_range_fn items);

/* The sum of a sequence's items. */
double policy_sum(const policy_job *j, int64_t b, int which);

policy_span policy_span_of(const policy_job *j, int64_t item);

/* Of sequence b; `otherwise` if they are not given. */
numbers policy_numbers(const grpo_plane *p, int64_t b, float otherwise);

/* The tokens of the lanes that are set, by the definition. */
void policy_define(const policy_span *p, int64_t l, vi lanes, vf logp, tokens *t);

/* Tokens [l, l + n); 0 in lanes that are not kept. */
SIMD_INLINE tokens tokens_of(const policy_span *p, int64_t l, int64_t n)
{
    const grpo *g = &p->j->g;
    const vi kept = kept_of(&g->mask, p->b, l, n);
    const vf logp = numbers_get(&p->logp, l, n), zero = v_set(0.0f);
    const token_input in = {logp, g->old_logp.data ? numbers_get(&p->old, l, n) : logp,
                            g->ref_logp.data ? numbers_get(&p->ref, l, n) : logp,
                            numbers_get(&p->factor, l, n)};
    tokens t = token_of(&p->o, &in);
    const vi strange = kept & ~(token_ordinary(&in) & p->ordinary);
    if (v_any(strange)) {
        tokens d;
        policy_define(p, l, strange, logp, &d);
        t = (tokens){v_select(strange, d.loss, t.loss), v_select(strange, d.kl, t.kl),
                     v_select(strange, d.clipped, t.clipped), v_select(strange, d.direct, t.direct),
                     v_select(strange, d.by_log_rho, t.by_log_rho)};
    }
    return (tokens){v_select(kept, t.loss, zero), v_select(kept, t.kl, zero),
                    v_select(kept, t.clipped, zero), v_select(kept, t.direct, zero),
                    v_select(kept, t.by_log_rho, zero)};
}

#endif
