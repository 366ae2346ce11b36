/* jsd: what the arguments must be. */
#include "core/services.h"

/* The arguments that both directions have. */
typedef struct jsd_common {
    const char *op;
    const tg_tensor *student, *teacher, *labels, *dloss, *dstudent;
    double beta;
} jsd_common;

static tg_status check_common(const jsd_common *c)
{
    static const char one[] = "one for a reduced loss";
    const tg_tensor *student = c->student;
    TG_TRY(tg_expect_rows(c->op, "student", student));
    TG_TRY(tg_expect_same_shape(c->op, "teacher", c->teacher, "student", student));
    TG_TRY(tg_expect_same_shape(c->op, "dstudent", c->dstudent, "student", student));
    int64_t rows = 1;
    for (int i = 0; i < student->ndim - 1; i++)
        rows *= student->shape[i];
    TG_TRY(tg_expect_numel(c->op, "labels", c->labels, rows, "the number of rows of student"));
    TG_TRY(tg_expect_numel(c->op, "dloss", c->dloss, 1, one));
    return tg_expect_f64(c->op, "beta", c->beta, 0, 1);
}

tg_status tg_check_jsd_forward(const tg_jsd_forward_args *a)
{
    const jsd_common c = {"jsd_forward", a->student,  a->teacher, a->labels,
                          a->dloss,      a->dstudent, a->beta};
    TG_TRY(check_common(&c));
    return tg_expect_numel(c.op, "loss", a->loss, 1, "one for a reduced loss");
}

tg_status tg_check_jsd_backward(const tg_jsd_backward_args *a)
{
    const jsd_common c = {"jsd_backward", a->student,  a->teacher, a->labels,
                          a->dloss,       a->dstudent, a->beta};
    return check_common(&c);
}
