/* softmax_jsd as an eager framework runs it: log_softmax of both and the backward of softmax in
 * elementary steps, and jsd between them. */
#include "eager.h"

/* The arguments of either direction. */
typedef struct sjsd {
    const tg_tensor *student, *teacher, *dloss;
    tg_tensor *loss, *dstudent;
    const tg_tensor *labels; /* of the batch */
    int64_t ignore_index;
    int64_t first, batch; /* student's first row; rows of the batch, 0 for those of student */
    double beta, temperature, grad_scale;
} sjsd;

#define SJSD(a, of_loss)                                                                     \
    (sjsd)                                                                                   \
    {                                                                                        \
        (a)->student, (a)->teacher, (a)->dloss, of_loss, (a)->dstudent, (a)->labels,         \
            (a)->ignore_index, (a)->first_row, (a)->batch_rows, (a)->beta, (a)->temperature, \
            (a)->grad_scale                                                                  \
    }

/* Log-probabilities; sum: of the student's exponentials. */
typedef struct softmaxes {
    mat student, teacher, sum;
} softmaxes;

/* jsd is the mean over student's rows; of the batch's mean they have this part. */
static double part_of_batch(const sjsd *f, const tg_tensor *own_labels, int64_t rows)
{
    const double own = rows_counted(labels_of(own_labels, f->ignore_index), rows);
    const row_labels all = labels_of(f->labels, f->ignore_index);
    return own * share(rows_counted(all, f->batch ? f->batch : rows));
}

static tg_status divergence(tg_ctx *ctx, const sjsd *f, const softmaxes *s,
                            const tg_tensor *own_labels, mat d, tg_tensor *loss)
{
    view student, teacher, dstudent;
    return CALL(ctx, jsd_forward, .student = eager_tensor(&student, s->student),
                .teacher = eager_tensor(&teacher, s->teacher), .labels = own_labels,
                .dloss = f->dloss, .loss = loss,
                .dstudent = f->dstudent ? eager_tensor(&dstudent, d) : NULL,
                .beta = TG_VALUE(f->beta), .ignore_index = TG_VALUE(f->ignore_index));
}

static tg_status run(tg_ctx *ctx, const sjsd *f)
{
    eager e = eager_begin(ctx);
    softmaxes s;
    s.student = eager_log_softmax(&e, eager_rows(f->student), f->temperature, &s.sum);
    s.teacher = eager_log_softmax(&e, eager_rows(f->teacher), f->temperature, NULL);
    const mat d = eager_new(&e, TG_F32, s.student.rows, s.student.cols);
    view labels;
    const tg_tensor *own_labels = eager_part(&labels, f->labels, f->first, d.rows);
    const double part = part_of_batch(f, own_labels, d.rows);
    float loss = 0;
    int64_t one = 1;
    tg_tensor of_rows = tg_tensor_of(&loss, TG_F32, 1, &one);
    if (e.status)
        return eager_end(&e);
    TRY(divergence(ctx, f, &s, own_labels, d, &of_rows));
    if (f->loss)
        *(float *)tg_data(f->loss) = (float)(part * loss);
    if (f->dstudent)
        eager_scalar(&e, EAGER_MUL, eager_rows(f->dstudent),
                     eager_log_softmax_backward(&e, s.student, s.sum, d),
                     part * f->grad_scale / f->temperature);
    return eager_end(&e);
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_jsd_forward_args *args)
{
    return run(ctx, &SJSD(args, args->loss));
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_jsd_backward_args *args)
{
    return run(ctx, &SJSD(args, NULL));
}

UNFUSED_IMPLS(softmax_jsd) = {UNFUSED_IMPL(softmax_jsd_forward, forward),
                              UNFUSED_IMPL(softmax_jsd_backward, backward), TG_IMPLS_END};
