/* fused_linear_kl_div, plainly: one row of logits at a time, in double precision. */
#include <string.h>

#include "fused_linear/fused_linear_ref.h"
#include "fused_linear_kl_div.h"
#include "rows/target_kl.h"

typedef struct state {
    const flkl *f;
    tg_rows x, weight, target, dx, dweight;
    int64_t classes;
    linear_ref linear;
    double *logits, *target_row;   /* of one row; the logits become their gradient */
    double *sum_bias, *sum_weight; /* of the gradients */
} state;

static double number(const tg_tensor *t, int64_t i, double otherwise)
{
    return t ? tg_get(tg_data(t), tg_type_of(t), i) : otherwise;
}

static tg_status prepare(tg_ctx *ctx, state *s, const flkl *f)
{
    const int64_t classes = f->weight->shape[0], hidden = f->weight->shape[1];
    const int64_t n = classes * (3 + (f->dweight ? hidden : 0)) + LINEAR_REF_ROWS * hidden + 1;
    *s = (state){.f = f,
                 .x = tg_rows_of(f->x),
                 .weight = tg_rows_of(f->weight),
                 .target = tg_rows_of(f->target),
                 .dx = tg_rows_of(f->dx),
                 .dweight = tg_rows_of(f->dweight),
                 .classes = classes};
    s->logits = tg_workspace(ctx, (size_t)n * sizeof(double));
    if (!s->logits)
        return TG_ENOMEM;
    memset(s->logits, 0, (size_t)n * sizeof(double));
    s->linear = linear_ref_in(s->logits + classes, hidden);
    s->target_row = s->logits + classes + LINEAR_REF_ROWS * hidden;
    s->sum_bias = s->target_row + classes;
    s->sum_weight = s->sum_bias + classes;
    return TG_OK;
}

/* Logits of a row over the temperature, and to where forward is asked for them. */
static void project(const state *s, int64_t row)
{
    const tg_rows all = tg_rows_of(s->f->logits);
    linear_ref_project(&s->linear, &s->x, &s->weight, row, s->logits);
    for (int64_t v = 0; v < s->classes; v++) {
        s->logits[v] = (s->logits[v] + number(s->f->bias, v, 0)) / s->f->temperature;
        if (all.data && !s->f->known)
            tg_set(all.data, all.type, row * all.stride + v, s->logits[v]);
    }
}

/* The row's divergence; g: the upstream gradient of it. */
static double run_row(const state *s, int64_t row, double g)
{
    for (int64_t v = 0; v < s->classes; v++)
        s->target_row[v] = tg_get(s->target.data, s->target.type, row * s->target.stride + v);
    return target_kl_of_row(s->logits, s->target_row, s->classes, s->f->eps, g / s->f->temperature);
}

static tg_status run(tg_ctx *ctx, const flkl *f)
{
    state s;
    TG_TRY(prepare(ctx, &s, f));
    const row_labels labels = row_labels_of(f->labels, f->ignore_index);
    const double scale = flkl_scale(f, s.x.rows), dloss = number(f->dloss, 0, 1);
    double loss = 0;
    for (int64_t row = 0; row < s.x.rows; row++) {
        project(&s, row);
        if (row_ignored(labels, row))
            memset(s.logits, 0, (size_t)s.classes * sizeof(double));
        else
            loss += run_row(&s, row, dloss * scale);
        for (int64_t v = 0; v < s.classes; v++)
            s.sum_bias[v] += s.logits[v];
        linear_ref_contribute(&s.linear, s.logits, &s.x, &s.weight, row, &s.dx,
                              f->dweight ? s.sum_weight : NULL);
    }
    if (f->loss)
        tg_set(tg_data(f->loss), tg_type_of(f->loss), 0, loss * scale);
    for (int64_t v = 0; f->dbias && v < s.classes; v++)
        tg_set(tg_data(f->dbias), tg_type_of(f->dbias), v,
               s.sum_bias[v] + (f->accumulate ? number(f->dbias, v, 0) : 0));
    linear_ref_finish(s.sum_weight, &s.dweight, f->accumulate);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_kl_div_forward_args *args)
{
    const flkl f = flkl_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_kl_div_backward_args *args)
{
    const flkl f = flkl_backward(args);
    return run(ctx, &f);
}

TG_REF_IMPLS(fused_linear_kl_div) = {TG_REF_IMPL(fused_linear_kl_div_forward, forward),
                                     TG_REF_IMPL(fused_linear_kl_div_backward, backward),
                                     TG_IMPLS_END};
