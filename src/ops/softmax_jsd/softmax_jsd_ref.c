/* softmax_jsd, plainly: one row at a time, in double precision. */
#include <math.h>

#include "softmax_jsd.h"

typedef struct state {
    const sjsd *f;
    double *student, *teacher; /* log-probabilities of one row */
    double *gradient;          /* of one row: of log-probabilities, then of logits */
} state;

/* log_softmax(x / temperature) of a row. */
static void log_probabilities(const state *s, const tg_rows *x, int64_t row, double *out)
{
    double most = -INFINITY, total = 0;
    for (int64_t v = 0; v < x->n; v++) {
        out[v] = tg_get(x->data, x->type, row * x->stride + v) / s->f->temperature;
        most = fmax(most, out[v]);
    }
    for (int64_t v = 0; v < x->n; v++)
        total += exp(out[v] - most);
    for (int64_t v = 0; v < x->n; v++)
        out[v] -= most + log(total);
}

/* weight * logarithm; nothing if the weight is 0. */
static double term(double weight, double logarithm)
{
    return weight == 0 ? 0 : weight * logarithm;
}

/* log(beta exp(y) + (1 - beta) exp(x)), 0 < beta < 1, see jsd */
static double log_mixture(double x, double y, double beta)
{
    if (x == y)
        return x; /* both may be -inf */
    const double w = x > y ? beta : 1 - beta;
    return fmax(x, y) + log1p(w * expm1(-fabs(x - y)));
}

/* jsd of a row; its gradient by the student's log-probabilities. */
static double divergence(const state *s)
{
    const double beta = s->f->beta;
    double loss = 0;
    for (int64_t v = 0; v < s->f->n; v++) {
        const double x = s->student[v], y = s->teacher[v], q = exp(x), p = exp(y);
        if (beta == 0) {
            loss += term(p, y - x);
            s->gradient[v] = -p;
        } else if (beta == 1) {
            loss += term(q, x - y);
            s->gradient[v] = term(q, x - y) + q;
        } else {
            const double m = log_mixture(x, y, beta);
            s->gradient[v] = term((1 - beta) * q, x - m);
            loss += term(beta * p, y - m) + s->gradient[v];
        }
    }
    return loss;
}

/* Turns the gradient of log-probabilities into that of logits. */
static void through_softmax(const state *s, double g)
{
    double sum = 0;
    for (int64_t v = 0; v < s->f->n; v++)
        sum += s->gradient[v];
    for (int64_t v = 0; v < s->f->n; v++)
        s->gradient[v] = g / s->f->temperature * (s->gradient[v] - exp(s->student[v]) * sum);
}

static tg_status run(tg_ctx *ctx, const sjsd *f)
{
    const int64_t n = f->n;
    const tg_rows student = tg_rows_of(f->student), teacher = tg_rows_of(f->teacher);
    const tg_rows out = tg_rows_of(f->dstudent);
    state s = {.f = f, .student = tg_workspace(ctx, (size_t)(3 * n + 1) * sizeof(double))};
    if (!s.student)
        return TG_ENOMEM;
    s.teacher = s.student + n;
    s.gradient = s.teacher + n;
    const double share = sjsd_share(f);
    const double dloss = f->dloss ? tg_get(tg_data(f->dloss), tg_type_of(f->dloss), 0) : 1;
    double loss = 0;
    for (int64_t row = 0; row < f->rows; row++) {
        const int ignored = sjsd_ignored(f, row);
        if (!ignored) {
            log_probabilities(&s, &student, row, s.student);
            log_probabilities(&s, &teacher, row, s.teacher);
            loss += divergence(&s);
            through_softmax(&s, dloss * share * f->grad_scale);
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
