/* jsd, plain and in double: the definition. */
#include <math.h>

#include "rows/counts.h"

/* weight * logarithm; nothing if the weight is 0. */
static double term(double weight, double logarithm)
{
    return weight == 0 ? 0 : weight * logarithm;
}

/* log(beta exp(y) + (1 - beta) exp(x)), 0 < beta < 1, without leaving logarithms: with m the larger of
 * the two and w the weight of the smaller, m + log(1 + w (exp(smaller - m) - 1)). */
static double log_mixture(double x, double y, double beta)
{
    if (x == y)
        return x; /* both may be -inf */
    const double larger = x > y ? x : y, smaller = x > y ? y : x;
    const double difference = isnan(x - y) ? x - y : smaller - larger;
    return larger + log1p((x > y ? beta : 1 - beta) * expm1(difference));
}

typedef struct element {
    double loss, gradient;
} element;

static element element_of(double x, double y, double beta)
{
    const double q = exp(x), p = exp(y);
    if (beta == 0)
        return (element){term(p, y - x), -p};
    if (beta == 1)
        return (element){term(q, x - y), term(q, x - y) + q};
    const double m = log_mixture(x, y, beta);
    const double of_student = term((1 - beta) * q, x - m);
    return (element){term(beta * p, y - m) + of_student, of_student};
}

static double get(const tg_rows *t, int64_t row, int64_t i)
{
    return tg_get(t->data, t->type, row * t->stride + i);
}

/* Sum of the losses of rows that count; the gradient too, if asked for. */
static double run(double beta, row_labels labels, const tg_rows *student, const tg_rows *teacher,
                  const tg_rows *dstudent, double g)
{
    double sum = 0;
    for (int64_t row = 0; row < student->rows; row++)
        for (int64_t i = 0; i < student->n; i++) {
            element e = {0, 0};
            if (!row_ignored(labels, row))
                e = element_of(get(student, row, i), get(teacher, row, i), beta);
            sum += e.loss;
            if (dstudent->data)
                tg_set(dstudent->data, dstudent->type, row * dstudent->stride + i, g * e.gradient);
        }
    return sum;
}

static double upstream(const tg_tensor *dloss)
{
    return dloss ? tg_get(tg_data(dloss), tg_type_of(dloss), 0) : 1;
}

static tg_status forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    (void)ctx;
    const row_labels labels = row_labels_of(args->labels, args->ignore_index);
    const tg_rows student = tg_rows_of(args->student), teacher = tg_rows_of(args->teacher);
    const tg_rows dstudent = tg_rows_of(args->dstudent);
    const double scale = rows_share(labels, student.rows);
    const double sum =
        run(args->beta, labels, &student, &teacher, &dstudent, upstream(args->dloss) * scale);
    tg_set(tg_data(args->loss), tg_type_of(args->loss), 0, sum * scale);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    (void)ctx;
    const row_labels labels = row_labels_of(args->labels, args->ignore_index);
    const tg_rows student = tg_rows_of(args->student), teacher = tg_rows_of(args->teacher);
    const tg_rows dstudent = tg_rows_of(args->dstudent);
    run(args->beta, labels, &student, &teacher, &dstudent,
        upstream(args->dloss) * rows_share(labels, student.rows));
    return TG_OK;
}

TG_REF_IMPLS(jsd) = {TG_REF_IMPL(jsd_forward, forward), TG_REF_IMPL(jsd_backward, backward),
                     TG_IMPLS_END};
