/* fused_linear_jsd as an eager framework runs it: all logits by two products, log_softmax of both
 * and jsd over them in elementary steps, and one product for each gradient. */
#include "linear.h"

/* The arguments of either direction. */
typedef struct fljsd {
    const tg_tensor *x, *weight, *teacher_x, *teacher_weight, *labels, *dloss;
    tg_tensor *loss, *dx, *dweight, *logits, *teacher_logits;
    int64_t ignore_index, accumulate;
    double beta, temperature;
} fljsd;

#define FLJSD(a, of_loss, of_logits, of_teacher)                                           \
    (fljsd)                                                                                \
    {                                                                                      \
        (a)->x, (a)->weight, (a)->teacher_x, (a)->teacher_weight, (a)->labels, (a)->dloss, \
            of_loss, (a)->dx, (a)->dweight, of_logits, of_teacher, (a)->ignore_index,      \
            (a)->accumulate, (a)->beta, (a)->temperature                                   \
    }

static mat log_probabilities(eager *e, const fljsd *f, const tg_tensor *x, const tg_tensor *weight,
                             const tg_tensor *asked, mat *sum)
{
    const mat logits = linear_logits(e, x, weight);
    if (asked)
        eager_put(e, eager_rows(asked), logits, 0);
    const mat log_p = eager_log_softmax(e, logits, f->temperature, sum);
    eager_free(e, logits);
    return log_p;
}

/* d: of the student's log-probabilities */
static void add_gradients(eager *e, const fljsd *f, mat student, mat sum, mat d)
{
    const mat by_logits = eager_log_softmax_backward(e, student, sum, d);
    const mat m = eager_new(e, linear_gradient_type(f->x), d.rows, d.cols);
    eager_scalar(e, EAGER_DIV, m, by_logits, f->temperature);
    eager_free(e, by_logits);
    if (f->dx)
        linear_gradient(e, m, 0, f->weight, f->dx, 0);
    if (f->dweight)
        linear_gradient(e, m, 1, f->x, f->dweight, f->accumulate);
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    eager e = eager_begin(ctx);
    mat sum;
    const mat student = log_probabilities(&e, f, f->x, f->weight, f->logits, &sum);
    const mat teacher =
        log_probabilities(&e, f, f->teacher_x, f->teacher_weight, f->teacher_logits, NULL);
    const int gradients = f->dx || f->dweight;
    const mat d = eager_new(&e, TG_F32, student.rows, student.cols);
    if (e.status)
        return eager_end(&e);
    view of_student, of_teacher, of_d;
    float unused;
    int64_t one = 1;
    tg_tensor loss = tg_tensor_of(&unused, TG_F32, 1, &one);
    TRY(CALL(ctx, jsd_forward, .student = eager_tensor(&of_student, student),
             .teacher = eager_tensor(&of_teacher, teacher), .labels = f->labels, .dloss = f->dloss,
             .loss = f->loss ? f->loss : &loss,
             .dstudent = gradients ? eager_tensor(&of_d, d) : NULL, .beta = TG_VALUE(f->beta),
             .ignore_index = TG_VALUE(f->ignore_index)));
    if (gradients)
        add_gradients(&e, f, student, sum, d);
    return eager_end(&e);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_jsd_forward_args *args)
{
    return run(ctx, &FLJSD(args, args->loss, args->logits, args->teacher_logits));
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_jsd_backward_args *args)
{
    return run(ctx, &FLJSD(args, NULL, NULL, NULL));
}

UNFUSED_IMPLS(fused_linear_jsd) = {UNFUSED_IMPL(fused_linear_jsd_forward, forward),
                                   UNFUSED_IMPL(fused_linear_jsd_backward, backward), TG_IMPLS_END};
