/* fused_linear_jsd on the CPU: chunks of rows, each two products for the logits, softmax_jsd, and two more products for the
 * gradients, all through dispatch. Only the logits of one chunk exist at a time. The calls are made
 * twice, first to reserve their memory (core/parts.h). */
#include <math.h>

#include "core/parts.h"
#include "fused_linear_jsd.h"
#include "rows/columns.h"

enum { DEFAULT_BYTES = 56 << 20 }; /* of logits: with the products' workspace less than 64 MiB */

typedef struct run_state {
    tg_ctx *ctx;
    const fljsd *f;
    tg_rows x, teacher_x, dx;
    int64_t classes, hidden;
    int64_t chunk;            /* rows of a chunk */
    int type;                 /* T */
    int gradients;            /* any asked for */
    float *student, *teacher; /* logits of a chunk */
    void *dlogits;            /* their gradient, of T; of f32 over the student's */
    float *losses;            /* of each chunk */
    float *sum_weight;        /* dweight, if it is of 16 bits and there are several chunks */
    double scale;             /* of dlogits; the products divide by it */
} run_state;

/* ---- one chunk ---- */

static tg_status project(run_state *s, const tg_tensor *x, const tg_tensor *weight, view *logits)
{
    return tg_gemm(s->ctx, &(tg_gemm_args){.a = x, .b = weight, .c = &logits->t, .trans_b = 1});
}

/* The chunk's part of the loss, and the gradient of the student's logits. */
static tg_status run_divergence(run_state *s, int64_t first, view *student, view *teacher,
                                view *dlogits)
{
    const fljsd *f = s->f;
    view loss;
    set_vector(&loss, s->losses + first / s->chunk, TG_F32, 1);
    return tg_softmax_jsd_forward(
        s->ctx, &(tg_softmax_jsd_forward_args){.student = &student->t,
                                               .teacher = &teacher->t,
                                               .labels = f->labels,
                                               .dloss = f->dloss,
                                               .loss = &loss.t,
                                               .dstudent = s->gradients ? &dlogits->t : NULL,
                                               .beta = TG_VALUE(f->beta),
                                               .temperature = f->temperature,
                                               .ignore_index = TG_VALUE(f->ignore_index),
                                               .first_row = first,
                                               .batch_rows = s->x.rows,
                                               .grad_scale = s->scale});
}

static tg_status add_gradients(run_state *s, int64_t first, const view *x, view *dlogits)
{
    const fljsd *f = s->f;
    if (f->dx) {
        view dx;
        set_rows(&dx, &s->dx, first, x->shape[0]);
        TG_TRY(tg_gemm(
            s->ctx,
            &(tg_gemm_args){.a = &dlogits->t, .b = f->weight, .c = &dx.t, .alpha = 1 / s->scale}));
    }
    if (!f->dweight)
        return TG_OK;
    view sums;
    set_view(&sums, s->sum_weight, TG_F32, s->classes, s->hidden, s->hidden);
    const int keep = first > 0 || (f->accumulate && !s->sum_weight);
    return tg_gemm(s->ctx, &(tg_gemm_args){.a = &dlogits->t,
                                           .b = &x->t,
                                           .c = s->sum_weight ? &sums.t : f->dweight,
                                           .trans_a = 1,
                                           .alpha = 1 / s->scale,
                                           .beta = keep});
}

static tg_status run_chunk(run_state *s, int64_t first, int64_t rows)
{
    view x, teacher_x, student, teacher, dlogits;
    set_rows(&x, &s->x, first, rows);
    set_rows(&teacher_x, &s->teacher_x, first, rows);
    set_view(&student, s->student, TG_F32, rows, s->classes, s->classes);
    set_view(&teacher, s->teacher, TG_F32, rows, s->classes, s->classes);
    set_view(&dlogits, s->dlogits, s->type, rows, s->classes, s->classes);
    TG_TRY(project(s, &x.t, s->f->weight, &student));
    TG_TRY(project(s, &teacher_x.t, s->f->teacher_weight, &teacher));
    TG_TRY(run_divergence(s, first, &student, &teacher, &dlogits));
    return s->gradients ? add_gradients(s, first, &x, &dlogits) : TG_OK;
}

/* ---- the whole ---- */

/* Rows of a chunk: equal parts of the fewest chunks whose logits fit. */
static int64_t chunk_rows(const run_state *s, int64_t row_bytes)
{
    const int64_t given = s->f->chunk_bytes;
    const int64_t most = (given ? given : DEFAULT_BYTES) / (row_bytes ? row_bytes : 1);
    const int64_t chunks = most < 1 ? s->x.rows : (s->x.rows + most - 1) / most;
    return chunks ? (s->x.rows + chunks - 1) / chunks : 1;
}

/* Of f16, a power of two that the gradient is scaled by: f16 has so few exponents that gradients divided by n would vanish
 * in it. The upstream gradient becomes about 2^14, since the gradient of a row's logits is below 1 before, and 2^8 for the
 * reverse divergence, where it has no bound. */
static double scale_of(const run_state *s)
{
    const fljsd *f = s->f;
    if (s->type != TG_F16)
        return 1;
    const double dloss = f->dloss ? *(const float *)tg_data(f->dloss) : 1;
    const double size = fabs(
        dloss * rows_share(row_labels_of(f->labels, f->ignore_index), s->x.rows) / f->temperature);
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
    const int apart = s->gradients && s->type != TG_F32;
    s->chunk = chunk_rows(s, s->classes * (apart ? 10 : 8));
    const int64_t logits = (s->chunk * s->classes + 15) / 16 * 16;
    const int64_t chunks = (s->x.rows + s->chunk - 1) / s->chunk;
    s->student =
        tg_workspace(s->ctx, (size_t)((2 * logits + chunks + 1) * 4 + (apart ? logits * 2 : 0)));
    if (!s->student)
        return TG_ENOMEM;
    s->teacher = s->student + logits;
    s->dlogits = apart ? s->teacher + logits : s->student;
    s->losses = s->teacher + logits + (apart ? logits / 2 : 0);
    if (f->dweight && tg_type_of(f->dweight) != TG_F32 && s->chunk < s->x.rows) {
        s->sum_weight = tg_workspace(s->ctx, (size_t)(s->classes * s->hidden) * sizeof(float));
        if (!s->sum_weight)
            return TG_ENOMEM;
    }
    return TG_OK;
}

static void finish(run_state *s)
{
    const fljsd *f = s->f;
    double loss = 0;
    for (int64_t first = 0; first < s->x.rows; first += s->chunk)
        loss += s->losses[first / s->chunk];
    if (s->sum_weight) /* of 16 bits: rounded once */
        columns_round(s->ctx, s->sum_weight, f->dweight, f->accumulate);
    if (f->loss)
        *(float *)tg_data(f->loss) = (float)loss;
}

static tg_status run_chunks(run_state *s)
{
    int64_t first = 0;
    do { /* once even without rows: dweight may have to become zero */
        const int64_t left = s->x.rows - first;
        TG_TRY(run_chunk(s, first, left < s->chunk ? left : s->chunk));
        first = tg_next_chunk(s->ctx, first, s->chunk, s->x.rows);
    } while (first < s->x.rows);
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const fljsd *f)
{
    run_state s = {.ctx = ctx,
                   .f = f,
                   .x = tg_rows_of(f->x),
                   .teacher_x = tg_rows_of(f->teacher_x),
                   .dx = tg_rows_of(f->dx),
                   .classes = f->weight->shape[0],
                   .hidden = f->weight->shape[1],
                   .type = tg_type_of(f->x),
                   .gradients = f->dx || f->dweight};
    TG_TRY(allocate(&s));
    s.scale = scale_of(&s);
    tg_reserve(ctx);
    const tg_status status = run_chunks(&s);
    tg_reserved(ctx);
    TG_TRY(status);
    TG_TRY(run_chunks(&s));
    finish(&s);
    return TG_OK;
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

TG_CPU_IMPLS(fused_linear_jsd) = {TG_CPU_IMPL(fused_linear_jsd_forward, forward),
                                  TG_CPU_IMPL(fused_linear_jsd_backward, backward), TG_IMPLS_END};
