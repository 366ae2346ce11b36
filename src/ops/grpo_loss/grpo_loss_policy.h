/* A token's part of policy_loss in f32, a vector of tokens at a time: grpo_token_of() of
 * grpo_loss_shared.c for numbers of ordinary size. Compiled once per level. */
#ifndef TG_GRPO_LOSS_POLICY_H
#define TG_GRPO_LOSS_POLICY_H

#include "grpo_loss.h"
#include "simd.h"

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
    vf advantage, low, high, delta, beta, rho, phi, sapo;
} token_options;

/* Logarithms of ratios up to here; others are those of grpo_token_of(). */
#define ORDINARY 40.0f

static inline token_options token_options_of(const grpo *g, const grpo_sequence *s)
{
    const tg_grpo_options *o = &g->o;
    const int clips = o->type <= TG_LUSPO;
    return (token_options){.type = (int)o->type,
                           .sequence = (int)o->sequence,
                           .corrected = o->corrected,
                           .refers = g->ref_logp.data != NULL,
                           .advantage = v_set((float)s->advantage),
                           .low = v_set((float)(1 - o->low)),
                           .high = v_set((float)(clips ? 1 + o->high : o->high)),
                           .delta = v_set((float)o->delta),
                           .beta = v_set((float)o->beta),
                           .rho = v_set((float)s->rho),
                           .phi = v_set((float)s->phi),
                           .sapo = v_set((float)(s->advantage > 0 ? o->sapo_pos : o->sapo_neg))};
}

/* exp(u) - 1 - u for |u| <= 1, from its series: relative error 2^-23 at most, however small u
 * is. */
SIMD_INLINE vf exp_rest(vf u)
{
    vf p = v_set(1.0f / 39916800);
    p = p * u + v_set(1.0f / 3628800);
    p = p * u + v_set(1.0f / 362880);
    p = p * u + v_set(1.0f / 40320);
    p = p * u + v_set(1.0f / 5040);
    p = p * u + v_set(1.0f / 720);
    p = p * u + v_set(1.0f / 120);
    p = p * u + v_set(1.0f / 24);
    p = p * u + v_set(1.0f / 6);
    p = p * u + v_set(0.5f);
    return u * u * p;
}

/* ---- the policy's part; comparisons are such that NaN is carried ---- */

SIMD_INLINE tokens token_clip(const token_options *o, vf rho)
{
    const vf a = o->advantage, zero = v_set(0.0f), one = v_set(1.0f);
    const vi below = rho<o->low, above = rho> o->high;
    const vf capped = v_select(rho > o->delta, o->delta, rho);
    const vf clipped = v_select(below, o->low, v_select(above, o->high, rho));
    const vf chosen = v_select(capped * a <= clipped * a, capped, clipped);
    const vi held = ((chosen < rho) | (chosen > rho)) & (a == a);
    const vf loss = -(chosen * a);
    return (tokens){.loss = loss,
                    .clipped = v_select((below & (a < zero)) | (above & (a > zero)), one, zero),
                    .by_log_rho = v_select(held, zero, loss)};
}

SIMD_INLINE tokens token_cispo(const token_options *o, vf rho, vf logp)
{
    const vf a = o->advantage, zero = v_set(0.0f);
    const vi above = rho > o->high;
    const vf k = v_select(above, o->high, rho) * a;
    return (tokens){.loss = -(k * logp),
                    .clipped = v_select(above & (a > zero), v_set(1.0f), zero),
                    .direct = -k};
}

/* r: the logarithm of rho. */
SIMD_INLINE tokens token_sapo(const token_options *o, vf rho, vf r)
{
    const vf one = v_set(1.0f), four = v_set(4.0f) * o->advantage;
    /* rho - 1 keeps its digits near 0 */
    const vf moved = v_select(v_abs(r) < one, r + exp_rest(r), rho - one);
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
    const vf one = v_set(1.0f), u = in->ref - in->logp, power = v_exp(u), rest = exp_rest(u);
    const vi near = v_abs(u) < one;
    const vf grown = v_select(near, u + rest, power - one);
    const vf kl = v_select(near, rest, grown - u);
    t->kl = o->corrected ? rho * kl : kl;
    t->loss += o->beta * t->kl;
    t->direct -= o->beta * (o->corrected ? rho * u : grown);
}

SIMD_INLINE tokens token_of(const token_options *o, const token_input *in)
{
    const vf rho = o->sequence ? o->rho : v_exp(in->logp - in->old);
    tokens t = token_policy(o, in, rho);
    t.loss *= in->factor;
    t.direct *= in->factor;
    t.by_log_rho *= in->factor;
    if (o->refers)
        token_refer(o, in, rho, &t);
    return t;
}

/* 1 if what a sequence's tokens have in common is of ordinary size. */
static inline int sequence_ordinary(const grpo *g, const grpo_sequence *s)
{
    const double rho = g->o.sequence ? s->rho : 1, phi = g->o.type == TG_VESPO ? s->phi : 1;
    return fabs(s->advantage) <= 0x1p30 && rho >= 0x1p-60 && rho <= 0x1p60 &&
           (phi == 0 || (fabs(phi) >= 0x1p-60 && fabs(phi) <= 0x1p60));
}

/* Tokens that are so computed. */
SIMD_INLINE vi token_ordinary(const token_input *in)
{
    const vf most = v_set(ORDINARY);
    return (v_abs(in->logp - in->old) <= most) & (v_abs(in->ref - in->logp) <= most) &
           (v_abs(in->factor) <= v_set(0x1p30f));
}

#endif
