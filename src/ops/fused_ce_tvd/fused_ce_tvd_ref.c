/* fused_ce_tvd, plainly: one row at a time, in double precision. */
#include "core/services.h"
#include "rows/divergence.h"
#include "rows/odds.h"

static double number(const tg_tensor *t, int64_t i)
{
    return t ? tg_get(tg_data(t), tg_type_of(t), i) : 0;
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        tg_set(tg_data(t), tg_type_of(t), i, value);
}

static int64_t target_of(const tg_tensor *target, int64_t row)
{
    return ((const int64_t *)tg_data(target))[row];
}

static double *read_row(const tg_rows *t, int64_t row, double *x)
{
    for (int64_t i = 0; i < t->n; i++)
        x[i] = tg_get(t->data, t->type, row * t->stride + i);
    return x;
}

static double sign(double d)
{
    return (d > 0) - (d < 0);
}

/* Of one row that is not ignored. */
static void forward_row(const tg_fused_ce_tvd_forward_args *a, int64_t row, const double *student,
                        const double *teacher, int64_t n)
{
    const int64_t y = target_of(a->target, row);
    const odds_sum s = odds_sum_of(student, n, odds_argmax(student, n));
    const odds_sum t = odds_sum_of(teacher, n, odds_argmax(teacher, n));
    double tvd = 0, sigma = 0;
    for (int64_t i = 0; i < n; i++) {
        const double log_p = odds_log_p(student[i], &s), log_q = odds_log_p(teacher[i], &t);
        tvd += 0.5 * fabs(divergence_difference(log_p, log_q));
        sigma += exp(log_p) * sign(log_p - log_q);
    }
    put(a->ce, row, odds_minus_log_p(student[y], odds_doubt(student, n, y, &s), &s));
    put(a->tvd, row, tvd);
    put(a->sigma, row, sigma + 0 * tvd); /* NaN with it: a sign of NaN is 0 */
    put(a->student_lse, row, odds_lse(&s));
    put(a->teacher_lse, row, odds_lse(&t));
}

static tg_status forward(tg_ctx *ctx, const tg_fused_ce_tvd_forward_args *args)
{
    const tg_rows student = tg_rows_of(args->student), teacher = tg_rows_of(args->teacher);
    double *memory = tg_workspace(ctx, (size_t)(2 * student.n + 1) * sizeof(double));
    if (!memory)
        return TG_ENOMEM;
    tg_tensor *const all[] = {args->ce, args->tvd, args->sigma, args->student_lse,
                              args->teacher_lse};
    for (int64_t row = 0; row < student.rows; row++) {
        if (target_of(args->target, row) != args->ignore_index)
            forward_row(args, row, read_row(&student, row, memory),
                        read_row(&teacher, row, memory + student.n), student.n);
        else
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                put(all[i], row, 0);
    }
    return TG_OK;
}

/* NaN but where both logits are -inf, of which the gradient is 0. */
static double sign_of(double d, double p)
{
    return d != d && p != 0 ? d : sign(d);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_ce_tvd_backward_args *args)
{
    (void)ctx;
    const tg_rows student = tg_rows_of(args->student), teacher = tg_rows_of(args->teacher);
    const tg_rows out = tg_rows_of(args->dstudent);
    for (int64_t row = 0; row < student.rows; row++) {
        const int64_t y = target_of(args->target, row);
        const double of_student = number(args->student_lse, row);
        const double apart = of_student - number(args->teacher_lse, row);
        const double dce = number(args->dce, row), dtvd = number(args->dtvd, row);
        for (int64_t i = 0; i < student.n; i++) {
            const double x = tg_get(student.data, student.type, row * student.stride + i);
            const double z = tg_get(teacher.data, teacher.type, row * teacher.stride + i);
            const double log_p = x - of_student, p = exp(log_p), d = x - z - apart;
            double dx = args->dce ? dce * (i == y ? expm1(log_p) : p) : 0;
            if (args->dtvd)
                dx += 0.5 * dtvd * p * (sign_of(d, p) - number(args->sigma, row));
            tg_set(out.data, out.type, row * out.stride + i, y == args->ignore_index ? 0 : dx);
        }
    }
    return TG_OK;
}

TG_REF_IMPLS(fused_ce_tvd) = {TG_REF_IMPL(fused_ce_tvd_forward, forward),
                              TG_REF_IMPL(fused_ce_tvd_backward, backward), TG_IMPLS_END};
