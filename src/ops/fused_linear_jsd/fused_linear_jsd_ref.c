/* fused_linear_jsd, plainly: one row of logits at a time, in double precision. */
#include <string.h>

#include "fused_linear/fused_linear_ref.h"
#include "fused_linear_jsd.h"
#include "rows/divergence.h"

typedef struct state {
    const fljsd *f;
    tg_rows x, weight, teacher_x, teacher_weight, dx, dweight;
    int64_t classes, hidden;
    linear_ref linear;
    double *student, *teacher; /* of one row: logits, then log-probabilities */
    double *gradient;          /* of one row of logits */
    double *sum_weight;
} state;

/* x weight^T of a row, and into `asked` where forward is asked for it. */
static void project(const state *s, const tg_rows *x, const tg_rows *weight, int64_t row,
                    double *out, const tg_tensor *asked)
{
    const tg_rows all = tg_rows_of(asked);
    linear_ref_project(&s->linear, x, weight, row, out);
    for (int64_t v = 0; s->f->loss && asked && v < s->classes; v++)
        tg_set(all.data, all.type, row * all.stride + v, out[v]);
}

/* log_softmax(logits / temperature) of a row, in place. */
static void log_probabilities(const state *s, double *logits)
{
    for (int64_t v = 0; v < s->classes; v++)
        logits[v] /= s->f->temperature;
    divergence_log_softmax(logits, s->classes);
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    state s = {.f = f,
               .x = tg_rows_of(f->x),
               .weight = tg_rows_of(f->weight),
               .teacher_x = tg_rows_of(f->teacher_x),
               .teacher_weight = tg_rows_of(f->teacher_weight),
               .dx = tg_rows_of(f->dx),
               .dweight = tg_rows_of(f->dweight),
               .classes = f->weight->shape[0],
               .hidden = f->weight->shape[1]};
    const int64_t widest = s.hidden > s.teacher_weight.n ? s.hidden : s.teacher_weight.n;
    const int64_t n = s.classes * (3 + (f->dweight ? s.hidden : 0)) + LINEAR_REF_ROWS * widest + 1;
    s.student = tg_workspace(ctx, (size_t)n * sizeof(double));
    if (!s.student)
        return TG_ENOMEM;
    memset(s.student, 0, (size_t)n * sizeof(double));
    s.teacher = s.student + s.classes;
    s.gradient = s.teacher + s.classes;
    s.linear = linear_ref_in(s.gradient + s.classes, widest);
    s.sum_weight = s.gradient + s.classes + LINEAR_REF_ROWS * widest;
    const row_labels labels = row_labels_of(f->labels, f->ignore_index);
    const double per_row = rows_share(labels, s.x.rows);
    const double dloss = f->dloss ? tg_get(tg_data(f->dloss), tg_type_of(f->dloss), 0) : 1;
    double loss = 0;
    for (int64_t row = 0; row < s.x.rows; row++) {
        memset(s.gradient, 0, (size_t)s.classes * sizeof(double));
        project(&s, &s.x, &s.weight, row, s.student, f->logits);
        project(&s, &s.teacher_x, &s.teacher_weight, row, s.teacher, f->teacher_logits);
        if (!row_ignored(labels, row)) {
            log_probabilities(&s, s.student);
            log_probabilities(&s, s.teacher);
            loss += divergence_of_row(s.student, s.teacher, s.classes, f->beta,
                                      dloss * per_row / f->temperature, s.gradient);
        }
        linear_ref_contribute(&s.linear, s.gradient, &s.x, &s.weight, row, &s.dx,
                              f->dweight ? s.sum_weight : NULL);
    }
    if (f->loss)
        tg_set(tg_data(f->loss), tg_type_of(f->loss), 0, loss * per_row);
    linear_ref_finish(s.sum_weight, &s.dweight, f->accumulate);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_jsd_forward_args *args)
{
    const fljsd f = fljsd_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_jsd_backward_args *args)
{
    const fljsd f = fljsd_backward(args);
    return run(ctx, &f);
}

TG_REF_IMPLS(fused_linear_jsd) = {TG_REF_IMPL(fused_linear_jsd_forward, forward),
                                  TG_REF_IMPL(fused_linear_jsd_backward, backward), TG_IMPLS_END};
