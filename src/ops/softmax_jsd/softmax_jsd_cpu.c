/* softmax_jsd on the CPU: from tensors to rows, and the sum over rows. */
#include <math.h>
#include <string.h>

#include "core/parts.h"
#include "rows/next.h"
#include "rows/rows.h"
#include "softmax_jsd.h"
#include "softmax_jsd_cpu.h"

typedef struct job {
    const sjsd *f;
    row_options o;
    operand student, teacher, dstudent;
    float *scratch;   /* of each worker row_scratch() */
    double *row_loss; /* of each row */
} job;

static next_rows next_of(const job *j, int64_t row, int64_t end)
{
    const int64_t n = j->f->batch.n, rows = 4 * n * el_size(j->o.type);
    const int64_t kept = j->o.gradient ? 2 * n * (int64_t)sizeof(float) : 0;
    if (row + 1 >= end || rows + kept > NEXT_ROOM)
        return (next_rows){NULL, NULL, 0};
    return (next_rows){row_at(&j->student, row + 1), row_at(&j->teacher, row + 1),
                       el_size(j->o.type)};
}

static void run_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const int64_t n = j->f->batch.n;
    for (int64_t r = begin; r < end; r++) {
        char *gradient = j->o.gradient ? row_at(&j->dstudent, r) : NULL;
        j->row_loss[r] = 0;
        if (!batch_ignores(&j->f->batch, r))
            j->row_loss[r] =
                run_row(&j->o, row_at(&j->student, r), row_at(&j->teacher, r), gradient, n,
                        j->scratch + worker * row_scratch(n), next_of(j, r, end));
        else if (j->o.gradient && n)
            memset(gradient, 0, (size_t)(n * el_size(j->o.gradient_type)));
    }
}

static row_options options_of(const sjsd *f, double share)
{
    const double dloss = f->dloss ? *(const float *)tg_data(f->dloss) : 1;
    row_options o = {.kind = f->beta == 0   ? KIND_FORWARD
                             : f->beta == 1 ? KIND_REVERSE
                                            : (divergence_kind)mixture_kind_of(f->beta),
                     .loss = f->loss != NULL,
                     .gradient = f->dstudent != NULL,
                     .type = el_of(f->student),
                     .gradient_type = f->dstudent ? el_of(f->dstudent) : el_of(f->student),
                     .mixture = mixture_constants_of(f->beta),
                     .per_degree = (float)(1 / f->temperature)};
    o.scale = dloss * share / f->temperature * f->grad_scale;
    if (is_mixture(o.kind))
        o.scale *= 1 - f->beta;
    /* the tail of a sharp softmax, whose products would be subnormal, which is slow; below
     * 2^-26, f16 has nothing */
    o.floor = o.gradient_type == EL_F16 ? 0x1p-26 : 0x1p-110;
    return o;
}

static tg_status run(tg_ctx *ctx, const sjsd *f)
{
    const double share = batch_share(&f->batch);
    job j = {.f = f,
             .o = options_of(f, share),
             .student = operand_of(f->student),
             .teacher = operand_of(f->teacher),
             .dstudent = operand_of(f->dstudent)};
    const size_t scratch = (size_t)(row_scratch(f->batch.n) * tg_ctx_threads(ctx)) * sizeof(float);
    j.scratch = tg_workspace(ctx, scratch + (size_t)f->batch.rows * sizeof(double));
    if (!j.scratch)
        return TG_ENOMEM;
    j.row_loss = (double *)((char *)j.scratch + scratch);
    if (tg_reserving(ctx))
        return TG_OK;
    tg_parallel_for(ctx, f->batch.rows, rows_grain(f->batch.rows, f->batch.n, 1), run_rows, &j);
    double loss = 0; /* in the order of the rows, whoever computed them */
    for (int64_t r = 0; r < f->batch.rows; r++)
        loss += j.row_loss[r];
    if (f->loss)
        *(float *)tg_data(f->loss) = (float)(loss * share);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args)
{
    const sjsd f = sjsd_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args)
{
    const sjsd f = sjsd_backward(args);
    return run(ctx, &f);
}

TG_CPU_IMPLS(softmax_jsd) = {TG_CPU_IMPL(softmax_jsd_forward, forward),
                             TG_CPU_IMPL(softmax_jsd_backward, backward), TG_IMPLS_END};
