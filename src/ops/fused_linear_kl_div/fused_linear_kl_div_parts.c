/* fused_linear_kl_div of other operators: chunks of rows, each a product, softmax_kl_div and two
 * more products (fused_linear/fused_linear.h). */
#include <math.h>

#include "fused_linear/fused_linear.h"
#include "fused_linear_kl_div.h"

typedef struct run_state {
    fused_linear l;
    const flkl *f;
    tg_rows target;
} run_state;

/* What both directions of softmax_kl_div are given. The logits are over the temperature; the mean
 * is that of all rows. */
#define LOSS_ARGS(s, c)                                                                       \
    .logits = &(c)->logits.t, .target = beside(&target, (s)->f->x), .labels = (s)->f->labels, \
    .dloss = (s)->l.dloss, .dlogits = (s)->l.gradients ? &(c)->dlogits.t : NULL,              \
    .reduction = (s)->f->reduction, .ignore_index = TG_VALUE((s)->f->ignore_index),           \
    .first_row = (c)->first, .batch_rows = (s)->l.rows_of_x.rows, .grad_scale = (s)->l.scale

/* The rows' part of the loss, and the gradient of their logits. */
static tg_status run_loss(const void *state, fused_linear_rows *c)
{
    const run_state *s = state;
    view loss, target;
    set_rows(&target, &s->target, c->first, c->rows);
    if (!s->f->loss)
        return tg_softmax_kl_div_backward(s->l.ctx,
                                          &(tg_softmax_kl_div_backward_args){LOSS_ARGS(s, c)});
    return tg_softmax_kl_div_forward(
        s->l.ctx,
        &(tg_softmax_kl_div_forward_args){LOSS_ARGS(s, c), .eps = TG_VALUE(s->f->eps),
                                          .loss = fused_linear_result(&s->l, c, 0, &loss)});
}

/* The upstream gradient of a row's divergence, as far as it can be told: of a dloss that lies on a
 * device only 1 is left (fused_linear_begin()), and of labels there it may be that a single row
 * counts. */
static double upstream(const flkl *f, int64_t rows)
{
    const double dloss = f->dloss && on_host(f->dloss) ? *(const float *)tg_data(f->dloss) : 1;
    const int seen = !f->labels || on_host(f->labels);
    return dloss * (seen ? flkl_scale(f, rows)
                         : reduction_scale((row_labels){0}, f->reduction, 1, f->weight->shape[0]));
}

/* The largest sum of a row's targets, which need not be 1: the gradient of a row's logits is below
 * that. Of targets on a device nothing is known; 2^11 is what f16 has room for. */
static double largest_sum(const tg_tensor *target)
{
    const tg_rows rows = tg_rows_of(target);
    double most = on_host(target) ? 1 : 256;
    for (int64_t r = 0; on_host(target) && r < rows.rows; r++) {
        double sum = 0;
        for (int64_t v = 0; v < rows.n; v++)
            sum += fabs(tg_get(rows.data, rows.type, r * rows.stride + v));
        most = fmax(most, sum);
    }
    return most;
}

static tg_status run(tg_ctx *ctx, const flkl *f)
{
    run_state s = {.l = {.ctx = ctx,
                         FUSED_LINEAR_GIVEN(f),
                         FUSED_LINEAR_BIAS(f),
                         .logit_scale = 1 / f->temperature,
                         .results = {f->loss},
                         .dloss = f->dloss,
                         .split = 2},
                   .f = f,
                   .target = tg_rows_of(f->target)};
    TG_TRY(fused_linear_begin(&s.l, f->chunk_bytes));
    if (s.l.type == TG_F16)
        s.l.scale =
            fused_linear_scale(fabs(upstream(f, s.l.rows_of_x.rows)) * largest_sum(f->target), 12);
    return fused_linear_run(&s.l, run_loss, &s);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_kl_div_forward_args *args)
{
    const flkl f = flkl_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_kl_div_backward_args *args)
{
    const flkl f = flkl_backward(args);
    return f.dx || f.dweight || f.dbias ? run(ctx, &f) : TG_OK;
}

TG_PARTS_CALLS(fused_linear_kl_div) = {FUSED_LINEAR_CALLS, "softmax_kl_div_forward",
                                       "softmax_kl_div_backward", NULL};
TG_PARTS_IMPLS(fused_linear_kl_div) = {TG_PARTS_IMPL(fused_linear_kl_div_forward, forward),
                                       TG_PARTS_IMPL(fused_linear_kl_div_backward, backward),
                                       TG_IMPLS_END};
