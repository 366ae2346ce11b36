/* fused_linear_jsd on the CPU: chunks of rows, each two products for the logits, one kernel, and two more
 * products for the gradients. Only the logits of one chunk exist at a time. The products are called
 * twice, first to reserve their memory (core/parts.h). */
#include <string.h>

#include "core/parts.h"
#include "fused_linear_jsd.h"
#include "fused_linear_jsd_cpu.h"
#include "rows/columns.h"
#include "rows/rows.h"

enum { DEFAULT_BYTES = 56 << 20 }; /* of logits: with the products' workspace less than 64 MiB */

typedef struct run_state {
    tg_ctx *ctx;
    const fljsd *f;
    tg_rows x, teacher_x, dx;
    int64_t classes, hidden;
    int64_t chunk; /* rows of a chunk */
    int type;      /* T */
    row_options o;
    float *student, *teacher; /* logits of a chunk; the student's become their gradient */
    double *row_loss;         /* of a chunk */
    float *sum_weight;        /* dweight, if it is of 16 bits and there are several chunks */
    double per_row;           /* 1 / n */
    double scale;             /* of dlogits; the products divide by it */
    double loss;              /* so far */
    int64_t first;            /* row of the chunk */
} run_state;

/* ---- one chunk ---- */

static void run_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const run_state *s = arg;
    for (int64_t r = begin; r < end; r++) {
        float *student = s->student + r * s->classes;
        s->row_loss[r] = 0;
        if (!row_ignored(s->f->labels, s->first + r))
            s->row_loss[r] = run_row(&s->o, student, s->teacher + r * s->classes, s->classes);
        else if (s->o.gradient)
            memset(student, 0, (size_t)(s->classes * el_size(s->o.type)));
    }
}

static tg_status project(run_state *s, const tg_tensor *x, const tg_tensor *weight, float *logits,
                         int64_t rows)
{
    view c;
    set_view(&c, logits, TG_F32, rows, s->classes, s->classes);
    return tg_gemm(s->ctx, &(tg_gemm_args){.a = x, .b = weight, .c = &c.t, .trans_b = 1});
}

static tg_status add_gradients(run_state *s, int64_t rows, const view *x)
{
    const fljsd *f = s->f;
    view dlogits;
    /* rows stay where the f32 logits were */
    set_view(&dlogits, s->student, s->type, rows, s->classes, s->classes * 4 / el_size(s->o.type));
    if (f->dx) {
        view dx;
        set_rows(&dx, &s->dx, s->first, rows);
        TG_TRY(tg_gemm(
            s->ctx,
            &(tg_gemm_args){.a = &dlogits.t, .b = f->weight, .c = &dx.t, .alpha = 1 / s->scale}));
    }
    if (!f->dweight)
        return TG_OK;
    view sums;
    set_view(&sums, s->sum_weight, TG_F32, s->classes, s->hidden, s->hidden);
    const int keep = s->first > 0 || (f->accumulate && !s->sum_weight);
    return tg_gemm(s->ctx, &(tg_gemm_args){.a = &dlogits.t,
                                           .b = &x->t,
                                           .c = s->sum_weight ? &sums.t : f->dweight,
                                           .trans_a = 1,
                                           .alpha = 1 / s->scale,
                                           .beta = keep});
}

static tg_status run_chunk(run_state *s, int64_t rows)
{
    view x, teacher_x;
    set_rows(&x, &s->x, s->first, rows);
    set_rows(&teacher_x, &s->teacher_x, s->first, rows);
    TG_TRY(project(s, &x.t, s->f->weight, s->student, rows));
    TG_TRY(project(s, &teacher_x.t, s->f->teacher_weight, s->teacher, rows));
    if (!tg_reserving(s->ctx)) {
        tg_parallel_for(s->ctx, rows, rows_grain(rows, s->classes, 1), run_rows, s);
        for (int64_t r = 0; r < rows; r++)
            s->loss += s->row_loss[r];
    }
    return s->o.gradient ? add_gradients(s, rows, &x) : TG_OK;
}

/* ---- the whole ---- */

/* Rows of a chunk: equal parts of the fewest chunks whose logits fit. */
static int64_t chunk_rows(const run_state *s)
{
    const int64_t row_bytes = s->classes * 8, given = s->f->chunk_bytes;
    const int64_t most = (given ? given : DEFAULT_BYTES) / (row_bytes ? row_bytes : 1);
    const int64_t chunks = most < 1 ? s->x.rows : (s->x.rows + most - 1) / most;
    return chunks ? (s->x.rows + chunks - 1) / chunks : 0;
}

/* Of f16, a power of two that the gradient is scaled by: f16 has so few exponents that gradients divided by n would vanish
 * in it. The upstream gradient becomes about 2^14, since the gradient of a row's logits is below 1 before, and 2^8 for the
 * reverse divergence, where it has no bound. */
static double scale_of(const run_state *s, double upstream)
{
    const double size = fabs(upstream);
    if (s->type != TG_F16 || !(size > 0 && size < INFINITY))
        return 1;
    const int shift =
        (s->f->beta == 1 ? 8 : 14) - ilogb(size); /* within what an alpha of f32 can undo */
    return ldexp(1, shift < -120 ? -120 : shift > 120 ? 120 : shift);
}

static void set_options(run_state *s)
{
    const fljsd *f = s->f;
    s->per_row = rows_share(f->labels, s->x.rows);
    const double dloss = f->dloss ? *(const float *)tg_data(f->dloss) : 1;
    const double upstream = dloss * s->per_row / f->temperature;
    s->scale = scale_of(s, upstream);
    /* kept from 0, where a mixture would be 0 beside a probability of 0 */
    const double beta = fmin(fmax(f->beta, 0x1p-24), 1 - 0x1p-24), rest = 1 - beta;
    s->o = (row_options){.kind = f->beta == 0   ? KIND_FORWARD
                                 : f->beta == 1 ? KIND_REVERSE
                                                : KIND_MIXTURE,
                         .gradient = f->dx || f->dweight,
                         .type = (el)tg_el(s->type),
                         .beta = (float)beta,
                         .rest = (float)rest,
                         .odds = (float)(beta / rest),
                         .log_beta = (float)log(beta),
                         .log_rest = (float)log(rest),
                         .per_degree = (float)(1 / f->temperature)};
    s->o.scale = upstream * s->scale * (s->o.kind == KIND_MIXTURE ? 1 - f->beta : 1);
    /* the tail of a sharp softmax, whose products would be subnormal, which is slow; below 2^-26, f16 has nothing */
    s->o.floor = s->type == TG_F16 ? 0x1p-26 : 0x1p-110;
}

/* All memory of the call but that of its parts. */
static tg_status allocate(run_state *s)
{
    const fljsd *f = s->f;
    s->chunk = chunk_rows(s);
    const int64_t logits = (s->chunk * s->classes + 15) / 16 * 16;
    s->student = tg_workspace(s->ctx, (size_t)(2 * logits) * sizeof(float) +
                                          (size_t)(s->chunk + 1) * sizeof(double));
    if (!s->student)
        return TG_ENOMEM;
    s->teacher = s->student + logits;
    s->row_loss = (double *)(s->teacher + logits);
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
    if (s->sum_weight) /* of 16 bits: rounded once */
        columns_round(s->ctx, s->sum_weight, f->dweight, f->accumulate);
    if (f->loss)
        *(float *)tg_data(f->loss) = (float)(s->loss * s->per_row);
}

static tg_status run_chunks(run_state *s)
{
    s->first = 0;
    do { /* once even without rows: dweight may have to become zero */
        const int64_t left = s->x.rows - s->first;
        TG_TRY(run_chunk(s, left < s->chunk ? left : s->chunk));
        s->first = tg_next_chunk(s->ctx, s->first, s->chunk, s->x.rows);
    } while (s->first < s->x.rows);
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
                   .type = tg_type_of(f->x)};
    TG_TRY(allocate(&s));
    set_options(&s);
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
