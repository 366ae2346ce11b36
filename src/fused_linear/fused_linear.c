/* src/fused_linear/fused_linear.c - chunks of rows: their logits, and what they leave. */
#include "fused_linear/fused_linear_parts.h"

#include "core/parts.h"

/* ---- some rows ---- */

/* Of the chunk from row `first` on. */
static int64_t rows_from(const fused_linear *l, int64_t first)
{
    const int64_t left = l->rows_of_x.rows - first;
    return left < l->rows ? left : l->rows;
}

/* Whose memory the chunk of row `first` has: 0, or of two chunks 0 or 1. */
static int set_of(const fused_linear *l, int64_t first)
{
    return l->beside && first / l->rows % 2;
}

static void set_logits(const fused_linear *l, view *v, char *memory, int type, int64_t first,
                       int64_t rows)
{
    const int64_t at = first % l->rows * l->classes * (int64_t)tg_type_size((tg_type)type);
    set_view(v, memory + at, type, rows, l->classes, l->classes);
}

static void take_rows(const fused_linear *l, fused_linear_rows *c, int64_t first, int64_t rows)
{
    c->first = first;
    c->rows = rows;
    char *memory = l->memory + set_of(l, first) * l->set_bytes;
    set_rows(&c->x, &l->rows_of_x, first, rows);
    if (l->logits)
        set_rows(&c->logits, &l->rows_of_logits, first, rows);
    else
        set_logits(l, &c->logits, memory, TG_F32, first, rows);
    set_logits(l, &c->dlogits, memory + l->dlogits_at, l->type, first, rows);
    if (l->teacher_x) {
        set_rows(&c->teacher_x, &l->rows_of_teacher, first, rows);
        if (l->teacher_logits)
            set_rows(&c->teacher, &l->rows_of_teacher_logits, first, rows);
        else
            set_logits(l, &c->teacher, memory + l->teacher_at, TG_F32, first, rows);
    }
    view *const views[] = {&c->x, &c->logits, &c->dlogits, &c->teacher_x, &c->teacher};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        beside(views[i], l->x);
}

tg_tensor *fused_linear_result(const fused_linear *l, const fused_linear_rows *c, int which,
                               view *v)
{
    float *const parts = l->of_parts + which * l->parts;
    set_vector(v, parts + fused_linear_part(l, c->first), TG_F32, 1);
    return l->results[which] ? beside(v, l->x) : NULL;
}

/* ---- the products ---- */

/* to = logit_scale (x weight^T + bias) */
static tg_status multiply(const fused_linear *l, view *x, const tg_tensor *weight,
                          const tg_tensor *bias, view *to)
{
    if (bias)
        TG_TRY(tg_sum_rows_backward(
            l->ctx,
            &(tg_sum_rows_backward_args){.dy = bias, .dx = &to->t, .scale = l->logit_scale}));
    return tg_gemm(l->ctx, &(tg_gemm_args){.a = &x->t,
                                           .b = weight,
                                           .c = &to->t,
                                           .trans_b = 1,
                                           .alpha = l->logit_scale,
                                           .beta = bias ? 1 : 0});
}

static tg_status project(const fused_linear *l, int64_t first)
{
    fused_linear_rows c;
    take_rows(l, &c, first, rows_from(l, first));
    if (!l->known || !l->logits)
        TG_TRY(multiply(l, &c.x, l->weight, l->bias, &c.logits));
    if (!l->teacher_x || (l->known && l->teacher_logits))
        return TG_OK;
    return multiply(l, &c.teacher_x, l->teacher_weight, NULL, &c.teacher);
}

/* to = the sum of `count` f32 tensors of its shape that follow each other where it lies, times the
 * factor if there is one, with accumulate added to what it holds. Nothing if one of parts and to is
 * NULL. */
static tg_status add_up(const fused_linear *l, const float *parts, int64_t count,
                        const tg_tensor *factor, tg_tensor *to, int64_t accumulate)
{
    int64_t shape[TG_MAX_NDIM];
    if (!parts || !to)
        return TG_OK;
    shape[0] = count;
    for (int i = 0; i < to->ndim; i++)
        shape[i + 1] = to->shape[i];
    tg_tensor x = tg_tensor_of((void *)parts, TG_F32, to->ndim + 1, shape);
    x.device = to->device;
    return tg_sum_rows_forward(
        l->ctx,
        &(tg_sum_rows_forward_args){.x = &x, .factor = factor, .y = to, .accumulate = accumulate});
}

/* What the gradient of the chunk's logits adds to dx. */
static tg_status add_to_x(const fused_linear *l, const fused_linear_rows *c)
{
    const int64_t hidden = l->weight->shape[1];
    const tg_rows rows = tg_rows_of(l->dx);
    view dx, dx32;
    set_rows(&dx, &rows, c->first, c->rows);
    set_view(&dx32, l->dx32, TG_F32, c->rows, hidden, hidden);
    TG_TRY(tg_gemm(l->ctx, &(tg_gemm_args){.a = &c->dlogits.t,
                                           .b = l->weight,
                                           .c = beside(l->factor ? &dx32 : &dx, l->x),
                                           .alpha = l->logit_scale / l->scale}));
    return add_up(l, l->dx32, 1, l->factor, beside(&dx, l->x), 0);
}

static tg_status add_to_weight(const fused_linear *l, const fused_linear_rows *c)
{
    const int64_t hidden = l->weight->shape[1];
    view sums;
    set_view(&sums, l->sum_weight, TG_F32, l->classes, hidden, hidden);
    return tg_gemm(l->ctx,
                   &(tg_gemm_args){.a = &c->dlogits.t,
                                   .b = &c->x.t,
                                   .c = l->sum_weight ? beside(&sums, l->x) : l->dweight,
                                   .trans_a = 1,
                                   .alpha = l->logit_scale / l->scale,
                                   .beta = c->first > 0 || (l->accumulate && !l->sum_weight)});
}

static tg_status add_to_bias(const fused_linear *l, const fused_linear_rows *c)
{
    view sums;
    set_vector(&sums, l->sum_bias, TG_F32, l->classes);
    return tg_sum_rows_forward(
        l->ctx,
        &(tg_sum_rows_forward_args){.x = &c->dlogits.t,
                                    .y = l->sum_bias ? beside(&sums, l->x) : l->dbias,
                                    .scale = l->logit_scale / l->scale,
                                    .accumulate = c->first > 0 || (l->accumulate && !l->sum_bias)});
}

static tg_status add_gradients(const fused_linear *l, int64_t first)
{
    fused_linear_rows c;
    take_rows(l, &c, first, rows_from(l, first));
    if (l->dx)
        TG_TRY(add_to_x(l, &c));
    if (l->dweight)
        TG_TRY(add_to_weight(l, &c));
    return l->dbias ? add_to_bias(l, &c) : TG_OK;
}

/* ---- chunk by chunk ---- */

static tg_status run_in_turn(const fused_linear *l, fused_linear_loss loss, const void *state)
{
    const int64_t rows = l->rows_of_x.rows;
    int64_t first = 0;
    do {
        fused_linear_rows c;
        take_rows(l, &c, first, rows_from(l, first));
        TG_TRY(project(l, first));
        TG_TRY(loss(state, &c));
        TG_TRY(add_gradients(l, first));
        first = tg_next_chunk(l->ctx, first, l->rows, rows);
    } while (first < rows);
    return TG_OK;
}

/* The loss of a chunk, in its parts. */
static tg_status run_loss(const fused_linear *l, fused_linear_loss loss, const void *state,
                          int64_t first)
{
    const int64_t end = first + rows_from(l, first);
    for (; first < end; first += l->part_rows) {
        const int64_t left = end - first;
        fused_linear_rows c;
        take_rows(l, &c, first, left < l->part_rows ? left : l->part_rows);
        TG_TRY(loss(state, &c));
    }
    return TG_OK;
}

/* Each chunk's loss beside the gradients of the chunk before it, and then the logits of the chunk
 * behind it, which lie where those of the chunk before lay. */
static tg_status run_beside(const fused_linear *l, fused_linear_loss loss, const void *state)
{
    const int64_t rows = l->rows_of_x.rows;
    int64_t first = 0, before = 0;
    TG_TRY(project(l, 0));
    while (first < rows) {
        const int64_t next = tg_next_chunk(l->ctx, first, l->rows, rows);
        TG_TRY(tg_side_begin(l->ctx));
        TG_TRY(run_loss(l, loss, state, first));
        TG_TRY(tg_side_end(l->ctx));
        if (first > 0)
            TG_TRY(add_gradients(l, before));
        if (next < rows)
            TG_TRY(project(l, next));
        TG_TRY(tg_side_join(l->ctx));
        before = first;
        first = next;
    }
    return add_gradients(l, before);
}

static tg_status run_once(const fused_linear *l, fused_linear_loss loss, const void *state)
{
    TG_TRY((l->beside ? run_beside : run_in_turn)(l, loss, state));
    TG_TRY(add_up(l, l->sum_weight, 1, l->factor, l->dweight, l->accumulate));
    TG_TRY(add_up(l, l->sum_bias, 1, l->factor, l->dbias, l->accumulate));
    for (int i = 0; i < FUSED_LINEAR_RESULTS; i++) {
        view one;
        TG_TRY(add_up(l, l->of_parts + i * l->parts, l->parts, NULL,
                      part(&one, l->results[i], 0, 1), 0));
    }
    return TG_OK;
}

tg_status fused_linear_run(const fused_linear *l, fused_linear_loss loss, const void *state)
{
    tg_reserve(l->ctx);
    const tg_status status = run_once(l, loss, state);
    tg_reserved(l->ctx);
    return status != TG_OK ? status : run_once(l, loss, state);
}
