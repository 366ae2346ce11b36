/* fused_linear_jsd of other operators: chunks of rows, each two products for the logits,
 * softmax_jsd, and two more products for the gradients, on any device that has them
 * (fused_linear/fused_linear.h). */
#include <math.h>

#include "fused_linear/fused_linear.h"
#include "fused_linear_jsd.h"

typedef struct run_state {
    fused_linear l;
    const fljsd *f;
    tg_rows teacher_x;
} run_state;

/* ---- one chunk ---- */

static tg_status multiply(const run_state *s, const view *x, const tg_tensor *weight, view *logits)
{
    return tg_gemm(s->l.ctx,
                   &(tg_gemm_args){.a = &x->t, .b = weight, .c = &logits->t, .trans_b = 1});
}

static tg_status project(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    fused_linear_chunk c;
    view teacher_x;
    fused_linear_chunk_at(&s->l, &c, first, rows);
    set_rows(&teacher_x, &s->teacher_x, first, rows);
    beside(&teacher_x, s->f->x);
    TG_TRY(multiply(s, &c.x, s->f->weight, &c.logits));
    return multiply(s, &teacher_x, s->f->teacher_weight, &c.teacher);
}

/* What both directions of softmax_jsd are given. The mean is that of all rows. */
#define LOSS_ARGS(s, c)                                                              \
    .student = &(c)->logits.t, .teacher = &(c)->teacher.t, .labels = (s)->f->labels, \
    .dloss = (s)->l.dloss, .dstudent = (s)->l.gradients ? &(c)->dlogits.t : NULL,    \
    .beta = TG_VALUE((s)->f->beta), .temperature = (s)->f->temperature,              \
    .ignore_index = TG_VALUE((s)->f->ignore_index), .first_row = (c)->first,         \
    .batch_rows = (s)->l.rows_of_x.rows, .grad_scale = (s)->l.scale

/* The chunk's part of the loss, and the gradient of the student's logits. */
static tg_status run_loss(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    fused_linear_chunk c;
    view loss;
    fused_linear_chunk_at(&s->l, &c, first, rows);
    if (!s->f->loss)
        /* no case: without gradients there is no backward */
        return tg_softmax_jsd_backward(s->l.ctx, &(tg_softmax_jsd_backward_args){LOSS_ARGS(s, &c)});
    return tg_softmax_jsd_forward(
        s->l.ctx, &(tg_softmax_jsd_forward_args){
                      LOSS_ARGS(s, &c), .loss = fused_linear_result(&s->l, &loss, 0, first)});
}

static tg_status add_gradients(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    fused_linear_chunk c;
    fused_linear_chunk_at(&s->l, &c, first, rows);
    return fused_linear_gradients(&s->l, &c);
}

/* ---- the whole ---- */

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
    if (tg_type_of(s->l.x) != TG_F16)
        return 1;
    const double size = fabs(upstream(s->f, s->l.rows_of_x.rows));
    if (!(size > 0 && size < INFINITY))
        return 1;
    const int shift =
        (s->f->beta == 1 ? 8 : 14) - ilogb(size); /* within what an alpha of f32 can undo */
    return ldexp(1, shift < -120 ? -120 : shift > 120 ? 120 : shift);
}

static tg_status finish(void *state)
{
    const run_state *s = state;
    return fused_linear_add_up(&s->l, 0, s->f->loss);
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    run_state s = {.l = {FUSED_LINEAR(f), .ctx = ctx, .gradients = f->dx || f->dweight, .logits = 2,
                         .results = 1, .split = 4},
                   .f = f,
                   .teacher_x = tg_rows_of(f->teacher_x)};
    TG_TRY(fused_linear_begin(&s.l, f->chunk_bytes));
    s.l.scale = scale_of(&s);
    const fused_linear_steps steps = {project, run_loss, add_gradients, finish};
    return fused_linear_run(&s.l, &steps, &s);
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

TG_PARTS_IMPLS(fused_linear_jsd) = {TG_PARTS_IMPL(fused_linear_jsd_forward, forward),
                                    TG_PARTS_IMPL(fused_linear_jsd_backward, backward),
                                    TG_IMPLS_END};
