/* fused_linear_cross_entropy of other operators: chunks of rows, each a product, cross_entropy and
 * two more products, on any device that has them (fused_linear/fused_linear.h). */
#include <math.h>

#include "fused_linear/fused_linear.h"
#include "fused_linear_cross_entropy.h"

/* Results that are one number: each part of a chunk has its own, and the call's is their sum. */
enum { LOSS, Z_LOSS, ACCURACY, RESULTS };

typedef struct run_state {
    fused_linear l;
    const flce *f;
    float *sum_bias; /* dbias, if it is of 16 bits and there are several chunks */
} run_state;

/* ---- one chunk ---- */

static tg_status project(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    fused_linear_chunk c;
    fused_linear_chunk_at(&s->l, &c, first, rows);
    const tg_tensor *bias = s->f->bias;
    if (bias)
        TG_TRY(tg_sum_rows_backward(s->l.ctx,
                                    &(tg_sum_rows_backward_args){.dy = bias, .dx = &c.logits.t}));
    return tg_gemm(
        s->l.ctx,
        &(tg_gemm_args){
            .a = &c.x.t, .b = s->f->weight, .c = &c.logits.t, .trans_b = 1, .beta = bias ? 1 : 0});
}

/* A result of the chunk, or with the reduction none of each of its rows; NULL if nobody asks for
 * it. */
static tg_tensor *result(const run_state *s, const fused_linear_chunk *c, int which,
                         const tg_tensor *t, view *v)
{
    if (s->f->reduction == TG_NONE)
        return part(v, t, c->first, c->rows);
    return t ? fused_linear_result(&s->l, v, which, c->first) : NULL;
}

/* What cross_entropy sees of the chunk. */
typedef struct loss_views {
    view target, lse, loss, z_loss, accuracy, predicted, dloss;
} loss_views;

/* What both directions of cross_entropy are given. D and n of a mean are those of all rows. */
#define LOSS_ARGS(s, c, v)                                                                         \
    .logits = &(c)->logits.t, .target = part(&(v)->target, (s)->f->target, (c)->first, (c)->rows), \
    .batch_target = (s)->l.parts > 1 ? (s)->f->target : NULL,                                      \
    .class_weight = (s)->f->class_weight,                                                          \
    .dloss = (s)->f->reduction == TG_NONE ? part(&(v)->dloss, (s)->l.dloss, (c)->first, (c)->rows) \
                                          : (s)->l.dloss,                                          \
    .ignore_index = TG_VALUE((s)->f->ignore_index), .reduction = (s)->f->reduction,                \
    .label_smoothing = (s)->f->smoothing, .lse_square_scale = (s)->f->z,                           \
    .softcap = (s)->f->softcap, .token_scaling = (s)->f->token_scaling,                            \
    .grad_scale = (s)->l.scale, .vocab_start = (s)->f->slice.start,                                \
    .vocab_size = (s)->f->slice.all

static tg_status run_loss(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    const flce *f = s->f;
    fused_linear_chunk c;
    loss_views v;
    fused_linear_chunk_at(&s->l, &c, first, rows);
    tg_tensor *dlogits = s->l.gradients ? &c.dlogits.t : NULL;
    if (f->saved)
        return tg_cross_entropy_backward(
            s->l.ctx, &(tg_cross_entropy_backward_args){LOSS_ARGS(s, &c, &v),
                                                        .lse = part(&v.lse, f->saved, first, rows),
                                                        .dlogits = dlogits});
    return tg_cross_entropy_forward(
        s->l.ctx,
        &(tg_cross_entropy_forward_args){
            LOSS_ARGS(s, &c, &v), .loss = result(s, &c, LOSS, f->loss, &v.loss),
            .z_loss = result(s, &c, Z_LOSS, f->z_loss, &v.z_loss),
            .accuracy = result(s, &c, ACCURACY, f->accuracy, &v.accuracy),
            .lse = part(&v.lse, f->lse, first, rows),
            .predicted = part(&v.predicted, f->predicted, first, rows), .dlogits = dlogits});
}

static tg_status add_gradients(void *state, int64_t first, int64_t rows)
{
    const run_state *s = state;
    const flce *f = s->f;
    fused_linear_chunk c;
    view sums;
    if (!s->l.gradients)
        return TG_OK;
    fused_linear_chunk_at(&s->l, &c, first, rows);
    TG_TRY(fused_linear_gradients(&s->l, &c));
    if (!f->dbias)
        return TG_OK;
    set_vector(&sums, s->sum_bias, TG_F32, s->l.classes);
    return tg_sum_rows_forward(
        s->l.ctx,
        &(tg_sum_rows_forward_args){.x = &c.dlogits.t,
                                    .y = s->sum_bias ? beside(&sums, f->x) : f->dbias,
                                    .scale = 1 / s->l.scale,
                                    .accumulate = first > 0 || (f->accumulate && !s->sum_bias)});
}

/* ---- the whole ---- */

/* The size of the largest upstream gradient that the host can see. */
static double largest(const tg_tensor *dloss)
{
    double most = 0;
    for (int64_t i = 0; i < tg_numel(dloss); i++)
        most = fmax(most, fabs((double)((const float *)tg_data(dloss))[i]));
    return most;
}

/* A power of two that f16, which has so few exponents, needs lest gradients divided by D vanish in
 * it. The largest upstream gradient becomes about 2^8, or, before it is divided by D, 2^12. Of n
 * that have a root mean square of 1 it is sqrt(n) at most: then those of 1 become 2^8, unless that
 * could be more than 2^14. */
static double scale_of(const run_state *s)
{
    const tg_tensor *dloss = s->l.dloss;
    const int large = s->f->reduction == TG_MEAN ? 12 : 8;
    if (tg_type_of(s->l.x) != TG_F16)
        return 1;
    if (s->l.factor) {
        const int room = 14 - ilogb(sqrt((double)tg_numel(dloss)));
        return ldexp(1, room < large ? room : large);
    }
    const double most = dloss && on_host(dloss) ? largest(dloss) : 1;
    return most > 0 && most < INFINITY ? ldexp(1, large - ilogb(most)) : 1;
}

static tg_status finish(void *state)
{
    const run_state *s = state;
    const flce *f = s->f;
    tg_tensor *const results[RESULTS] = {f->loss, f->z_loss, f->accuracy};
    TG_TRY(fused_linear_round(&s->l, s->sum_bias, f->dbias, f->accumulate));
    for (int i = 0; i < RESULTS && f->reduction != TG_NONE; i++)
        TG_TRY(fused_linear_add_up(&s->l, i, results[i]));
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const flce *f)
{
    run_state s = {.l = {FUSED_LINEAR(f), .ctx = ctx, .gradients = f->dx || f->dweight || f->dbias,
                         .logits = 1, .results = RESULTS, .split = 1},
                   .f = f};
    TG_TRY(fused_linear_begin(&s.l, f->chunk_bytes));
    TG_TRY(fused_linear_sums(&s.l, f->dbias, &s.sum_bias));
    s.l.scale = scale_of(&s);
    const fused_linear_steps steps = {project, run_loss, add_gradients, finish};
    return fused_linear_run(&s.l, &steps, &s);
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

TG_PARTS_IMPLS(fused_linear_cross_entropy) = {
    TG_PARTS_IMPL(fused_linear_cross_entropy_forward, forward),
    TG_PARTS_IMPL(fused_linear_cross_entropy_backward, backward), TG_IMPLS_END};
