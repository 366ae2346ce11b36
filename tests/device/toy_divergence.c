/* toy_divergence.c - softmax_jsd, rounded once: with gemm and sum_rows the device has fused_linear_jsd. */
#include <math.h>

#include "toy.h"

/* The arguments of either direction. */
typedef struct divergence {
    tg_rows student, teacher, dstudent, dloss;
    const tg_tensor *labels;
    int64_t first, batch, ignored;
    double beta, temperature, grad_scale;
} divergence;

#define DIVERGENCE(a)                                                                     \
    (divergence)                                                                          \
    {                                                                                     \
        .student = tg_rows_of((a)->student), .teacher = tg_rows_of((a)->teacher),         \
        .dstudent = tg_rows_of((a)->dstudent), .dloss = tg_rows_of((a)->dloss),           \
        .labels = (a)->labels, .first = (a)->first_row,                                   \
        .batch = (a)->batch_rows ? (a)->batch_rows : tg_rows_of((a)->student).rows,       \
        .ignored = (a)->ignore_index, .beta = (a)->beta, .temperature = (a)->temperature, \
        .grad_scale = (a)->grad_scale                                                     \
    }

static int ignored(const divergence *d, int64_t batch_row)
{
    return d->labels && ((const int64_t *)d->labels->data)[batch_row] == d->ignored;
}

/* 1 / n; 0 if no row counts. */
static double share(const divergence *d)
{
    int64_t n = 0;
    for (int64_t i = 0; i < d->batch; i++)
        n += !ignored(d, i);
    return n ? 1 / (double)n : 0;
}

/* log_softmax of a row: x / temperature - lse. In long double: the gradient of a row predicted with near certainty is a difference. */
static long double lse(const divergence *d, const tg_rows *x, int64_t i)
{
    long double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < x->n; j++)
        most = fmaxl(most, toy_get(x, i, j) / (long double)d->temperature);
    for (int64_t j = 0; j < x->n; j++)
        sum += expl(toy_get(x, i, j) / (long double)d->temperature - most);
    return most + logl(sum);
}

static long double product(long double weight, long double logarithm)
{
    return weight == 0 ? 0 : weight * logarithm;
}

/* The loss of one class and, by the student's log-probability, its gradient. */
static long double term(long double x, long double y, long double beta, long double *gradient)
{
    const long double q = expl(x), p = expl(y);
    if (beta == 0)
        return *gradient = -p, product(p, y - x);
    if (beta == 1)
        return *gradient = product(q, x - y) + q, product(q, x - y);
    const long double w = x > y ? beta : 1 - beta;
    const long double m = x == y ? x : fmaxl(x, y) + log1pl(w * expm1l(-fabsl(x - y)));
    *gradient = product((1 - beta) * q, x - m);
    return product(beta * p, y - m) + *gradient;
}

/* The loss of a row; its gradient, times g, if it is asked for: d - q sum of all d. For the likeliest class that is d (1 - q) - q times
 * the others' sum, where 1 - q is the sum of the others. */
static double run_row(const divergence *d, int64_t i, double g)
{
    const tg_rows *x = &d->student, *y = &d->teacher;
    const long double of_x = lse(d, x, i), of_y = lse(d, y, i);
    long double loss = 0, q_of_others = 0, d_of_others = 0, d_of_likeliest = 0, gradient;
    int64_t likeliest = 0;
    for (int64_t j = 1; j < x->n; j++)
        if (toy_get(x, i, j) > toy_get(x, i, likeliest))
            likeliest = j;
    for (int pass = 0; pass < (d->dstudent.data ? 2 : 1); pass++)
        for (int64_t j = 0; j < x->n; j++) {
            const long double log_q = toy_get(x, i, j) / (long double)d->temperature - of_x;
            const long double log_p = toy_get(y, i, j) / (long double)d->temperature - of_y;
            const long double one = term(log_q, log_p, d->beta, &gradient), q = expl(log_q);
            if (pass == 0 && j == likeliest)
                loss += one, d_of_likeliest = gradient;
            else if (pass == 0)
                loss += one, q_of_others += q, d_of_others += gradient;
            else if (j == likeliest)
                toy_set(&d->dstudent, i, j,
                        (double)(g * (gradient * q_of_others - q * d_of_others)));
            else
                toy_set(&d->dstudent, i, j,
                        (double)(g * (gradient - q * (d_of_likeliest + d_of_others))));
        }
    return (double)loss;
}

static double run(const divergence *d)
{
    const double dloss = d->dloss.data ? toy_get(&d->dloss, 0, 0) : 1, part = share(d);
    double loss = 0;
    for (int64_t i = 0; i < d->student.rows; i++) {
        if (!ignored(d, d->first + i))
            loss += run_row(d, i, dloss * part / d->temperature * d->grad_scale);
        else
            for (int64_t j = 0; d->dstudent.data && j < d->student.n; j++)
                toy_set(&d->dstudent, i, j, 0);
    }
    return loss * part;
}

static void forward(toy_call *call)
{
    const tg_softmax_jsd_forward_args *a = (const void *)call->slot;
    const divergence d = DIVERGENCE(a);
    const tg_rows loss = tg_rows_of(a->loss);
    toy_set(&loss, 0, 0, run(&d));
}

static void backward(toy_call *call)
{
    const tg_softmax_jsd_backward_args *a = (const void *)call->slot;
    const divergence d = DIVERGENCE(a);
    run(&d);
}

TOY_FUNCTION(softmax_jsd_forward, forward, 0)
TOY_FUNCTION(softmax_jsd_backward, backward, 0)

const tg_impl toy_divergence_impls[] = {
    TG_IMPL(softmax_jsd_forward, "", 0, TG_TAKES_FLOATS, NULL, toy_softmax_jsd_forward),
    TG_IMPL(softmax_jsd_backward, "", 0, TG_TAKES_FLOATS, NULL, toy_softmax_jsd_backward),
    TG_IMPLS_END,
};
