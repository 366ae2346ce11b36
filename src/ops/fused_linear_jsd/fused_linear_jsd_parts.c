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
    int64_t classes;
    int type;      /* T */
    int gradients; /* any asked for */
    /* of a chunk's logits, the student's and the teacher's, and their gradient, or of two
     * chunks' */
    char *memory;
    int64_t set_bytes;              /* of one chunk */
    int64_t teacher_at, dlogits_at; /* in it; dlogits_at 0: over the student's logits */
    float *losses;                  /* of each part of a chunk */
} run_state;

/* ---- one chunk ---- */

typedef struct chunk {
    int64_t first;
    view x, teacher_x, student, teacher, dlogits, loss;
} chunk;

static void set_chunk(const run_state *s, chunk *c, int64_t first, int64_t rows)
{
    char *memory = s->memory + fused_linear_set(&s->l, first) * s->set_bytes;
    const int64_t at = first % s->l.rows * s->classes;
    c->first = first;
    set_rows(&c->x, &s->l.rows_of_x, first, rows);
    set_rows(&c->teacher_x, &s->teacher_x, first, rows);
    set_view(&c->student, (float *)memory + at, TG_F32, rows, s->classes, s->classes);
    set_view(&c->teacher, (float *)(memory + s->teacher_at) + at, TG_F32, rows, s->classes,
             s->classes);
    set_view(&c->dlogits, memory + s->dlogits_at + at * (int64_t)tg_type_size(s->type), s->type,
             rows, s->classes, s->classes);
    set_vector(&c->loss, s->losses + fused_linear_part(&s->l, first), TG_F32, 1);
    view *const views[] = {&c->x, &c->teacher_x, &c->student, &c->teacher, &c->dlogits, &c->loss};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        beside(views[i], s->f->x);
}

static tg_status multiply(const run_state *s, const view *x, const tg_tensor *weight, view *logits)
{
    return tg_gemm(s->l.ctx,
                   &(tg_gemm_args){.a = &x->t, .b = weight, .c = &logits->t, .trans_b = 1});
}

static tg_status project(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    chunk c;
    set_chunk(s, &c, first, rows);
    TG_TRY(multiply(s, &c.x, s->f->weight, &c.student));
    return multiply(s, &c.teacher_x, s->f->teacher_weight, &c.teacher);
}

/* What both directions of softmax_jsd are given. The mean is that of all rows. */
#define LOSS_ARGS(s, c)                                                               \
    .student = &(c)->student.t, .teacher = &(c)->teacher.t, .labels = (s)->f->labels, \
    .dloss = (s)->l.dloss, .dstudent = (s)->gradients ? &(c)->dlogits.t : NULL,       \
    .beta = TG_VALUE((s)->f->beta), .temperature = (s)->f->temperature,               \
    .ignore_index = TG_VALUE((s)->f->ignore_index), .first_row = (c)->first,          \
    .batch_rows = (s)->l.rows_of_x.rows, .grad_scale = (s)->l.scale

/* The chunk's part of the loss, and the gradient of the student's logits. */
static tg_status run_loss(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    chunk c;
    set_chunk(s, &c, first, rows);
    if (!s->f->loss)
        /* no case: without gradients there is no backward */
        return tg_softmax_jsd_backward(s->l.ctx, &(tg_softmax_jsd_backward_args){LOSS_ARGS(s, &c)});
    return tg_softmax_jsd_forward(
        s->l.ctx, &(tg_softmax_jsd_forward_args){LOSS_ARGS(s, &c), .loss = &c.loss.t});
}

static tg_status add_gradients(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    chunk c;
    set_chunk(s, &c, first, rows);
    return fused_linear_gradients(&s->l, first, &c.x, &c.dlogits);
}

/* ---- the whole ---- */

/* The upstream gradient of a row's loss, as far as it can be told: of a dloss that lies on a
 * device only 1 is left (fused_linear_upstream()), and of labels there it may be that a
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
    if (s->type != TG_F16)
        return 1;
    const double size = fabs(upstream(s->f, s->l.rows_of_x.rows));
    if (!(size > 0 && size < INFINITY))
        return 1;
    const int shift =
        (s->f->beta == 1 ? 8 : 14) - ilogb(size); /* within what an alpha of f32 can undo */
    return ldexp(1, shift < -120 ? -120 : shift > 120 ? 120 : shift);
}

/* All memory of the call but that of its parts. */
static tg_status allocate(run_state *s)
{
    const fljsd *f = s->f;
    const int narrow = s->gradients && s->type != TG_F32;
    fused_linear_cut(&s->l, s->classes * (narrow ? 10 : 8), f->chunk_bytes);
    const int64_t elements = s->l.rows * s->classes, logits = fused_linear_lines(elements * 4),
                  dlogits = narrow ? fused_linear_lines(elements * 2) : 0,
                  sets = (2 * logits + dlogits) * (1 + s->l.beside);
    s->memory = tg_workspace_beside(s->l.ctx, f->x, (size_t)(sets + s->l.parts * 4));
    if (!s->memory)
        return TG_ENOMEM;
    s->set_bytes = 2 * logits + dlogits;
    s->teacher_at = logits;
    s->dlogits_at = narrow ? 2 * logits : 0;
    s->losses = (float *)(s->memory + sets);
    TG_TRY(fused_linear_upstream(&s->l));
    return fused_linear_sums(&s->l, f->dweight, &s->l.sum_weight);
}

static tg_status finish(void *state)
{
    const run_state *s = state;
    view loss;
    return fused_linear_add_up(&s->l, s->losses, s->l.parts, NULL, part(&loss, s->f->loss, 0, 1),
                               0);
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    run_state s = {.l = {.ctx = ctx,
                         .x = f->x,
                         .weight = f->weight,
                         .dx = f->dx,
                         .dweight = f->dweight,
                         .accumulate = f->accumulate,
                         .dloss = f->dloss,
                         .split = 4},
                   .f = f,
                   .teacher_x = tg_rows_of(f->teacher_x),
                   .classes = f->weight->shape[0],
                   .type = tg_type_of(f->x),
                   .gradients = f->dx || f->dweight};
    TG_TRY(allocate(&s));
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
