/* fused_linear_cross_entropy of other operators: chunks of rows, each a product, cross_entropy and
 * two more products, on any device that has them (fused_linear/fused_linear.h). */
#include "fused_linear/fused_linear.h"
#include "fused_linear_cross_entropy.h"

enum { LOSS, Z_LOSS, ACCURACY };

typedef struct run_state {
    fused_linear l;
    const flce *f;
} run_state;

/* ---- one chunk ---- */

/* A result of the rows: of each, or their part of the call's; NULL if nobody asks for it. */
static tg_tensor *result(const run_state *s, const fused_linear_rows *c, int which,
                         const tg_tensor *t, view *v)
{
    if (s->f->reduction == TG_NONE)
        return part(v, t, c->first, c->rows);
    return fused_linear_result(&s->l, c, which, v);
}

/* The upstream gradient of the rows. */
static const tg_tensor *upstream(const run_state *s, const fused_linear_rows *c, view *v)
{
    return s->f->reduction == TG_NONE ? part(v, s->l.dloss, c->first, c->rows) : s->l.dloss;
}

/* What both directions of cross_entropy are given. D and n of a mean are those of all rows. */
#define LOSS_ARGS(s, c)                                                                       \
    .logits = &(c)->logits.t, .target = part(&target, (s)->f->target, (c)->first, (c)->rows), \
    .batch_target = (s)->l.parts > 1 ? (s)->f->target : NULL,                                 \
    .class_weight = (s)->f->class_weight, .dloss = upstream(s, c, &dloss),                    \
    .dlogits = (s)->l.gradients ? &(c)->dlogits.t : NULL,                                     \
    .ignore_index = TG_VALUE((s)->f->ignore_index), .reduction = (s)->f->reduction,           \
    .label_smoothing = (s)->f->smoothing, .lse_square_scale = (s)->f->z,                      \
    .softcap = (s)->f->softcap / (s)->f->temperature, .token_scaling = (s)->f->token_scaling, \
    .grad_scale = (s)->l.scale, .vocab_start = (s)->f->slice.start,                           \
    .vocab_size = (s)->f->slice.all

static tg_status run_loss(const void *state, fused_linear_rows *c)
{
    const run_state *s = state;
    const flce *f = s->f;
    view target, dloss, lse, predicted, loss, z_loss, accuracy;
    if (f->saved)
        return tg_cross_entropy_backward(
            s->l.ctx, &(tg_cross_entropy_backward_args){
                          LOSS_ARGS(s, c), .lse = part(&lse, f->saved, c->first, c->rows)});
    return tg_cross_entropy_forward(
        s->l.ctx, &(tg_cross_entropy_forward_args){
                      LOSS_ARGS(s, c), .loss = result(s, c, LOSS, f->loss, &loss),
                      .z_loss = result(s, c, Z_LOSS, f->z_loss, &z_loss),
                      .accuracy = result(s, c, ACCURACY, f->accuracy, &accuracy),
                      .lse = part(&lse, f->lse, c->first, c->rows),
                      .predicted = part(&predicted, f->predicted, c->first, c->rows)});
}

/* ---- the whole ---- */

static tg_status run(tg_ctx *ctx, const flce *f)
{
    const int each = f->reduction == TG_NONE;
    run_state s = {.l = {.ctx = ctx,
                         FUSED_LINEAR_GIVEN(f),
                         FUSED_LINEAR_BIAS(f),
                         .logit_scale = 1 / f->temperature,
                         .results = {each ? NULL : f->loss, each ? NULL : f->z_loss,
                                     each ? NULL : f->accuracy},
                         .dloss = f->dloss,
                         .split = 1},
                   .f = f};
    TG_TRY(fused_linear_begin(&s.l, f->chunk_bytes));
    s.l.scale = fused_linear_scale_of(&s.l, f->reduction == TG_MEAN ? 12 : 8); /* before D */
    return fused_linear_run(&s.l, run_loss, &s);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_forward_args *args)
{
    const flce f = flce_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_cross_entropy_backward_args *args)
{
    const flce f = flce_backward(args);
    return f.dx || f.dweight || f.dbias ? run(ctx, &f) : TG_OK;
}

TG_PARTS_CALLS(fused_linear_cross_entropy) = {FUSED_LINEAR_CALLS, "cross_entropy_forward",
                                              "cross_entropy_backward", NULL};
TG_PARTS_IMPLS(fused_linear_cross_entropy) = {
    TG_PARTS_IMPL(fused_linear_cross_entropy_forward, forward),
    TG_PARTS_IMPL(fused_linear_cross_entropy_backward, backward), TG_IMPLS_END};
