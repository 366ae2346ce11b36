/* softmax_jsd: what the arguments must be. */
#include "core/services.h"

/* The arguments of both directions as they were given; loss is NULL in backward. */
typedef struct arguments {
    const char *op;
    const tg_tensor *student, *teacher, *labels, *dloss, *loss, *dstudent;
    int64_t first_row, batch_rows;
    double beta, temperature;
} arguments;

#define COMMON(a)                                                                                 \
    .student = (a)->student, .teacher = (a)->teacher, .labels = (a)->labels, .dloss = (a)->dloss, \
    .dstudent = (a)->dstudent, .first_row = (a)->first_row, .batch_rows = (a)->batch_rows,        \
    .beta = (a)->beta, .temperature = (a)->temperature

/* The rows are a part of the batch's. */
static tg_status check_batch(const arguments *a)
{
    int64_t rows = 1;
    for (int i = 0; i < a->student->ndim - 1; i++)
        rows *= a->student->shape[i];
    const int64_t batch = a->batch_rows ? a->batch_rows : rows;
    TG_TRY(tg_expect_i64(a->op, "batch_rows", batch, rows, INT64_MAX));
    TG_TRY(tg_expect_i64(a->op, "first_row", a->first_row, 0, batch - rows));
    return tg_expect_numel(a->op, "labels", a->labels, batch,
                           "batch_rows, which is the number of rows of student by default");
}

static tg_status check(const arguments *a)
{
    static const char one[] = "one for a reduced loss";
    const char *op = a->op;
    TG_TRY(tg_expect_rows(op, "student", a->student));
    TG_TRY(tg_expect_same_shape(op, "teacher", a->teacher, "student", a->student));
    TG_TRY(check_batch(a));
    TG_TRY(tg_expect_f64(op, "beta", a->beta, 0, 1));
    TG_TRY(tg_expect_f64(op, "temperature", a->temperature, 0x1p-60, 0x1p60));
    TG_TRY(tg_expect_numel(op, "dloss", a->dloss, 1, one));
    TG_TRY(tg_expect_numel(op, "loss", a->loss, 1, one));
    return tg_expect_gradient(op, "dstudent", a->dstudent, "student", a->student);
}

tg_status tg_check_softmax_jsd_forward(const tg_softmax_jsd_forward_args *args)
{
    const arguments a = {.op = "softmax_jsd_forward", COMMON(args), .loss = args->loss};
    return check(&a);
}

tg_status tg_check_softmax_jsd_backward(const tg_softmax_jsd_backward_args *args)
{
    const arguments a = {.op = "softmax_jsd_backward", COMMON(args)};
    return check(&a);
}
