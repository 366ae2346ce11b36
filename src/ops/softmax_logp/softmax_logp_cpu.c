/* softmax_logp on the CPU: from tensors to rows, and what is told from a row's sums. */
#include "softmax_logp_cpu.h"

#include <string.h>

#include "core/parts.h"
#include "rows/logp.h"
#include "rows/rows.h"

typedef struct job {
    const logp_call *c;
    operand logits, dlogits;
    el type, dtype;
    int64_t n, ids;
    double grad_scale;
    float *scratch; /* of each worker, gradients of 1 + ids classes */
} job;

static slogp_row row_of(const job *j, int64_t row)
{
    return (slogp_row){j->type, row_at(&j->logits, row), j->n, (float)j->c->softcap,
                       (float)(1 / j->c->temperature)};
}

static float *results(const tg_tensor *t)
{
    return tg_data(t);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    if (t)
        results(t)[i] = (float)value;
}

/* ---- forward ---- */

/* The largest class has -log_sum, to all its digits. */
static double logp_at(const job *j, const slogp_row *r, const slogp_sums *s, int64_t place)
{
    float slope;
    if (j->c->slice.all)
        return place < 0 ? 0 : (double)slogp_logit(r, place, &slope) / j->c->temperature;
    const double log_sum = log1p(s->others);
    if (place == s->best)
        return -log_sum;
    return ((double)slogp_logit(r, place, &slope) - s->max) / j->c->temperature - log_sum;
}

static void forward_row(const job *j, int64_t row)
{
    const logp_call *c = j->c;
    const slogp_row r = row_of(j, row);
    slogp_sums s;
    slogp_sum_row(&r, c->mean_logits != NULL, &s);
    const double log_sum = log1p(s.others);
    put(c->logp, row, logp_at(j, &r, &s, logp_place(c, row, j->n)));
    put(c->lse, row, s.max == -INFINITY ? s.max : s.max / c->temperature + log_sum);
    put(c->entropy, row, log_sum + s.gaps / (1 + s.others));
    for (int64_t k = 0; c->selected && k < j->ids; k++)
        put(c->selected, row * j->ids + k, logp_at(j, &r, &s, logp_id(c, k, j->n)));
    put(c->mean_logits, row, s.total / (double)j->n);
    put(c->log_sum_sq_probs, row, log1p(s.squares) - 2 * log_sum);
    if (c->predicted)
        ((int64_t *)tg_data(c->predicted))[row] = s.best;
}

static void forward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    (void)worker;
    for (int64_t row = begin; row < end; row++)
        if (logp_ignores(j->c, row))
            logp_ignored_row(j->c, row);
        else
            forward_row(j, row);
}

/* ---- backward ---- */

/* The upstream gradients of a row. */
typedef struct upstream {
    double logp, entropy;
    const float *selected; /* [ids], or NULL */
    double all;            /* of log-probabilities, their sum */
} upstream;

static upstream upstream_of(const job *j, int64_t row)
{
    const logp_call *c = j->c;
    upstream u = {.logp = results(c->dlogp)[row]};
    u.entropy = c->dentropy ? results(c->dentropy)[row] : 0;
    u.selected = c->dselected ? results(c->dselected) + row * j->ids : NULL;
    u.all = u.logp;
    for (int64_t k = 0; u.selected && k < j->ids; k++)
        u.all += u.selected[k];
    return u;
}

/* p = factor exp((x - max) / temperature), and log p + entropy = that exponent + mean_gap. */
typedef struct reference {
    float max;
    int64_t best; /* whose 1 - p is `doubt`; -1: of none it is known */
    double factor, mean_gap, doubt;
} reference;

static reference reference_of(const job *j, const slogp_row *r, int64_t row)
{
    const logp_call *c = j->c;
    if (!c->slice.all) {
        slogp_sums s;
        slogp_sum_row(r, 0, &s);
        const double sum = 1 + s.others;
        return (reference){s.max, s.best, 1 / sum, s.gaps / sum, s.others / sum};
    }
    const double lse = results(c->saved_lse)[row];
    reference f = {.max = (float)(lse * c->temperature), .best = -1};
    const double shift = f.max / c->temperature - lse;
    f.factor = exp(shift);
    f.mean_gap = shift + (c->saved_entropy ? results(c->saved_entropy)[row] : 0);
    return f;
}

/* The gradient at a class that upstream gradients name, from the others' sum and 1 - p: no
 * difference of numbers near each other. */
static float named_gradient(const job *j, const slogp_row *r, const reference *f, const upstream *u,
                            int64_t row, int64_t place)
{
    float slope;
    const double d = ((double)slogp_logit(r, place, &slope) - f->max) / j->c->temperature;
    const double p = f->factor * exp(d), q = place == f->best ? f->doubt : 1 - p;
    double own = 0, others = 0;
    if (logp_place(j->c, row, j->n) == place)
        own += u->logp;
    else
        others += u->logp;
    for (int64_t k = 0; u->selected && k < j->ids; k++)
        if (logp_id(j->c, k, j->n) == place)
            own += u->selected[k];
        else
            others += u->selected[k];
    double gradient = own * q - others * p;
    if (u->entropy != 0 && p != 0)
        gradient -= u->entropy * p * (d + f->mean_gap);
    return (float)(gradient * slope * j->grad_scale / j->c->temperature);
}

/* The class that gradient number k names: the target, then those that are selected. */
static int64_t named_place(const job *j, int64_t row, int64_t k)
{
    return k == 0 ? logp_place(j->c, row, j->n) : logp_id(j->c, k - 1, j->n);
}

static void backward_row(const job *j, int64_t row, char *dx, float *named)
{
    const slogp_row r = row_of(j, row);
    const reference f = reference_of(j, &r, row);
    const upstream u = upstream_of(j, row);
    const int64_t count = 1 + (u.selected ? j->ids : 0);
    const double scale = j->grad_scale / j->c->temperature, all = scale * u.all;
    for (int64_t k = 0; k < count; k++) { /* dlogits may be the logits */
        const int64_t place = named_place(j, row, k);
        named[k] = place < 0 ? 0 : named_gradient(j, &r, &f, &u, row, place);
    }
    const slogp_gradient g = {f.max,
                              (float)f.factor,
                              (float)f.mean_gap,
                              (float)-all,
                              (float)(-scale * u.entropy),
                              (float)(0x1p-126 * (fabs(all) > 1 ? fabs(all) : 1))};
    slogp_write_row(&r, &g, j->dtype, dx);
    for (int64_t k = 0; k < count; k++)
        if (named_place(j, row, k) >= 0)
            el_set(j->dtype, dx, named_place(j, row, k), named[k]);
}

static void backward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t row = begin; row < end; row++) {
        char *dx = row_at(&j->dlogits, row);
        if (!logp_ignores(j->c, row))
            backward_row(j, row, dx, j->scratch + worker * (j->ids + 1));
        else if (j->n)
            memset(dx, 0, (size_t)(j->n * el_size(j->dtype)));
    }
}

/* ---- calls ---- */

static job job_of(const logp_call *c, const tg_tensor *logits)
{
    return (job){.c = c,
                 .logits = operand_of(logits),
                 .type = el_of(logits),
                 .n = tg_rows_of(logits).n,
                 .ids = logp_ids(c)};
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_logp_forward_args *args)
{
    const logp_call c = LOGP_FORWARD(args);
    job j = job_of(&c, args->logits);
    const int64_t rows = tg_numel(args->target);
    if (!tg_reserving(ctx))
        tg_parallel_for(ctx, rows, rows_grain(rows, j.n, 1), forward_rows, &j);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_logp_backward_args *args)
{
    const logp_call c = LOGP_BACKWARD(args);
    job j = job_of(&c, args->logits);
    const int64_t rows = tg_numel(args->target);
    j.dlogits = operand_of(args->dlogits);
    j.dtype = el_of(args->dlogits);
    j.grad_scale = args->grad_scale;
    j.scratch = tg_workspace(ctx, (size_t)((j.ids + 1) * tg_ctx_threads(ctx)) * sizeof(float));
    if (!j.scratch)
        return TG_ENOMEM;
    if (!tg_reserving(ctx))
        tg_parallel_for(ctx, rows, rows_grain(rows, j.n, 1), backward_rows, &j);
    return TG_OK;
}

TG_CPU_IMPLS(softmax_logp) = {TG_CPU_IMPL(softmax_logp_forward, forward),
                              TG_CPU_IMPL(softmax_logp_backward, backward), TG_IMPLS_END};
