/* fused_ce_tvd on the CPU: from tensors to rows. */
#include "fused_ce_tvd_cpu.h"

#include <math.h>
#include <string.h>

#include "rows/next.h"
#include "rows/rows.h"

static const int64_t *indices(const tg_tensor *t)
{
    return tg_data(t);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        ((float *)tg_data(t))[i] = (float)value;
}

/* 0 where there is none. */
static double number(const tg_tensor *t, int64_t i)
{
    return t ? ((const float *)tg_data(t))[i] : 0;
}

/* ---- forward ---- */

typedef struct forward_job {
    const tg_fused_ce_tvd_forward_args *a;
    operand student, teacher;
    el type;
    int64_t n;
} forward_job;

static void forward_row(const forward_job *j, int64_t row, int64_t end)
{
    cetvd_row r = {j->type, row_at(&j->student, row), row_at(&j->teacher, row), j->n, NULL, NULL};
    if (row + 1 < end && 4 * j->n * el_size(j->type) <= NEXT_ROOM) {
        r.next_student = row_at(&j->student, row + 1);
        r.next_teacher = row_at(&j->teacher, row + 1);
    }
    const cetvd_origin student = cetvd_sum_row(r.type, r.student, r.n);
    const cetvd_origin teacher = cetvd_sum_row(r.type, r.teacher, r.n);
    const cetvd_distances d = cetvd_distance(&r, &student, &teacher);
    const double gap = (double)student.max - el_get(r.type, r.student, indices(j->a->target)[row]);
    put(j->a->ce, row, gap + student.log_sum);
    put(j->a->tvd, row, d.tvd);
    put(j->a->sigma, row, d.sigma);
    put(j->a->student_lse, row,
        student.max == -INFINITY ? student.max : student.max + student.log_sum);
    put(j->a->teacher_lse, row,
        teacher.max == -INFINITY ? teacher.max : teacher.max + teacher.log_sum);
}

static void forward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const forward_job *j = arg;
    (void)worker;
    tg_tensor *const all[] = {j->a->ce, j->a->tvd, j->a->sigma, j->a->student_lse,
                              j->a->teacher_lse};
    for (int64_t row = begin; row < end; row++) {
        if (indices(j->a->target)[row] != j->a->ignore_index)
            forward_row(j, row, end);
        else
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                put(all[i], row, 0);
    }
}

static tg_status forward(tg_ctx *ctx, const tg_fused_ce_tvd_forward_args *args)
{
    const int64_t rows = tg_numel(args->target);
    forward_job j = {args, operand_of(args->student), operand_of(args->teacher),
                     el_of(args->student), tg_rows_of(args->student).n};
    tg_parallel_for(ctx, rows, rows_grain(rows, j.n, 1), forward_rows, &j);
    return TG_OK;
}

/* ---- backward ---- */

typedef struct backward_job {
    const tg_fused_ce_tvd_backward_args *a;
    operand student, teacher, dstudent;
    el type;
    int64_t n;
} backward_job;

static void backward_row(const backward_job *j, int64_t row, char *out)
{
    const tg_fused_ce_tvd_backward_args *a = j->a;
    /* without dtvd nothing depends on the teacher: the student stands in its place */
    const operand *other = a->dtvd ? &j->teacher : &j->student;
    const cetvd_row r = {j->type, row_at(&j->student, row), row_at(other, row), j->n, NULL, NULL};
    const int64_t y = indices(a->target)[row];
    const double lse = number(a->student_lse, row);
    const double apart = a->dtvd ? lse - number(a->teacher_lse, row) : 0;
    const double dce = number(a->dce, row), half = number(a->dtvd, row) / 2;
    const double sigma = a->dtvd ? number(a->sigma, row) : 0;
    const double x = el_get(r.type, r.student, y), d = x - el_get(r.type, r.teacher, y) - apart;
    const double p = exp(x - lse), sign = d != d && p != 0 ? d : (d > 0) - (d < 0);
    const double of_tvd = half * (sign - sigma);
    const cetvd_gradient g = {(float)lse, (float)apart, (float)(dce + half * (1 - sigma)),
                              (float)(dce - half * (1 + sigma)), (float)(dce - half * sigma)};
    cetvd_write_row(&r, &g, out);
    /* the target's 1 - p: no difference of numbers near each other */
    el_set(r.type, out, y, (float)(dce * expm1(x - lse) + of_tvd * p));
}

static void backward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const backward_job *j = arg;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        char *out = row_at(&j->dstudent, row);
        if (indices(j->a->target)[row] != j->a->ignore_index)
            backward_row(j, row, out);
        else if (j->n)
            memset(out, 0, (size_t)(j->n * el_size(j->type)));
    }
}

static tg_status backward(tg_ctx *ctx, const tg_fused_ce_tvd_backward_args *args)
{
    const int64_t rows = tg_numel(args->target);
    backward_job j = {args,
                      operand_of(args->student),
                      operand_of(args->teacher),
                      operand_of(args->dstudent),
                      el_of(args->student),
                      tg_rows_of(args->student).n};
    tg_parallel_for(ctx, rows, rows_grain(rows, j.n, 1), backward_rows, &j);
    return TG_OK;
}

TG_CPU_IMPLS(fused_ce_tvd) = {TG_CPU_IMPL(fused_ce_tvd_forward, forward),
                              TG_CPU_IMPL(fused_ce_tvd_backward, backward), TG_IMPLS_END};
