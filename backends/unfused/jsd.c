/* jsd as an eager framework runs it: a pass for each elementary step, in f32. */
#include <float.h>

#include "eager.h"

typedef struct eager_jsd {
    eager e;
    double beta;
    row_labels labels;
    mat x, y;           /* student, teacher */
    mat loss, gradient; /* of every element */
} eager_jsd;

static mat matrix(eager_jsd *s)
{
    return eager_new(&s->e, TG_F32, s->x.rows, s->x.cols);
}

/* weight, and weight * (a - b) */
static mat weighted(eager_jsd *s, mat weight, mat a, mat b)
{
    const mat difference = matrix(s), product = matrix(s);
    eager_binary(&s->e, EAGER_SUB, difference, a, b);
    eager_binary(&s->e, EAGER_MUL, product, weight, difference);
    eager_free(&s->e, difference);
    return product;
}

/* One divergence alone: weight = exp(a), weight * (a - b). */
static void one_sided(eager_jsd *s, int reverse)
{
    const mat a = reverse ? s->x : s->y, b = reverse ? s->y : s->x, weight = matrix(s);
    eager_unary(&s->e, EAGER_EXP, weight, a);
    s->loss = weighted(s, weight, a, b);
    s->gradient = matrix(s);
    if (reverse)
        eager_binary(&s->e, EAGER_ADD, s->gradient, s->loss, weight);
    else
        eager_unary(&s->e, EAGER_NEG, s->gradient, weight);
    eager_free(&s->e, weight);
}

static void mixture(eager_jsd *s)
{
    const mat p = matrix(s), q = matrix(s), m = matrix(s), log_m = matrix(s);
    const mat part = matrix(s);
    eager_unary(&s->e, EAGER_EXP, part, s->y);
    eager_scalar(&s->e, EAGER_MUL, p, part, s->beta);
    eager_unary(&s->e, EAGER_EXP, part, s->x);
    eager_scalar(&s->e, EAGER_MUL, q, part, 1 - s->beta);
    eager_binary(&s->e, EAGER_ADD, m, p, q);
    /* Both may be 0: then so are their terms, whatever the logarithm. */
    eager_scalar(&s->e, EAGER_MAX, m, m, FLT_MIN);
    eager_unary(&s->e, EAGER_LOG, log_m, m);
    eager_free(&s->e, part);
    const mat of_teacher = weighted(s, p, s->y, log_m);
    s->gradient = weighted(s, q, s->x, log_m);
    s->loss = matrix(s);
    eager_binary(&s->e, EAGER_ADD, s->loss, of_teacher, s->gradient);
    eager_free(&s->e, p);
    eager_free(&s->e, q);
    eager_free(&s->e, m);
    eager_free(&s->e, log_m);
    eager_free(&s->e, of_teacher);
}

static eager_jsd begin(tg_ctx *ctx, double beta, row_labels labels, const tg_tensor *student,
                       const tg_tensor *teacher)
{
    eager_jsd s = {.e = eager_begin(ctx),
                   .beta = beta,
                   .labels = labels,
                   .x = eager_rows(student),
                   .y = eager_rows(teacher)};
    if (beta == 0 || beta == 1)
        one_sided(&s, beta == 1);
    else
        mixture(&s);
    return s;
}

static double loss_of(eager_jsd *s)
{
    const mat sums = eager_new(&s->e, TG_F32, s->x.rows, 1);
    eager_reduce_rows(&s->e, EAGER_SUM, sums, s->loss);
    double sum = 0;
    for (int64_t r = 0; !s->e.status && r < s->x.rows; r++)
        sum += row_ignored(s->labels, r) ? 0 : ((const float *)sums.data)[r];
    return sum * share(rows_counted(s->labels, s->x.rows));
}

static void write_gradient(eager_jsd *s, const tg_tensor *dloss, const tg_tensor *dstudent)
{
    const mat out = eager_rows(dstudent);
    const double g = dloss ? *(const float *)tg_data(dloss) : 1;
    eager_scalar(&s->e, EAGER_MUL, out, s->gradient, g * share(rows_counted(s->labels, out.rows)));
    eager_drop_rows(&s->e, s->labels, out);
}

static tg_status forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    const row_labels labels = labels_of(args->labels, args->ignore_index);
    eager_jsd s = begin(ctx, args->beta, labels, args->student, args->teacher);
    const double loss = loss_of(&s);
    if (args->dstudent)
        write_gradient(&s, args->dloss, args->dstudent);
    if (!s.e.status)
        *(float *)tg_data(args->loss) = (float)loss;
    return eager_end(&s.e);
}

static tg_status backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    const row_labels labels = labels_of(args->labels, args->ignore_index);
    eager_jsd s = begin(ctx, args->beta, labels, args->student, args->teacher);
    write_gradient(&s, args->dloss, args->dstudent);
    return eager_end(&s.e);
}

UNFUSED_IMPLS(jsd) = {UNFUSED_IMPL(jsd_forward, forward), UNFUSED_IMPL(jsd_backward, backward),
                      TG_IMPLS_END};
