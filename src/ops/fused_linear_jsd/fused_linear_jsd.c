/* fused_linear_jsd: what is a valid problem. */

#include "core/services.h"

/* The arguments of both directions as they were given; loss is NULL in backward. */
typedef struct arguments {
    const char *op;
    const tg_tensor *x, *weight, *teacher_x, *teacher_weight, *labels, *dloss, *loss, *dx, *dweight;
    double beta, temperature;
    int64_t accumulate, chunk_bytes;
} arguments;

#define COMMON(a)                                                                               \
    .x = (a)->x, .weight = (a)->weight, .teacher_x = (a)->teacher_x,                            \
    .teacher_weight = (a)->teacher_weight, .labels = (a)->labels, .dloss = (a)->dloss,          \
    .dx = (a)->dx, .dweight = (a)->dweight, .beta = (a)->beta, .temperature = (a)->temperature, \
    .accumulate = (a)->accumulate, .chunk_bytes = (a)->chunk_bytes

static int64_t rows_of(const tg_tensor *t)
{
    int64_t rows = 1;
    for (int i = 0; i < t->ndim - 1; i++)
        rows *= t->shape[i];
    return rows;
}

static tg_status check_teacher(const arguments *a, int64_t rows)
{
    const char *op = a->op;
    TG_TRY(tg_expect_rows(op, "teacher_x", a->teacher_x));
    if (rows_of(a->teacher_x) != rows)
        return tg_fail(TG_EINVAL,
                       "%s: teacher_x has %lld rows, expected %lld, the number of rows of x", op,
                       (long long)rows_of(a->teacher_x), (long long)rows);
    return tg_expect_matrix(op, "teacher_weight", a->teacher_weight, a->weight->shape[0],
                            a->teacher_x->shape[a->teacher_x->ndim - 1],
                            "the rows of weight and the last dimension of teacher_x");
}

static tg_status check_options(const arguments *a)
{
    TG_TRY(tg_expect_f64(a->op, "beta", a->beta, 0, 1));
    TG_TRY(tg_expect_f64(a->op, "temperature", a->temperature, 0x1p-60, 0x1p60));
    return tg_expect_i64(a->op, "chunk_bytes", a->chunk_bytes, 0, INT64_MAX);
}

static tg_status check(const arguments *a)
{
    static const char one[] = "one for a reduced loss";
    const char *op = a->op;
    TG_TRY(tg_expect_rows(op, "x", a->x));
    const int64_t rows = rows_of(a->x);
    TG_TRY(tg_expect_ndim(op, "weight", a->weight, 2));
    TG_TRY(tg_expect_matrix(op, "weight", a->weight, a->weight->shape[0],
                            a->x->shape[a->x->ndim - 1], "its columns as the last dimension of x"));
    TG_TRY(check_teacher(a, rows));
    TG_TRY(check_options(a));
    TG_TRY(tg_expect_numel(op, "labels", a->labels, rows, "the number of rows of x"));
    TG_TRY(tg_expect_numel(op, "dloss", a->dloss, 1, one));
    TG_TRY(tg_expect_numel(op, "loss", a->loss, 1, one));
    TG_TRY(tg_expect_same_shape(op, "dx", a->dx, "x", a->x));
    return tg_expect_same_shape(op, "dweight", a->dweight, "weight", a->weight);
}

tg_status tg_check_fused_linear_jsd_forward(const tg_fused_linear_jsd_forward_args *args)
{
    const arguments a = {.op = "fused_linear_jsd_forward", COMMON(args), .loss = args->loss};
    return check(&a);
}

tg_status tg_check_fused_linear_jsd_backward(const tg_fused_linear_jsd_backward_args *args)
{
    const arguments a = {.op = "fused_linear_jsd_backward", COMMON(args)};
    return check(&a);
}
