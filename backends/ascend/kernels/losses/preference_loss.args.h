/* preference_loss.args.h - what the kernel of preference_loss is given; see asc_args.h. */
#ifndef PREFERENCE_LOSS_ARGS_H
#define PREFERENCE_LOSS_ARGS_H

#include "shared/asc_any.args.h"
#include "shared/asc_args.h"

/* Formulas, s the logistic function, of a and b, log-probabilities less the reference's, and of
 * x = beta (a - b) - gamma:
 *   LOGARITHMS    p ln s(x) + q ln s(-x)
 *   HINGE         max(1 - x, 0)
 *   DIVERGENCE    s(x) (ln s(x) - p) + s(-x) (ln s(-x) - q)
 *   DISCOPOP      m exp(-x) - (1 - m) ln s(x), m = s(p x)
 *   EACH          p ln s(beta a) + q ln s(-beta a) + r ln s(-beta b)
 *   SQUARES       (a - p)^2 + (b + p)^2
 *   ZERO          s(-beta a) + s(beta b)
 *   DOWN          s(beta a) + s(-x)
 *   ODDS          -beta ln s(difference of the logarithms of odds)
 *   ONE           s(-u), u = beta (a - kl), or its negative where a sequence is not preferred */
enum {
    PREFERENCE_LOGARITHMS,
    PREFERENCE_HINGE,
    PREFERENCE_DIVERGENCE,
    PREFERENCE_DISCOPOP,
    PREFERENCE_EACH,
    PREFERENCE_SQUARES,
    PREFERENCE_ZERO,
    PREFERENCE_DOWN,
    PREFERENCE_ODDS,
    PREFERENCE_ONE
};

/* logp, ref [sequences, columns]; what is absent is NULL. sums: of each block of its losses times
 * share. Forward: loss or sums, rewards, margin; backward: dlogp, times share and times dloss, of
 * each loss or one of all. */
#define PREFERENCE_LOSS(X)                                               \
    X(VECTOR, logp, void)                                                \
    X(VECTOR, ref, void)                                                 \
    X(VECTOR, preferred, int64_t)                                        \
    X(VECTOR, kl, float)                                                 \
    X(VECTOR, dloss, float)                                              \
    X(VECTOR, loss, float)                                               \
    X(MEMORY, sums, float)                                               \
    X(VECTOR, rewards, float)                                            \
    X(VECTOR, margin, float)                                             \
    X(VECTOR, dlogp, void)                                               \
    X(GRID, rows, columns, tile_rows, tile_columns)                      \
    X(I64, type)                                                         \
    X(I64, ref_type)                                                     \
    X(I64, sequences)                                                    \
    X(I64, formula)                                                      \
    X(I64, kl_each)                                                      \
    X(I64, dloss_each)                                                   \
    X(I64, sums_stride)                                                  \
    X(F32, beta)                                                         \
    X(F32, gamma)                                                        \
    X(F32, p)                                                            \
    X(F32, q)                                                            \
    X(F32, r)                                                            \
    X(F32, share)                                                        \
    X(BUFFER, in, .bytes = 8, .to = TG_UB_LAST)                          \
    X(BUFFER, wide, .bytes = 8, .to = TG_UB_LAST)                        \
    X(BUFFER, a, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, b, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, kl, .bytes = 4, .to = TG_UB_LAST)                          \
    X(BUFFER, sign, .bytes = 4, .to = TG_UB_LAST)                        \
    X(BUFFER, upstream, .bytes = 4, .to = TG_UB_LAST)                    \
    X(BUFFER, loss, .bytes = 4, .to = TG_UB_LAST)                        \
    X(BUFFER, x, .bytes = 4, .to = TG_UB_LAST)                           \
    X(BUFFER, by_a, .bytes = 4, .to = TG_UB_LAST)                        \
    X(BUFFER, by_b, .bytes = 4, .to = TG_UB_LAST)                        \
    X(BUFFER, t, .bytes = 4 * 6, .to = TG_UB_LAST)                       \
    X(BUFFER, lanes, .per = TG_UB_FIXED, .bytes = 256, .to = TG_UB_LAST) \
    X(BUFFER, part, .per = TG_UB_FIXED, .bytes = 32, .to = TG_UB_LAST)

#endif
