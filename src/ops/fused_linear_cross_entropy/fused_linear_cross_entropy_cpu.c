/* fused_linear_cross_entropy on the CPU: chunks of rows, each a product, cross_entropy and two more
 * products, all through dispatch. Only the logits of one chunk exist at a time. The calls are made
 * twice, first to reserve their memory (core/parts.h). */
#include <math.h>
#include <string.h>

#include "core/parts.h"
#include "fused_linear_cross_entropy.h"
#include "rows/columns.h"

enum {
    DEFAULT_BYTES = 64 << 20, /* of extra memory */
    DEFAULT_OTHERS = 8 << 20  /* of them, what is not logits: the products' workspace */
};

typedef struct run_state {
    tg_ctx *ctx;
    const flce *f;
    tg_rows x, dx;
    int64_t classes, hidden;
    int64_t chunk; /* rows of a chunk */
    int type;      /* T */
    int gradients; /* any asked for */
    float *logits;
    void *dlogits;                                      /* NULL: over the logits */
    float *row_loss, *row_z, *row_accuracy, *row_dloss; /* of a chunk */
    float *sum_weight; /* dweight, if it is of 16 bits and there are several chunks */
    float *sum_bias;
    const tg_tensor *class_weight;
    view weights;      /* class weights over D */
    double per_row, z; /* 1/D; the z-loss scale for a loss that is divided by D as a whole */
    double scale;      /* of dlogits; the products divide by it */
    double loss, z_loss, hits; /* so far */
} run_state;

/* ---- one chunk ---- */

static tg_status project(run_state *s, view *x, view *logits)
{
    const tg_tensor *bias = s->f->bias;
    if (bias && !tg_reserving(s->ctx))
        columns_fill(s->ctx, bias, s->logits, x->shape[0]);
    return tg_gemm(
        s->ctx,
        &(tg_gemm_args){
            .a = &x->t, .b = s->f->weight, .c = &logits->t, .trans_b = 1, .beta = bias ? 1 : 0});
}

/* Upstream gradients of the chunk's rows, scaled. */
static void set_dloss(run_state *s, int64_t first, int64_t rows)
{
    const float *dloss = tg_data(s->f->dloss);
    for (int64_t r = 0; r < rows; r++) {
        const double g = !dloss ? 1 : s->f->reduction == TG_NONE ? dloss[first + r] : dloss[0];
        s->row_dloss[r] = (float)(g * s->per_row * s->scale);
    }
}

/* Losses of rows, and their gradient. Both divide by D alone: cross_entropy sees rows, not the mean. */
static tg_status run_forward(run_state *s, int64_t first, int64_t rows, view *logits, view *dlogits)
{
    const flce *f = s->f;
    const int each = f->reduction == TG_NONE;
    view target, dloss, loss, z, lse, accuracy, predicted;
    set_vector(&dloss, s->row_dloss, TG_F32, rows);
    set_vector(&loss, s->row_loss, TG_F32, rows);
    set_vector(&z, s->row_z, TG_F32, rows);
    set_vector(&accuracy, s->row_accuracy, TG_F32, rows);
    TG_TRY(tg_cross_entropy_forward(s->ctx,
                                    &(tg_cross_entropy_forward_args){
                                        .logits = &logits->t,
                                        .target = part(&target, f->target, first, rows),
                                        .class_weight = s->class_weight,
                                        .dloss = &dloss.t,
                                        .loss = each ? part(&loss, f->loss, first, rows) : &loss.t,
                                        .z_loss = each        ? part(&z, f->z_loss, first, rows)
                                                  : f->z_loss ? &z.t
                                                              : NULL,
                                        .lse = part(&lse, f->lse, first, rows),
                                        .accuracy = each ? part(&accuracy, f->accuracy, first, rows)
                                                    : f->accuracy ? &accuracy.t
                                                                  : NULL,
                                        .predicted = part(&predicted, f->predicted, first, rows),
                                        .dlogits = s->gradients ? &dlogits->t : NULL,
                                        .ignore_index = TG_VALUE(f->ignore_index),
                                        .reduction = TG_NONE,
                                        .label_smoothing = f->smoothing,
                                        .lse_square_scale = s->z,
                                        .softcap = f->softcap,
                                        .token_scaling = f->token_scaling}));
    if (each || tg_reserving(s->ctx))
        return TG_OK;
    for (int64_t r = 0; r < rows; r++) {
        s->loss += s->row_loss[r];
        s->z_loss += f->z_loss ? s->row_z[r] : 0;
        s->hits += f->accuracy ? s->row_accuracy[r] : 0;
    }
    return TG_OK;
}

static tg_status run_backward(run_state *s, int64_t first, int64_t rows, view *logits,
                              view *dlogits)
{
    const flce *f = s->f;
    view target, dloss, lse;
    set_vector(&dloss, s->row_dloss, TG_F32, rows);
    return tg_cross_entropy_backward(
        s->ctx, &(tg_cross_entropy_backward_args){.logits = &logits->t,
                                                  .target = part(&target, f->target, first, rows),
                                                  .class_weight = s->class_weight,
                                                  .lse = part(&lse, f->saved, first, rows),
                                                  .dloss = &dloss.t,
                                                  .dlogits = &dlogits->t,
                                                  .ignore_index = TG_VALUE(f->ignore_index),
                                                  .reduction = TG_NONE,
                                                  .label_smoothing = f->smoothing,
                                                  .lse_square_scale = s->z,
                                                  .softcap = f->softcap,
                                                  .token_scaling = f->token_scaling});
}

static tg_status add_gradients(run_state *s, int64_t first, int64_t rows, view *x, view *dlogits)
{
    const flce *f = s->f;
    if (f->dx) {
        view dx;
        set_rows(&dx, &s->dx, first, rows);
        TG_TRY(tg_gemm(
            s->ctx,
            &(tg_gemm_args){.a = &dlogits->t, .b = f->weight, .c = &dx.t, .alpha = 1 / s->scale}));
    }
    if (f->dweight) {
        view sums;
        set_view(&sums, s->sum_weight, TG_F32, s->classes, s->hidden, s->hidden);
        const int keep = first > 0 || (f->accumulate && !s->sum_weight);
        TG_TRY(tg_gemm(s->ctx, &(tg_gemm_args){.a = &dlogits->t,
                                               .b = &x->t,
                                               .c = s->sum_weight ? &sums.t : f->dweight,
                                               .trans_a = 1,
                                               .alpha = 1 / s->scale,
                                               .beta = keep}));
    }
    if (f->dbias && !tg_reserving(s->ctx))
        columns_add(s->ctx, &dlogits->t, (float)(1 / s->scale), s->sum_bias);
    return TG_OK;
}

static tg_status run_chunk(run_state *s, int64_t first, int64_t rows)
{
    view x, logits, dlogits;
    set_rows(&x, &s->x, first, rows);
    set_view(&logits, s->logits, TG_F32, rows, s->classes, s->classes);
    if (s->dlogits)
        set_view(&dlogits, s->dlogits, s->type, rows, s->classes, s->classes);
    else
        set_view(&dlogits, s->logits, TG_F32, rows, s->classes, s->classes);
    set_dloss(s, first, rows);
    TG_TRY(project(s, &x, &logits));
    if (s->f->saved)
        TG_TRY(run_backward(s, first, rows, &logits, &dlogits));
    else
        TG_TRY(run_forward(s, first, rows, &logits, &dlogits));
    return s->gradients ? add_gradients(s, first, rows, &x, &dlogits) : TG_OK;
}

/* ---- the whole ---- */

/* Rows of a chunk: equal parts of the fewest chunks whose logits fit. */
static int64_t chunk_rows(const run_state *s, int64_t row_bytes)
{
    const int64_t given = s->f->chunk_bytes;
    const int64_t most =
        (given ? given : DEFAULT_BYTES - DEFAULT_OTHERS) / (row_bytes ? row_bytes : 1);
    const int64_t chunks = most < 1 ? s->x.rows : (s->x.rows + most - 1) / most;
    return chunks ? (s->x.rows + chunks - 1) / chunks : 0;
}

/* The divisor D goes into the rows' upstream gradient, so the z-loss, which is divided by n, is
 * multiplied by D / n. A D of 0 stands for infinity: then nothing but the z-loss counts. One that is
 * not finite, or 0, is no factor: there the class weights themselves are divided. */
static void set_divisors(run_state *s, float *divided)
{
    const flce *f = s->f;
    s->class_weight = f->class_weight;
    s->per_row = 1;
    s->z = f->z;
    if (f->reduction != TG_MEAN)
        return;
    const flce_counts c = flce_count(f);
    const double n = c.rows ? (double)c.rows : 1;
    if (c.weights != 0 && isfinite(c.weights)) {
        s->per_row = 1 / c.weights;
        s->z *= c.weights / n;
        return;
    }
    s->per_row = 1 / n;
    if (!f->class_weight)
        return;
    const void *weight = tg_data(f->class_weight);
    const int type = tg_type_of(f->class_weight);
    for (int64_t v = 0; v < s->classes; v++)
        divided[v] = c.weights != 0 ? (float)(tg_get(weight, type, v) / c.weights) : 0;
    set_vector(&s->weights, divided, TG_F32, s->classes);
    s->class_weight = &s->weights.t;
}

/* Scales gradients by a power of two. f16 has so few exponents that gradients divided by D would
 * vanish in it: there the largest upstream gradient becomes about 2^8. */
static double scale_of(const run_state *s)
{
    if (s->type != TG_F16)
        return 1;
    const float *dloss = tg_data(s->f->dloss);
    const int64_t n = dloss ? tg_numel(s->f->dloss) : 0;
    double most = dloss ? 0 : 1;
    for (int64_t i = 0; i < n; i++)
        if (fabs((double)dloss[i]) > most)
            most = fabs((double)dloss[i]);
    most *= fabs(s->per_row);
    return most > 0 && most < INFINITY ? ldexp(1, 8 - ilogb(most)) : 1;
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* All memory of the call but that of its parts. */
static tg_status allocate(run_state *s)
{
    const flce *f = s->f;
    const int wide = s->type == TG_F32;
    const int64_t logit_bytes = s->classes * (s->gradients && !wide ? 6 : 4);
    s->chunk = chunk_rows(s, logit_bytes);
    const int64_t logits = round_up(s->chunk * s->classes * 4),
                  dlogits = s->gradients && !wide ? round_up(s->chunk * s->classes * 2) : 0,
                  rows = round_up(s->chunk * 4), bias = f->dbias ? round_up(s->classes * 4) : 0,
                  divided = f->class_weight ? round_up(s->classes * 4) : 0;
    char *p = tg_workspace(s->ctx, (size_t)(logits + dlogits + 4 * rows + bias + divided));
    if (!p)
        return TG_ENOMEM;
    s->logits = (float *)p;
    s->dlogits = s->gradients && !wide ? p + logits : NULL;
    s->row_loss = (float *)(p + logits + dlogits);
    s->row_z = s->row_loss + rows / 4;
    s->row_accuracy = s->row_z + rows / 4;
    s->row_dloss = s->row_accuracy + rows / 4;
    s->sum_bias = f->dbias ? s->row_dloss + rows / 4 : NULL;
    if (s->sum_bias)
        memset(s->sum_bias, 0, (size_t)bias);
    set_divisors(s, s->row_dloss + rows / 4 + bias / 4);
    if (f->dweight && tg_type_of(f->dweight) != TG_F32 && s->chunk < s->x.rows) {
        s->sum_weight = tg_workspace(s->ctx, (size_t)(s->classes * s->hidden) * sizeof(float));
        if (!s->sum_weight)
            return TG_ENOMEM;
    }
    return TG_OK;
}

static void put(const tg_tensor *t, double x)
{
    if (t)
        *(float *)tg_data(t) = (float)x;
}

static void finish(run_state *s)
{
    const flce *f = s->f;
    if (s->sum_weight)
        columns_round(s->ctx, s->sum_weight, f->dweight, f->accumulate);
    if (f->dbias)
        columns_round(s->ctx, s->sum_bias, f->dbias, f->accumulate);
    if (f->saved || f->reduction == TG_NONE)
        return;
    put(f->loss, s->loss * s->per_row);
    put(f->z_loss, s->z_loss * s->per_row);
    const int64_t n = f->accuracy ? flce_count(f).rows : 0;
    put(f->accuracy, n ? s->hits / (double)n : 0);
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

static tg_status run(tg_ctx *ctx, const flce *f)
{
    run_state s = {.ctx = ctx,
                   .f = f,
                   .x = tg_rows_of(f->x),
                   .dx = tg_rows_of(f->dx),
                   .classes = f->weight->shape[0],
                   .hidden = f->weight->shape[1],
                   .type = tg_type_of(f->x),
                   .gradients = f->dx || f->dweight || f->dbias};
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

TG_CPU_IMPLS(fused_linear_cross_entropy) = {
    TG_CPU_IMPL(fused_linear_cross_entropy_forward, forward),
    TG_CPU_IMPL(fused_linear_cross_entropy_backward, backward), TG_IMPLS_END};
