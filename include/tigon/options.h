/* tigon/options.h - options that both directions of an operator have, in one form for both: for
 * backends and for the library itself. The functions are inline and need no library. */
#ifndef TIGON_OPTIONS_H
#define TIGON_OPTIONS_H

#include "tigon/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rope: both directions are one map, or its transpose ---- */

typedef struct tg_rope_options {
    int64_t rotary_dim, rotary_start, position_offset, pairing;
    int transposed; /* an inverse forward, or the backward of one that is not inverse */
} tg_rope_options;

static inline tg_rope_options tg_rope_forward_options(const tg_rope_forward_args *args)
{
    const tg_rope_options o = {args->rotary_dim, args->rotary_start, args->position_offset,
                               args->pairing, args->inverse != 0};
    return o;
}

static inline tg_rope_options tg_rope_backward_options(const tg_rope_backward_args *args)
{
    const tg_rope_options o = {args->rotary_dim, args->rotary_start, args->position_offset,
                               args->pairing, args->inverse == 0};
    return o;
}

/* The pairs that are turned of a row of `width` elements. */
static inline int64_t tg_rope_pairs(const tg_rope_options *o, int64_t width)
{
    return (o->rotary_dim ? o->rotary_dim : width - o->rotary_start) / 2;
}

/* 1 if the elements of a pair are neighbours, 0 if they lie half of the rotary width apart: in
 * what is turned (behind: 0), or in the result (1). */
static inline int tg_rope_is_adjacent(const tg_rope_options *o, int behind)
{
    return o->pairing == TG_ADJACENT ||
           (o->pairing == TG_ADJACENT_TO_HALVES && behind == o->transposed);
}

/* ---- grpo_loss; counts of 0 stand for their defaults ---- */

typedef struct tg_grpo_options {
    int64_t type, sequence, each, corrected, length;
    double beta, low, high, delta, items;
    double sapo_pos, sapo_neg, k_pos, lambda_pos, k_neg, lambda_neg;
} tg_grpo_options;

/* Their initialiser, of the arguments of either direction. */
#define TG_GRPO_OPTIONS(args)                                                                \
    {                                                                                        \
        (args)->loss_type, (args)->importance_sampling_level, (args)->reduction == TG_NONE,  \
            (args)->use_bias_correction_kl, (args)->max_completion_length, (args)->beta,     \
            (args)->eps_low, (args)->eps_high, (args)->delta, (args)->num_items_in_batch,    \
            (args)->sapo_temperature_pos, (args)->sapo_temperature_neg, (args)->vespo_k_pos, \
            (args)->vespo_lambda_pos, (args)->vespo_k_neg, (args)->vespo_lambda_neg          \
    }

#ifdef __cplusplus
}
#endif

#endif
