/* softmax_jsd as an eager framework runs it: log_softmax of both and the backward of softmax in elementary steps, and jsd
 * between them. */
#include "core/view.h"
#include "eager/eager.h"
#include "softmax_jsd.h"

typedef struct eager_sjsd {
    eager e;
    const sjsd *f;
    mat student, teacher; /* log-probabilities */
    mat sum;              /* of the student's exponentials */
} eager_sjsd;

/* jsd is the mean over these rows; of the batch's mean they have this part. */
static double part_of_batch(const sjsd *f)
{
    int64_t counted = 0;
    for (int64_t r = 0; r < f->rows; r++)
        counted += !sjsd_ignored(f, r);
    return (double)counted * sjsd_share(f);
}

static tg_status divergence(eager_sjsd *s, mat d, tg_tensor *loss)
{
    const sjsd *f = s->f;
    view student, teacher, labels, dstudent;
    set_view(&student, s->student.data, TG_F32, f->rows, f->n, s->student.stride);
    set_view(&teacher, s->teacher.data, TG_F32, f->rows, f->n, s->teacher.stride);
    set_view(&dstudent, d.data, TG_F32, f->rows, f->n, d.stride);
    if (f->labels.of)
        set_vector(&labels, (void *)(f->labels.of + f->first), TG_I64, f->rows);
    return tg_jsd_forward(s->e.ctx,
                          &(tg_jsd_forward_args){.student = &student.t,
                                                 .teacher = &teacher.t,
                                                 .labels = f->labels.of ? &labels.t : NULL,
                                                 .dloss = f->dloss,
                                                 .loss = loss,
                                                 .dstudent = f->dstudent ? &dstudent.t : NULL,
                                                 .beta = TG_VALUE(f->beta),
                                                 .ignore_index = TG_VALUE(f->labels.ignored)});
}

static tg_status run(tg_ctx *ctx, const sjsd *f)
{
    eager_sjsd s = {.e = eager_begin(ctx), .f = f};
    const double part = part_of_batch(f);
    s.student = eager_log_softmax(&s.e, eager_rows(f->student), f->temperature, &s.sum);
    s.teacher = eager_log_softmax(&s.e, eager_rows(f->teacher), f->temperature, NULL);
    const mat d = eager_new(&s.e, TG_F32, f->rows, f->n);
    float loss = 0;
    int64_t one = 1;
    tg_tensor of_rows = tg_tensor_of(&loss, TG_F32, 1, &one);
    if (s.e.status)
        return eager_end(&s.e);
    TG_TRY(divergence(&s, d, &of_rows));
    if (f->loss)
        *(float *)tg_data(f->loss) = (float)(part * loss);
    if (f->dstudent)
        eager_scalar(&s.e, EAGER_MUL, eager_rows(f->dstudent),
                     eager_log_softmax_backward(&s.e, s.student, s.sum, d),
                     part * f->grad_scale / f->temperature);
    return eager_end(&s.e);
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

TG_UNFUSED_IMPLS(softmax_jsd) = {TG_UNFUSED_IMPL(softmax_jsd_forward, forward),
                                 TG_UNFUSED_IMPL(softmax_jsd_backward, backward), TG_IMPLS_END};
