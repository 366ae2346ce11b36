/* kl_div, plain and in double: the definition. */
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

/* The upstream gradient of an element's term: one for all, one each for TG_NONE, 1 if not given. */
static double upstream(const tg_rows *dloss, int64_t reduction, int64_t row, int64_t i)
{
    if (!dloss->data)
        return 1;
    return reduction == TG_NONE ? element(dloss, row, i) : element(dloss, 0, 0);
}

static tg_status forward(tg_ctx *ctx, const tg_kl_div_forward_args *args)
{
    (void)ctx;
    const tg_rows y_pred = tg_rows_of(args->y_pred), y_true = tg_rows_of(args->y_true);
    const tg_rows dloss = tg_rows_of(args->dloss), loss = tg_rows_of(args->loss);
    const tg_rows dy_pred = tg_rows_of(args->dy_pred);
    const double scale = reduction_scale((row_labels){0}, args->reduction, y_true.rows, y_true.n);
    const double eps = args->eps;
    double sum = 0;
    for (int64_t row = 0; row < y_true.rows; row++)
        for (int64_t i = 0; i < y_true.n; i++) {
            const double y = element(&y_pred, row, i), t = element(&y_true, row, i);
            const double weight = args->log_target ? exp(t) : t;
            const double log_t = args->log_target ? t : t < eps ? log(eps) : log(t);
            const double term = weight == 0 ? 0 : weight * (log_t - y);
            sum += term;
            if (args->reduction == TG_NONE)
                set_element(&loss, row, i, term);
            if (dy_pred.data)
                set_element(&dy_pred, row, i,
                            -weight * scale * upstream(&dloss, args->reduction, row, i));
        }
    if (args->reduction != TG_NONE)
        set_element(&loss, 0, 0, scale == 0 ? 0 : sum * scale);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_kl_div_backward_args *args)
{
    (void)ctx;
    const tg_rows y_true = tg_rows_of(args->y_true), dloss = tg_rows_of(args->dloss);
    const tg_rows dy_pred = tg_rows_of(args->dy_pred);
    const double scale = reduction_scale((row_labels){0}, args->reduction, y_true.rows, y_true.n);
    for (int64_t row = 0; row < y_true.rows; row++)
        for (int64_t i = 0; i < y_true.n; i++) {
            const double t = element(&y_true, row, i), weight = args->log_target ? exp(t) : t;
            set_element(&dy_pred, row, i,
                        -weight * scale * upstream(&dloss, args->reduction, row, i));
        }
    return TG_OK;
}

TG_REF_IMPLS(kl_div) = {TG_REF_IMPL(kl_div_forward, forward),
                        TG_REF_IMPL(kl_div_backward, backward), TG_IMPLS_END};
