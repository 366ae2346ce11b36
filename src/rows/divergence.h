/* src/rows/divergence.h - the generalised Jensen-Shannon divergence in double: what the definitions
 * of jsd, softmax_jsd and fused_linear_jsd stand on. Plain C. */
#ifndef TG_ROWS_DIVERGENCE_H
#define TG_ROWS_DIVERGENCE_H

#include <math.h>
#include <stdint.h>

/* weight * logarithm; nothing if the weight is 0. */
static inline double divergence_term(double weight, double logarithm)
{
    return weight == 0 ? 0 : weight * logarithm;
}

/* log(beta exp(y) + (1 - beta) exp(x)), 0 < beta < 1, without leaving logarithms: with m the larger
 * of the two and w the weight of the smaller, m + log(1 + w (exp(smaller - m) - 1)). */
static inline double divergence_mixture(double x, double y, double beta)
{
    if (x == y)
        return x; /* both may be -inf */
    const double larger = x > y ? x : y, smaller = x > y ? y : x;
    const double difference = isnan(x - y) ? x - y : smaller - larger;
    return larger + log1p((x > y ? beta : 1 - beta) * expm1(difference));
}

typedef struct divergence {
    double loss, gradient; /* by x */
} divergence;

/* Of one class: x, y the log-probabilities of student and teacher. */
static inline divergence divergence_of(double x, double y, double beta)
{
    const double q = exp(x), p = exp(y);
    if (beta == 0)
        return (divergence){divergence_term(p, y - x), -p};
    if (beta == 1)
        return (divergence){divergence_term(q, x - y), divergence_term(q, x - y) + q};
    const double m = divergence_mixture(x, y, beta);
    const double of_student = divergence_term((1 - beta) * q, x - m);
    return (divergence){divergence_term(beta * p, y - m) + of_student, of_student};
}

/* exp(x) - exp(y), by its size relative to the larger: exact where both are nearly 1. */
static inline double divergence_difference(double x, double y)
{
    if (x == y)
        return 0; /* both may be -inf */
    return x > y ? -exp(x) * expm1(y - x) : exp(y) * expm1(x - y);
}

/* The first of the largest. */
static inline int64_t divergence_likeliest(const double *x, int64_t n)
{
    int64_t top = 0;
    for (int64_t v = 1; v < n; v++)
        if (x[v] > x[top])
            top = v;
    return top;
}

/* Logits of a row, divided by the temperature, become log-probabilities. The largest stands apart:
 * that of a class with nearly all of the probability is what the others have. */
static inline void divergence_log_softmax(double *x, int64_t n)
{
    const int64_t top = divergence_likeliest(x, n);
    const double most = n > 0 ? x[top] : 0;
    double others = 0;
    for (int64_t v = 0; v < n; v++)
        others += v == top ? 0 : exp(x[v] - most);
    for (int64_t v = 0; v < n; v++)
        x[v] = x[v] - most - log1p(others);
}

/* Of one class that the student knows, 0 < beta: the gradient by its logit is its probability times
 * what this is above the student's mean of it. All of a row may be less the same: they are less
 * that of a class that the teacher does not know, if beta < 1. */
static inline double divergence_slope(double x, double y, double beta)
{
    if (beta == 1)
        return x - y;
    const double relative = y < x ? -log1p(beta / (1 - beta) * exp(y - x))
                                  : x - divergence_mixture(x, y, beta) + log1p(-beta);
    return (1 - beta) * relative;
}

/* Of a row of log-probabilities; gradient: g times that by what the student's softmax was taken of.
 * Slopes are relative to that of the likeliest class, which then is out of their mean: with nearly
 * all of the probability it leaves little of the others. */
static inline double divergence_of_row(const double *student, const double *teacher, int64_t n,
                                       double beta, double g, double *gradient)
{
    double loss = 0, mean = 0;
    for (int64_t v = 0; v < n; v++) {
        loss += divergence_of(student[v], teacher[v], beta).loss;
        gradient[v] = student[v] == -INFINITY || beta == 0
                          ? 0
                          : divergence_slope(student[v], teacher[v], beta);
    }
    const double top = n > 0 ? gradient[divergence_likeliest(student, n)] : 0;
    for (int64_t v = 0; v < n; v++) {
        gradient[v] -= isinf(top) ? 0 : top;
        mean += divergence_term(exp(student[v]), gradient[v]);
    }
    for (int64_t v = 0; v < n; v++)
        gradient[v] = g * (beta == 0 ? divergence_difference(student[v], teacher[v])
                                     : exp(student[v]) * (gradient[v] - mean));
    return loss;
}

#endif
