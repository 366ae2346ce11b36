/* toy_divergence.c - softmax_jsd, in double: with gemm and sum_rows the device has fused_linear_jsd. */
#include <math.h>

#include "toy.h"

/* The arguments of either direction. */
typedef struct divergence {
    toy_rows student, teacher, dstudent, dloss;
    const tg_tensor *labels;
    int64_t first, batch, ignored;
    double beta, temperature, grad_scale;
} divergence;

#define DIVERGENCE(a)                                                                     \
    (divergence)                                                                          \
    {                                                                                     \
        .student = toy_rows_of((a)->student), .teacher = toy_rows_of((a)->teacher),       \
        .dstudent = toy_rows_of((a)->dstudent), .dloss = toy_rows_of((a)->dloss),         \
        .labels = (a)->labels, .first = (a)->first_row,                                   \
        .batch = (a)->batch_rows ? (a)->batch_rows : toy_rows_of((a)->student).rows,      \
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

/* log_softmax of a row: x / temperature - lse */
static double lse(const divergence *d, const toy_rows *x, int64_t i)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < x->n; j++)
        most = fmax(most, toy_get(x, i, j) / d->temperature);
    for (int64_t j = 0; j < x->n; j++)
        sum += exp(toy_get(x, i, j) / d->temperature - most);
    return most + log(sum);
}

static double product(double weight, double logarithm)
{
    return weight == 0 ? 0 : weight * logarithm;
}

/* The loss of one class and, by the student's log-probability, its gradient. */
static double term(double x, double y, double beta, double *gradient)
{
    const double q = exp(x), p = exp(y);
    if (beta == 0)
        return *gradient = -p, product(p, y - x);
    if (beta == 1)
        return *gradient = product(q, x - y) + q, product(q, x - y);
    const double w = x > y ? beta : 1 - beta;
    const double m = x == y ? x : fmax(x, y) + log1p(w * expm1(-fabs(x - y)));
    *gradient = product((1 - beta) * q, x - m);
    return product(beta * p, y - m) + *gradient;
}

/* The loss of a row; its gradient, times g, if it is asked for. */
static double run_row(const divergence *d, int64_t i, double g)
{
    const toy_rows *x = &d->student, *y = &d->teacher;
    const double of_x = lse(d, x, i), of_y = lse(d, y, i);
    double loss = 0, sum = 0, gradient;
    for (int pass = 0; pass < (d->dstudent.data ? 2 : 1); pass++)
        for (int64_t j = 0; j < x->n; j++) {
            const double log_q = toy_get(x, i, j) / d->temperature - of_x;
            const double log_p = toy_get(y, i, j) / d->temperature - of_y;
            const double one = term(log_q, log_p, d->beta, &gradient);
            if (pass == 0)
                loss += one, sum += gradient;
            else
                toy_set(&d->dstudent, i, j, g * (gradient - exp(log_q) * sum));
        }
    return loss;
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
    const toy_rows loss = toy_rows_of(a->loss);
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
