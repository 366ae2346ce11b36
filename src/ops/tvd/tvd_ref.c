/* tvd, plain and in double: the definition. */
#include <math.h>

#include "rows/counts.h"

static double element(const tg_rows *t, int64_t row, int64_t i)
{
    return tg_get(t->data, t->type, row * t->stride + i);
}

static void set_element(const tg_rows *t, int64_t row, int64_t i, double value)
{
    tg_set(t->data, t->type, row * t->stride + i, value);
}

/* d|p - q| / dp, with 0 for p = q. */
static double sign(double p, double q)
{
    return isnan(p - q) ? p - q : (p > q) - (p < q);
}

/* Both directions; backward has no loss. */
typedef struct tvd {
    tg_rows p, q, dloss, loss, dp;
    row_labels labels;
    int64_t reduction;
} tvd;

static double upstream(const tvd *s, int64_t row, int64_t i)
{
    if (!s->dloss.data)
        return 1;
    return s->reduction == TG_NONE ? element(&s->dloss, row, i) : element(&s->dloss, 0, 0);
}

static void run(const tvd *s)
{
    const double scale = reduction_scale(s->labels, s->reduction, s->p.rows, s->p.n);
    double sum = 0;
    for (int64_t row = 0; row < s->p.rows; row++)
        for (int64_t i = 0; i < s->p.n; i++) {
            const int ignored = row_ignored(s->labels, row);
            const double p = element(&s->p, row, i), q = element(&s->q, row, i);
            const double d = ignored ? 0 : 0.5 * fabs(p - q) * scale;
            sum += d;
            if (s->loss.data && s->reduction == TG_NONE)
                set_element(&s->loss, row, i, d);
            if (s->dp.data)
                set_element(&s->dp, row, i,
                            ignored ? 0 : 0.5 * sign(p, q) * scale * upstream(s, row, i));
        }
    if (s->loss.data && s->reduction != TG_NONE)
        set_element(&s->loss, 0, 0, sum);
}

static tg_status forward(tg_ctx *ctx, const tg_tvd_forward_args *args)
{
    (void)ctx;
    const tvd s = {tg_rows_of(args->p),     tg_rows_of(args->q),
                   tg_rows_of(args->dloss), tg_rows_of(args->loss),
                   tg_rows_of(args->dp),    row_labels_of(args->labels, args->ignore_index),
                   args->reduction};
    run(&s);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_tvd_backward_args *args)
{
    (void)ctx;
    const tvd s = {tg_rows_of(args->p),     tg_rows_of(args->q),
                   tg_rows_of(args->dloss), {0},
                   tg_rows_of(args->dp),    row_labels_of(args->labels, args->ignore_index),
                   args->reduction};
    run(&s);
    return TG_OK;
}

TG_REF_IMPLS(tvd) = {TG_REF_IMPL(tvd_forward, forward), TG_REF_IMPL(tvd_backward, backward),
                     TG_IMPLS_END};
