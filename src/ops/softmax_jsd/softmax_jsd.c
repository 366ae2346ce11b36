/* softmax_jsd: what its shapes do not say of the arguments. */
#include "rows/batch.h"

/* The arguments of both directions that are checked. */
typedef struct arguments {
    const char *op;
    const tg_tensor *student, *dstudent;
    int64_t first_row, batch_rows;
    double beta, temperature;
} arguments;

#define COMMON(a)                                                                    \
    .student = (a)->student, .dstudent = (a)->dstudent, .first_row = (a)->first_row, \
    .batch_rows = (a)->batch_rows, .beta = (a)->beta, .temperature = (a)->temperature

static tg_status check(const arguments *a)
{
    TG_TRY(batch_expect(a->op, a->student, a->first_row, a->batch_rows));
    TG_TRY(tg_expect_f64(a->op, "beta", a->beta, 0, 1));
    TG_TRY(tg_expect_f64(a->op, "temperature", a->temperature, 0x1p-60, 0x1p60));
    return tg_expect_gradient(a->op, "dstudent", a->dstudent, "student", a->student);
}

tg_status tg_check_softmax_jsd_forward(const tg_softmax_jsd_forward_args *args)
{
    return check(&(arguments){.op = "softmax_jsd_forward", COMMON(args)});
}

tg_status tg_check_softmax_jsd_backward(const tg_softmax_jsd_backward_args *args)
{
    return check(&(arguments){.op = "softmax_jsd_backward", COMMON(args)});
}
