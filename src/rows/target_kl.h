/* src/rows/target_kl.h - the divergence of a row of logits' softmax from given probabilities, in
 * double: what the definitions of softmax_kl_div and fused_linear_kl_div stand on. Plain C. */
#ifndef TG_ROWS_TARGET_KL_H
#define TG_ROWS_TARGET_KL_H

#include "rows/divergence.h"
#include "rows/odds.h"

/* The row's divergence. x: its logits over the temperature, which become g times its gradient by
 * them. The likeliest class stands apart: with nearly all of the probability, p is 1 less what the
 * others have. */
static inline double target_kl_of_row(double *x, const double *target, int64_t n, double eps,
                                      double g)
{
    if (n == 0)
        return 0;
    const int64_t best = odds_argmax(x, n);
    const odds_sum s = odds_sum_of(x, n, best);
    const double doubt = odds_doubt(x, n, best, &s);
    double loss = 0, rest = 0;
    for (int64_t v = 0; v < n; v++) {
        const double t = target[v];
        loss += divergence_term(t, log(t < eps ? eps : t) - odds_log_p(x[v], &s));
        rest += v == best ? 0 : t;
    }
    for (int64_t v = 0; v < n; v++) {
        const double t = target[v], p = exp(odds_log_p(x[v], &s));
        x[v] = g * (v == best ? rest * p - t * doubt : (rest + target[best]) * p - t);
    }
    return loss;
}

#endif
