/* fused_linear_logp, plainly: one row of logits at a time, in double precision. */
#include <string.h>

#include "fused_linear/fused_linear_ref.h"
#include "fused_linear_logp.h"

typedef struct state {
    const fllogp *f;
    tg_rows x, weight, dx, dweight, all;
    linear_ref linear;
    double *logits;                /* of one row; then the gradient */
    double *slope;                 /* of its logits */
    double *sum_bias, *sum_weight; /* of the gradients */
} state;

static tg_status prepare(tg_ctx *ctx, state *s, const fllogp *f)
{
    const int64_t classes = f->weight->shape[0], hidden = f->weight->shape[1];
    const int64_t n = classes * (3 + (f->dweight ? hidden : 0)) + LINEAR_REF_ROWS * hidden + 1;
    *s = (state){.f = f,
                 .x = tg_rows_of(f->x),
                 .weight = tg_rows_of(f->weight),
                 .dx = tg_rows_of(f->dx),
                 .dweight = tg_rows_of(f->dweight),
                 .all = tg_rows_of(f->logits)};
    s->logits = tg_workspace(ctx, (size_t)n * sizeof(double));
    if (!s->logits)
        return TG_ENOMEM;
    memset(s->logits, 0, (size_t)n * sizeof(double));
    s->linear = linear_ref_in(s->logits + classes, hidden);
    s->sum_bias = s->logits + classes + LINEAR_REF_ROWS * hidden;
    s->slope = s->sum_bias + classes;
    s->sum_weight = s->slope + classes;
    return TG_OK;
}

static void project(const state *s, int64_t row)
{
    linear_ref_project(&s->linear, &s->x, &s->weight, row, s->logits);
    for (int64_t v = 0; v < s->weight.rows; v++)
        s->logits[v] = s->f->logit_scale * (s->logits[v] + logp_get(s->f->bias, v));
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_logp_forward_args *args)
{
    const fllogp f = fllogp_forward(args);
    state s;
    TG_TRY(prepare(ctx, &s, &f));
    for (int64_t row = 0; row < s.x.rows; row++) {
        const int ignored = logp_ignores(&f.c, row);
        if (!ignored || f.logits)
            project(&s, row);
        for (int64_t v = 0; v < s.weight.rows && f.logits; v++)
            tg_set(s.all.data, s.all.type, row * s.all.stride + v, s.logits[v]);
        if (ignored) {
            logp_ignored_row(&f.c, row);
            continue;
        }
        logp_forward_row(&f.c, row, s.logits, s.weight.rows);
    }
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_logp_backward_args *args)
{
    const fllogp f = fllogp_backward(args);
    const int64_t classes = f.weight->shape[0];
    state s;
    TG_TRY(prepare(ctx, &s, &f));
    for (int64_t row = 0; row < s.x.rows; row++) {
        const int ignored = logp_ignores(&f.c, row);
        if (!ignored) {
            project(&s, row);
            logp_backward_row(&f.c, row, s.logits, s.slope, classes);
        }
        for (int64_t v = 0; v < classes; v++) {
            s.logits[v] = ignored ? 0 : f.logit_scale * s.logits[v];
            s.sum_bias[v] += s.logits[v];
        }
        linear_ref_contribute(&s.linear, s.logits, &s.x, &s.weight, row, &s.dx,
                              f.dweight ? s.sum_weight : NULL);
    }
    for (int64_t v = 0; v < classes; v++)
        logp_put(f.dbias, v, s.sum_bias[v] + (f.accumulate ? logp_get(f.dbias, v) : 0));
    linear_ref_finish(s.sum_weight, &s.dweight, f.accumulate);
    return TG_OK;
}

TG_REF_IMPLS(fused_linear_logp) = {TG_REF_IMPL(fused_linear_logp_forward, forward),
                                   TG_REF_IMPL(fused_linear_logp_backward, backward), TG_IMPLS_END};
