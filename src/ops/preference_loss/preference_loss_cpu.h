/* What both directions of preference_loss on the CPU share: losses in f32, a vector of pairs at a
 * time, which is preference_pair_of() of preference_loss_shared.c for numbers of ordinary size and
 * types that are short, and that itself for others. Compiled once per level. */
#ifndef TG_PREFERENCE_LOSS_CPU_H
#define TG_PREFERENCE_LOSS_CPU_H

#include "preference_loss.h"
#include "rows/level.h"
#include "rows/numbers.h"

#define pair_options_of TG_AT_LEVEL(pair_options_of)
#define pair_job_of TG_AT_LEVEL(pair_job_of)
#define pair_numbers TG_AT_LEVEL(pair_numbers)
#define pair_results TG_AT_LEVEL(pair_results)
#define pairs_define TG_AT_LEVEL(pairs_define)
#define pairs_of_others TG_AT_LEVEL(pairs_of_others)

/* preference_pair of a vector of pairs; unsure: lanes that the definition computes. */
typedef struct pairs {
    vf loss, margin, by_a, by_b;
    vi unsure;
} pairs;

typedef struct pair_options {
    int type;
    vf beta, gamma, smoothing, rest, scale, half; /* rest: 1 - smoothing */
} pair_options;

/* Most losses of an item. */
enum { PIECE = 4096 };

typedef struct pair_job {
    preference p;
    numbers logp[2], ref[2], kl, dloss; /* of the chosen and the rejected ones */
    numbers loss, rewards[2], margin, dlogp[2];
    double *sums; /* of items */
    float share;
    int two, takes; /* two sequences make a loss; it is not for the definition alone */
} pair_job;

pair_options pair_options_of(const preference *p);

/* Of any arguments: what both directions read. */
pair_job pair_job_of(const preference *p);

/* Row c of a tensor, if it has so many, else `otherwise`; one number is all numbers. */
numbers pair_numbers(const tg_tensor *t, int64_t c, int64_t count, float otherwise);

/* Row c of a tensor as results; nowhere if it has none. */
numbers pair_results(const tg_tensor *t, int64_t c, int64_t count);

/* The lanes that are set, by the definition. */
void pairs_define(const preference *p, int64_t i, vi lanes, pairs *t);

/* Types of which each reward has a loss of its own. */
pairs pairs_of_others(const pair_options *o, vf a, vf b, vf x);

static inline int64_t pair_items(const pair_job *j)
{
    return (j->p.count + PIECE - 1) / PIECE;
}

static inline int64_t pair_piece_end(const pair_job *j, int64_t begin, int64_t size)
{
    return j->p.count - begin < size ? j->p.count : begin + size;
}

/* Where the logistic function and its logarithm are ordinary numbers. */
#define ORDINARY 80.0f

/* s(x) and s(-x), and their logarithms, by one exponential that cannot overflow. */
typedef struct logistics {
    vf up, down, log_up, log_down;
    vi unsure; /* of x that is not ordinary */
} logistics;

SIMD_INLINE logistics logistics_of(vf x)
{
    const vf zero = v_set(0.0f), one = v_set(1.0f), power = v_exp_within(v_minus_abs(x));
    const vf large = v_recip(one + power), small = power * large, part = v_log1p(power);
    return (logistics){.up = v_if_negative(x, small, large),
                       .down = v_if_negative(x, large, small),
                       .log_up = v_min(x, zero) - part,
                       .log_down = v_min(-x, zero) - part,
                       .unsure = ~(v_abs(x) <= v_set(ORDINARY))};
}

/* Lanes where most digits of a difference of numbers of the size of `of` have gone. */
SIMD_INLINE vi cancels(vf sum, vf of)
{
    return (v_abs(sum) < v_abs(of) * v_set(1.0f / 32)) & (sum != v_set(0.0f));
}

/* ---- losses of the difference of two rewards: d loss / dx in by_a ---- */

SIMD_INLINE pairs pairs_sigmoid(const pair_options *o, vf x)
{
    const logistics s = logistics_of(x);
    const vf up = o->smoothing * s.up, slope = up - o->rest * s.down;
    return (pairs){.loss = -(o->rest * s.log_up) - o->smoothing * s.log_down,
                   .by_a = slope,
                   .unsure = s.unsure | cancels(slope, up)};
}

SIMD_INLINE pairs pairs_robust(const pair_options *o, vf x)
{
    const logistics s = logistics_of(x);
    const vf down = o->smoothing * s.log_down, loss = down - o->rest * s.log_up;
    return (pairs){.loss = o->scale * loss,
                   .by_a = -(o->scale * (o->smoothing * s.up + o->rest * s.down)),
                   .unsure = s.unsure | cancels(loss, down)};
}

SIMD_INLINE pairs pairs_hinge(vf x)
{
    const vf zero = v_set(0.0f), one = v_set(1.0f);
    const vi flat = x >= one;
    return (pairs){.loss = v_select(flat, zero, one - x),
                   .by_a = v_select(flat, zero, -one),
                   .unsure = ~(v_abs(x) < v_set(0x1p60f))};
}

/* sign: 1 of what is preferred, else -1. */
SIMD_INLINE pairs pairs_kto(const pair_options *o, vf a, vf sign, vf kl)
{
    const vf moved = a - kl, by = sign * o->beta;
    const logistics u = logistics_of(by * moved);
    return (pairs){.loss = u.down,
                   .margin = by * moved,
                   .by_a = -(by * u.up * u.down),
                   .unsure = u.unsure | cancels(moved, a)};
}

/* a, b: log-probabilities less those of the reference. */
SIMD_INLINE pairs pairs_of_two(const pair_options *o, vf a, vf b)
{
    const vf x = o->beta * (a - b) - o->gamma;
    pairs t;
    if (o->type == TG_DPO_SIGMOID)
        t = pairs_sigmoid(o, x);
    else if (o->type == TG_DPO_HINGE)
        t = pairs_hinge(x);
    else if (o->type == TG_DPO_ROBUST)
        t = pairs_robust(o, x);
    else
        return pairs_of_others(o, a, b, x);
    t.by_a = o->beta * t.by_a;
    t.by_b = -t.by_a;
    t.margin = x;
    return t;
}

/* ---- losses [i, i + n) ---- */

SIMD_INLINE vf signs_of(const int64_t *preferred, int64_t i, int64_t n)
{
    vf sign = {0};
    for (int64_t k = 0; k < n; k++)
        sign[k] = preferred[i + k] ? 1.0f : -1.0f;
    return sign;
}

/* 0 in lanes that are not there; ratio: log-probabilities less the reference's. */
SIMD_INLINE pairs pairs_at(const pair_job *j, const pair_options *o, int64_t i, int64_t n,
                           vf ratio[2])
{
    const vf zero = v_set(0.0f);
    const vi first = v_first(n);
    for (int c = 0; c < 2; c++)
        ratio[c] = numbers_get(&j->logp[c], i, n) - numbers_get(&j->ref[c], i, n);
    pairs t = {.unsure = v_seti(-1)};
    if (j->takes && j->two)
        t = pairs_of_two(o, ratio[0], ratio[1]);
    else if (j->takes)
        t = pairs_kto(o, ratio[0], signs_of(tg_data(j->p.preferred), i, n),
                      numbers_get(&j->kl, i, n));
    const vi unsure = t.unsure & first;
    if (v_any(unsure)) {
        pairs d;
        pairs_define(&j->p, i, unsure, &d);
        t = (pairs){v_select(unsure, d.loss, t.loss), v_select(unsure, d.margin, t.margin),
                    v_select(unsure, d.by_a, t.by_a), v_select(unsure, d.by_b, t.by_b), unsure};
    }
    t.loss = v_select(first, t.loss, zero);
    return t;
}

#endif
