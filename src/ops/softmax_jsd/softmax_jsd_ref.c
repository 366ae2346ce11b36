/* softmax_jsd, plainly: one row at a time, in double precision. */
#include "rows/divergence.h"
#include "softmax_jsd.h"

typedef struct state {
    const sjsd *f;
    double *student, *teacher; /* log-probabilities of one row */
    double *gradient;          /* of one row of logits */
} state;

/* log_softmax(x / temperature) of a row. */
static void log_probabilities(const state *s, const tg_rows *x, int64_t row, double *out)
{
    for (int64_t v = 0; v < x->n; v++)
        out[v] = tg_get(x->data, x->type, row * x->stride + v) / s->f->temperature;
    divergence_log_softmax(out, x->n);
}

static tg_status run(tg_ctx *ctx, const sjsd *f)
{
    const int64_t n = f->batch.n;
    const tg_rows student = tg_rows_of(f->student), teacher = tg_rows_of(f->teacher);
    const tg_rows out = tg_rows_of(f->dstudent);
    state s = {.f = f, .student = tg_workspace(ctx, (size_t)(3 * n + 1) * sizeof(double))};
    if (!s.student)
        return TG_ENOMEM;
    s.teacher = s.student + n;
    s.gradient = s.teacher + n;
    const double share = batch_share(&f->batch);
    const double dloss = f->dloss ? tg_get(tg_data(f->dloss), tg_type_of(f->dloss), 0) : 1;
    double loss = 0;
    for (int64_t row = 0; row < f->batch.rows; row++) {
        const int ignored = batch_ignores(&f->batch, row);
        if (!ignored) {
            log_probabilities(&s, &student, row, s.student);
            log_probabilities(&s, &teacher, row, s.teacher);
            loss += divergence_of_row(s.student, s.teacher, n, f->beta,
                                      dloss * share * f->grad_scale / f->temperature, s.gradient);
        }
        for (int64_t v = 0; out.data && v < n; v++)
            tg_set(out.data, out.type, row * out.stride + v, ignored ? 0 : s.gradient[v]);
    }
    if (f->loss)
        tg_set(tg_data(f->loss), tg_type_of(f->loss), 0, loss * share);
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

TG_REF_IMPLS(softmax_jsd) = {TG_REF_IMPL(softmax_jsd_forward, forward),
                             TG_REF_IMPL(softmax_jsd_backward, backward), TG_IMPLS_END};
