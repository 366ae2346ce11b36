/* jsd, plain and in double: the definition. */
#include "rows/counts.h"
#include "rows/divergence.h"

/* Sum of the losses of rows that count; the gradient too, if asked for. */
static double run(double beta, row_labels labels, const tg_rows *student, const tg_rows *teacher,
                  const tg_rows *dstudent, double g)
{
    double sum = 0;
    for (int64_t row = 0; row < student->rows; row++)
        for (int64_t i = 0; i < student->n; i++) {
            divergence e = {0, 0};
            if (!row_ignored(labels, row))
                e = divergence_of(tg_row_get(student, row, i), tg_row_get(teacher, row, i), beta);
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
