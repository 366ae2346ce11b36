/* fused_linear_jsd of other operators: chunks of rows, each two products for the logits,
 * softmax_jsd, and two more products for the gradients, on any device that has them
 * (fused_linear/fused_linear.h). */
#include <math.h>

#include "fused_linear/fused_linear.h"
#include "fused_linear_jsd.h"

typedef struct run_state {
    fused_linear l;
    const fljsd *f;
} run_state;

/* What both directions of softmax_jsd are given. The mean is that of all rows. */
#define LOSS_ARGS(s, c)                                                              \
    .student = &(c)->logits.t, .teacher = &(c)->teacher.t, .labels = (s)->f->labels, \
    .dloss = (s)->l.dloss, .dstudent = (s)->l.gradients ? &(c)->dlogits.t : NULL,    \
    .beta = TG_VALUE((s)->f->beta), .temperature = (s)->f->temperature,              \
    .ignore_index = TG_VALUE((s)->f->ignore_index), .first_row = (c)->first,         \
    .batch_rows = (s)->l.rows_of_x.rows, .grad_scale = (s)->l.scale

/* Their part of the loss, and the gradient of the student's logits. */
static tg_status run_loss(const void *state, fused_linear_rows *c)
{
    const run_state *s = state;
    view loss;
    if (!s->f->loss)
        /* no case: without gradients there is no backward */
        return tg_softmax_jsd_backward(s->l.ctx, &(tg_softmax_jsd_backward_args){LOSS_ARGS(s, c)});
    return tg_softmax_jsd_forward(
        s->l.ctx, &(tg_softmax_jsd_forward_args){LOSS_ARGS(s, c),
                                                 .loss = fused_linear_result(&s->l, c, 0, &loss)});
}

/* The upstream gradient of a row's loss, as far as it can be told: of a dloss that lies on a
 * device only 1 is left (fused_linear_begin()), and of labels there it may be that a
 * single row counts. */
static double upstream(const fljsd *f, int64_t rows)
{
    const double dloss = f->dloss && on_host(f->dloss) ? *(const float *)tg_data(f->dloss) : 1;
    if (f->labels && !on_host(f->labels)) /* no case: of a device, which tests/device has */
        return dloss / f->temperature;    /* no case: the same */
    return dloss * rows_share(row_labels_of(f->labels, f->ignore_index), rows) / f->temperature;
}

/* Of f16, a power of two that the gradient is scaled by: f16 has so few exponents that gradients
 * divided by n would vanish in it. The upstream gradient becomes about 2^14, since the gradient of
 * a row's logits is below 1 before, and 2^8 for the reverse divergence, where it has no bound. */
static double scale_of(const run_state *s)
{
    if (s->l.type != TG_F16)
        return 1;
    return fused_linear_scale(fabs(upstream(s->f, s->l.rows_of_x.rows)), s->f->beta == 1 ? 8 : 14);
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    run_state s = {.l = {.ctx = ctx,
                         FUSED_LINEAR_GIVEN(f),
                         .teacher_x = f->teacher_x,
                         .teacher_weight = f->teacher_weight,
                         .teacher_logits = f->teacher_logits,
                         .logit_scale = 1,
                         .results = {f->loss},
                         .dloss = f->dloss,
                         .split = 4},
                   .f = f};
    TG_TRY(fused_linear_begin(&s.l, f->chunk_bytes));
    s.l.scale = scale_of(&s);
    return fused_linear_run(&s.l, run_loss, &s);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_jsd_forward_args *args)
{
    const fljsd f = fljsd_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_jsd_backward_args *args)
{
    const fljsd f = fljsd_backward(args);
    return f.dx || f.dweight ? run(ctx, &f) : TG_OK;
}

TG_PARTS_CALLS(fused_linear_jsd) = {FUSED_LINEAR_CALLS, "softmax_jsd_forward",
                                    "softmax_jsd_backward", NULL};
TG_PARTS_IMPLS(fused_linear_jsd) = {TG_PARTS_IMPL(fused_linear_jsd_forward, forward),
                                    TG_PARTS_IMPL(fused_linear_jsd_backward, backward),
                                    TG_IMPLS_END};
