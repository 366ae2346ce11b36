/* src/rows/divergence.h - the generalised Jensen-Shannon divergence in double: what the definitions of jsd, softmax_jsd and
 * fused_linear_jsd stand on. Plain C. */
#ifndef TG_ROWS_DIVERGENCE_H
#define TG_ROWS_DIVERGENCE_H

#include <math.h>
#include <stdint.h>

/* weight * logarithm; nothing if the weight is 0. */
static inline double divergence_term(double weight, double logarithm)
{
    return weight == 0 ? 0 : weight * logarithm;
}

/* log(beta exp(y) + (1 - beta) exp(x)), 0 < beta < 1, without leaving logarithms: with m the larger of
 * the two and w the weight of the smaller, m + log(1 + w (exp(smaller - m) - 1)). */
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

/* Logits of a row, divided by the temperature, become log-probabilities. */
static inline void divergence_log_softmax(double *x, int64_t n)
{
    double most = -INFINITY, total = 0;
    for (int64_t v = 0; v < n; v++)
        most = fmax(most, x[v]);
    for (int64_t v = 0; v < n; v++)
        total += exp(x[v] - most);
    for (int64_t v = 0; v < n; v++)
        x[v] -= most + log(total);
}

/* Of a row of log-probabilities; gradient: g times that by what the student's softmax was taken of. */
static inline double divergence_of_row(const double *student, const double *teacher, int64_t n,
                                       double beta, double g, double *gradient)
{
    double loss = 0, sum = 0;
    for (int64_t v = 0; v < n; v++) {
        const divergence d = divergence_of(student[v], teacher[v], beta);
        loss += d.loss;
        gradient[v] = d.gradient;
        sum += d.gradient;
    }
    for (int64_t v = 0; v < n; v++)
        gradient[v] = g * (gradient[v] - exp(student[v]) * sum);
    return loss;
}

#endif
