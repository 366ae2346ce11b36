/* newton_schulz and muon of other operators, on any device that has these: rms_norm and
 * batched_gemm, and the two passes over the parameters. */
#include <string.h>

#include "core/parts.h"
#include "core/view.h"
#include "muon.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Compact matrices, [count, rows, columns], with memory for their shape. */
typedef struct matrices {
    tg_tensor t;
    int64_t shape[3];
} matrices;

static tg_tensor *set_matrices(matrices *to, void *data, const tg_tensor *like, int64_t count,
                               int64_t rows, int64_t columns)
{
    const int64_t shape[] = {count, rows, columns};
    memcpy(to->shape, shape, sizeof shape);
    to->t = tg_tensor_of(data, (tg_type)tg_type_of(like), 3, to->shape);
    to->t.device = like->device;
    return &to->t;
}

/* ---- newton_schulz ---- */

/* x = factor * y of the buffer: y's factor is taken up by the first step's products. */
typedef struct iteration {
    tg_ctx *ctx;
    const tg_newton_schulz_args *args;
    int64_t count, rows, columns, side;
    matrices x[2], gram, polynomial;
    double factor;
} iteration;

/* Each matrix as one row, whose root mean square becomes 1. */
static tg_status normalise(iteration *t, tg_tensor *to)
{
    const int64_t n = t->rows * t->columns;
    view from, into;
    set_view(&from, tg_data(t->args->x), tg_type_of(to), t->count, n, n);
    set_view(&into, tg_data(to), tg_type_of(to), t->count, n, n);
    t->factor = 1 / sqrt((double)n);
    if (tg_reserving(t->ctx))
        return TG_OK;
    return tg_rms_norm_forward(
        t->ctx, &(tg_rms_norm_forward_args){.x = beside(&from, to),
                                            .y = beside(&into, to),
                                            .eps = t->args->eps * t->args->eps / (double)n});
}

static tg_status multiply(iteration *t, tg_batched_gemm_args product)
{
    product.alpha = TG_VALUE(product.alpha);
    return tg_batched_gemm(t->ctx, &product);
}

static tg_status step(iteration *t, tg_tensor *x, tg_tensor *to)
{
    const tg_newton_schulz_args *by = t->args;
    const int wide = t->rows <= t->columns;
    tg_tensor *gram = &t->gram.t, *polynomial = &t->polynomial.t;
    const double factor = t->factor;
    t->factor = 1;
    TG_TRY(multiply(t, (tg_batched_gemm_args){.a = x,
                                              .b = x,
                                              .c = gram,
                                              .trans_a = !wide,
                                              .trans_b = wide,
                                              .alpha = factor * factor,
                                              .symmetric = 1}));
    TG_TRY(multiply(t, (tg_batched_gemm_args){.a = gram,
                                              .b = gram,
                                              .addend = gram,
                                              .c = polynomial,
                                              .alpha = by->c,
                                              .beta = by->b,
                                              .symmetric = 1}));
    return multiply(t, (tg_batched_gemm_args){.a = wide ? polynomial : x,
                                              .b = wide ? x : polynomial,
                                              .addend = x,
                                              .c = to,
                                              .alpha = factor,
                                              .beta = by->a * factor});
}

static tg_status iterate(iteration *t)
{
    const int64_t steps = t->args->steps;
    TG_TRY(normalise(t, &t->x[steps % 2].t)); /* so that the last step writes y, the first */
    for (int64_t i = steps; i > 0; i--)
        TG_TRY(step(t, &t->x[i % 2].t, &t->x[(i + 1) % 2].t));
    return TG_OK;
}

static tg_status run_newton_schulz(tg_ctx *ctx, const tg_newton_schulz_args *args)
{
    const tg_tensor *y = args->y;
    iteration t = {.ctx = ctx,
                   .args = args,
                   .count = muon_matrices(y),
                   .rows = muon_rows(y),
                   .columns = muon_columns(y)};
    t.side = smaller(t.rows, t.columns);
    const int64_t n = t.count * t.rows * t.columns, square = t.count * t.side * t.side;
    const size_t size = tg_type_size(tg_type_of(y));
    if (n == 0)
        return TG_OK;
    char *memory = tg_workspace_beside(ctx, y, (size_t)(n + 2 * square) * size);
    if (!memory)
        return TG_ENOMEM;
    set_matrices(&t.x[0], tg_data(y), y, t.count, t.rows, t.columns);
    set_matrices(&t.x[1], memory, y, t.count, t.rows, t.columns);
    set_matrices(&t.gram, memory + (size_t)n * size, y, t.count, t.side, t.side);
    set_matrices(&t.polynomial, memory + (size_t)(n + square) * size, y, t.count, t.side, t.side);
    tg_reserve(ctx);
    const tg_status status = iterate(&t);
    tg_reserved(ctx);
    return status != TG_OK || tg_reserving(ctx) ? status : iterate(&t);
}

/* ---- muon ---- */

/* Matrices of the batch that are worked on together: few enough for their memory, and enough to
 * fill a device. */
static int64_t matrices_together(const tg_muon_args *args)
{
    enum { HOST = 1 << 24, DEVICE = 1 << 28 }; /* elements */
    const int64_t n = muon_rows(args->param) * muon_columns(args->param);
    const int64_t most = (on_host(args->param) ? HOST : DEVICE) / n;
    return smaller(muon_matrices(args->param), most > 0 ? most : 1);
}

typedef struct chunk {
    tg_ctx *ctx;
    const tg_muon_args *args;
    int64_t first, count; /* matrices */
    tg_tensor *update, *direction;
} chunk;

/* Matrix number `index` of all, or if all is compact `count` from there on as one. */
typedef struct flat {
    tg_tensor t;
    int64_t shape[2], strides[2];
} flat;

static tg_tensor *part_of(flat *v, const tg_tensor *t, int64_t index, int64_t count)
{
    if (!t)
        return NULL;
    v->shape[0] = count * muon_rows(t);
    v->shape[1] = muon_columns(t);
    v->strides[0] = tg_stride(t, t->ndim - 2);
    v->strides[1] = 1;
    v->t = *t;
    v->t.ndim = 2;
    v->t.shape = v->shape;
    v->t.strides = v->strides;
    v->t.byte_offset += (uint64_t)muon_offset(t, index) * tg_type_size(tg_type_of(t));
    return &v->t;
}

/* As many matrices as one call of a pass takes. */
static int64_t matrices_of_call(const chunk *c)
{
    const tg_muon_args *a = c->args;
    const int compact = tg_is_compact(a->param) && tg_is_compact(a->grad) && tg_is_compact(a->m) &&
                        (!a->master || tg_is_compact(a->master));
    return compact ? c->count : 1;
}

static tg_status take_momentum(const chunk *c, int64_t i, int64_t n)
{
    const tg_muon_args *a = c->args;
    flat grad, m, update;
    return tg_muon_momentum(
        c->ctx, &(tg_muon_momentum_args){.grad = part_of(&grad, a->grad, c->first + i, n),
                                         .m = part_of(&m, a->m, c->first + i, n),
                                         .grad_squares = a->grad_squares,
                                         .update = part_of(&update, c->update, i, n),
                                         .momentum = TG_VALUE(a->momentum),
                                         .grad_scale = TG_VALUE(a->grad_scale),
                                         .max_norm = a->max_norm,
                                         .plain = a->plain});
}

static tg_status make_step(const chunk *c, int64_t i, int64_t n)
{
    const tg_muon_args *a = c->args;
    flat param, master, update;
    return tg_muon_update(
        c->ctx, &(tg_muon_update_args){.param = part_of(&param, a->param, c->first + i, n),
                                       .master = part_of(&master, a->master, c->first + i, n),
                                       .update = part_of(&update, c->direction, i, n),
                                       .grad_squares = a->grad_squares,
                                       .lr = a->lr,
                                       .weight_decay = a->weight_decay,
                                       .factor = muon_factor(a)});
}

static tg_status run_chunk(const chunk *c)
{
    const tg_muon_args *a = c->args;
    const int64_t n = matrices_of_call(c);
    const int writes = !tg_reserving(c->ctx);
    for (int64_t i = 0; i < c->count && writes; i += n)
        TG_TRY(take_momentum(c, i, n));
    TG_TRY(tg_newton_schulz(c->ctx, &(tg_newton_schulz_args){.x = c->update,
                                                             .y = c->direction,
                                                             .eps = a->eps,
                                                             .a = TG_VALUE(a->a),
                                                             .b = TG_VALUE(a->b),
                                                             .c = TG_VALUE(a->c),
                                                             .steps = a->steps}));
    for (int64_t i = 0; i < c->count && writes; i += n)
        TG_TRY(make_step(c, i, n));
    return TG_OK;
}

static tg_status run_chunks(tg_ctx *ctx, const tg_muon_args *args, int64_t together, char *memory)
{
    const tg_tensor *p = args->param;
    const int64_t all = muon_matrices(p), rows = muon_rows(p), columns = muon_columns(p);
    const size_t bytes = (size_t)(together * rows * columns) * tg_type_size(tg_type_of(p));
    const int64_t end = tg_reserving(ctx) ? together : all; /* all chunks need the same */
    for (int64_t i = 0; i < end; i += together) {
        matrices update, direction;
        const int64_t count = smaller(together, all - i);
        const chunk c = {ctx,
                         args,
                         i,
                         count,
                         set_matrices(&update, memory, p, count, rows, columns),
                         set_matrices(&direction, memory + bytes, p, count, rows, columns)};
        TG_TRY(run_chunk(&c));
    }
    return TG_OK;
}

static tg_status run(tg_ctx *ctx, const tg_muon_args *args)
{
    if (tg_numel(args->param) == 0)
        return TG_OK;
    const int64_t together = matrices_together(args);
    const int64_t n = together * muon_rows(args->param) * muon_columns(args->param);
    char *memory = tg_workspace_beside(ctx, args->param,
                                       2 * (size_t)n * tg_type_size(tg_type_of(args->param)));
    if (!memory)
        return TG_ENOMEM;
    tg_reserve(ctx);
    const tg_status status = run_chunks(ctx, args, together, memory);
    tg_reserved(ctx);
    return status != TG_OK || tg_reserving(ctx) ? status : run_chunks(ctx, args, together, memory);
}

/* newton_schulz is of the first two. */
TG_PARTS_CALLS(muon) = {"rms_norm_forward", "batched_gemm", "muon_momentum", "muon_update", NULL};
TG_PARTS_IMPLS(muon) = {TG_PARTS_IMPL(muon, run), TG_PARTS_IMPL(newton_schulz, run_newton_schulz),
                        TG_IMPLS_END};
