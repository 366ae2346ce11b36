/* kl_div, fast: one pass, one logarithm or exponential an element. */
#include "runs.h"

#include "core/pieces.h"

#include "kl_div.h"

typedef struct job {
    el type; /* that the kernels take: of all three, or f32 where they differ */
    el y_type, t_type, dy_type;
    float *scratch; /* where they differ: SCRATCH floats a worker */
    int log_target, stream;
    tg_pieces all;
    const char *y, *t;
    char *dy;
    const float *dloss; /* of every element, or NULL */
    float *loss;        /* of every element, or NULL */
    int64_t y_stride, t_stride, dy_stride, dloss_stride, loss_stride; /* in bytes */
    double *sums;                                                     /* of items */
    vf eps, scale; /* scale: what the weight is multiplied with in the gradient */
} job;

enum { SCRATCH = 3 * RUN_FLOATS(TG_PIECE) };

/* A part of a row. */
typedef struct span {
    const char *y, *t;
    char *dy;
    const float *dloss;
    float *loss;
    int64_t n;
} span;

typedef struct term {
    vf loss, weight;
} term;

SIMD_INLINE vf weight_of(int log_target, vf t)
{
    return log_target ? v_exp_from(t, v_origin_at(0.0f)) : t;
}

SIMD_INLINE term term_of(int log_target, vf y, vf t, vf eps)
{
    const vf zero = v_set(0.0f), weight = weight_of(log_target, t);
    const vf log_t = log_target ? t : v_log(v_max(eps, t));
    return (term){v_select(weight == zero, zero, weight * (log_t - y)), weight};
}

SIMD_INLINE void put_gradient(el e, int stream, const job *j, const span *s, int64_t i, vf2 weight)
{
    vf2 d = {weight.a * j->scale, weight.b * j->scale};
    if (stream) {
        v_stream2(e, s->dy, i, d);
        return;
    }
    if (s->dloss) {
        const vf2 g = v_load2(e, EL_F32, s->dloss, i);
        d = (vf2){d.a * g.a, d.b * g.b};
    }
    v_store2(e, s->dy, i, d);
}

/* Elements [begin, end), a vector at a time; `losses` 0: the gradient alone. */
SIMD_INLINE vf some(el e, int log_target, int losses, const job *j, const span *s, int64_t begin,
                    int64_t end)
{
    vf sum = v_set(0.0f);
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        const vf t = v_load_n(e, s->t, i, n, log_target ? -INFINITY : 0.0f);
        vf weight;
        if (losses) {
            const term x = term_of(log_target, v_load_n(e, s->y, i, n, 0.0f), t, j->eps);
            sum += x.loss;
            weight = x.weight;
            if (s->loss)
                v_store_n(EL_F32, s->loss, i, n, x.loss);
        } else {
            weight = weight_of(log_target, t);
        }
        if (s->dy) {
            const vf g = s->dloss ? v_load_n(EL_F32, s->dloss, i, n, 0.0f) : v_set(1.0f);
            v_store_n(e, s->dy, i, n, weight * j->scale * g);
        }
    }
    return sum;
}

SIMD_INLINE double forward_span(el e, int log_target, int stream, const job *j, const span *s)
{
    int64_t i = stream ? v_head2(e, s->dy, s->n) : 0;
    vf a = some(e, log_target, 1, j, s, 0, i), b = v_set(0.0f);
    for (; i + 2 * VL <= s->n; i += 2 * VL) {
        v_ahead2(e, s->y, i);
        v_ahead2(e, s->t, i);
        const vf2 y = v_load2(e, e, s->y, i), t = v_load2(e, e, s->t, i);
        const term first = term_of(log_target, y.a, t.a, j->eps);
        const term second = term_of(log_target, y.b, t.b, j->eps);
        a += first.loss;
        b += second.loss;
        if (!stream && s->loss)
            v_put2(s->loss + i, v_natural2(e, (vf2){first.loss, second.loss}));
        if (stream || s->dy)
            put_gradient(e, stream, j, s, i, (vf2){first.weight, second.weight});
    }
    return v_sum(a + b + some(e, log_target, 1, j, s, i, s->n));
}

SIMD_INLINE void backward_span(el e, int log_target, int stream, const job *j, const span *s)
{
    int64_t i = stream ? v_head2(e, s->dy, s->n) : 0;
    some(e, log_target, 0, j, s, 0, i);
    for (; i + 2 * VL <= s->n; i += 2 * VL) {
        v_ahead2(e, s->t, i);
        const vf2 t = v_load2(e, e, s->t, i);
        put_gradient(e, stream, j, s, i,
                     (vf2){weight_of(log_target, t.a), weight_of(log_target, t.b)});
    }
    some(e, log_target, 0, j, s, i, s->n);
}

SIMD_INLINE void forward_kinds(el e, const job *j, const span *s, double *sum)
{
    if (j->log_target)
        *sum += j->stream ? forward_span(e, 1, 1, j, s) : forward_span(e, 1, 0, j, s);
    else
        *sum += j->stream ? forward_span(e, 0, 1, j, s) : forward_span(e, 0, 0, j, s);
}

SIMD_INLINE void backward_kinds(el e, const job *j, const span *s)
{
    if (j->log_target && j->stream)
        backward_span(e, 1, 1, j, s);
    else if (j->log_target)
        backward_span(e, 1, 0, j, s);
    else if (j->stream)
        backward_span(e, 0, 1, j, s);
    else
        backward_span(e, 0, 0, j, s);
}

/* ---- items ---- */

static span span_of(const job *j, int64_t row, int64_t first, int64_t n)
{
    span s = {.t = j->t + row * j->t_stride + first * el_size(j->t_type), .n = n};
    s.y = j->y ? j->y + row * j->y_stride + first * el_size(j->y_type) : NULL;
    s.dy = j->dy ? j->dy + row * j->dy_stride + first * el_size(j->dy_type) : NULL;
    s.dloss =
        j->dloss ? (const float *)((const char *)j->dloss + row * j->dloss_stride) + first : NULL;
    s.loss = j->loss ? (float *)((char *)j->loss + row * j->loss_stride) + first : NULL;
    return s;
}

typedef void (*visitor)(const job *, const span *, double *);

/* In f32, whatever the types are. */
static void visit_mixed(const job *j, const span *s, int worker, visitor visit, double *sum)
{
    float *at = j->scratch + worker * (int64_t)SCRATCH;
    span wide = *s;
    wide.y = run_read(j->y_type, s->y, s->n, &at);
    wide.t = run_read(j->t_type, s->t, s->n, &at);
    wide.dy = run_place(j->dy_type, s->dy, s->n, &at);
    visit(j, &wide, sum);
    run_write(j->dy_type, wide.dy, s->dy, s->n);
}

/* Calls visit for each part of a row that belongs to the item. */
static void visit_item(const job *j, int64_t item, int worker, visitor visit, double *sum)
{
    const tg_piece piece = tg_piece_at(&j->all, item);
    for (int64_t r = piece.row; r < piece.end; r++) {
        const span s = span_of(j, r, piece.first, piece.n);
        if (j->scratch)
            visit_mixed(j, &s, worker, visit, sum);
        else
            visit(j, &s, sum);
    }
}

static void visit_forward(const job *j, const span *s, double *sum)
{
    EL_SPECIALIZE(j->type, forward_kinds, j, s, sum);
}

static void visit_backward(const job *j, const span *s, double *sum)
{
    (void)sum;
    EL_SPECIALIZE(j->type, backward_kinds, j, s);
}

static void forward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        j->sums[item] = 0;
        visit_item(j, item, worker, visit_forward, &j->sums[item]);
    }
    if (j->stream)
        v_fence();
}

static void backward_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t item = begin; item < end; item++)
        visit_item(j, item, worker, visit_backward, NULL);
    if (j->stream)
        v_fence();
}

/* ---- from tensors to jobs ---- */

static int is_mixed(const job *j)
{
    return j->y_type != j->t_type || j->dy_type != j->t_type;
}

static job job_of(const tg_tensor *y_pred, const tg_tensor *y_true, const tg_tensor *dloss,
                  const tg_tensor *dy_pred, int64_t reduction)
{
    const tg_rows t = tg_rows_of(y_true);
    const el t_type = (el)tg_el(t.type);
    job j = {.t_type = t_type,
             .y_type = y_pred ? (el)tg_el(tg_type_of(y_pred)) : t_type,
             .dy_type = dy_pred ? (el)tg_el(tg_type_of(dy_pred)) : t_type,
             .all = {.rows = t.rows, .n = t.n}};
    j.type = is_mixed(&j) ? EL_F32 : t_type;
    j.y = y_pred ? tg_row_bytes(y_pred, &j.y_stride) : NULL;
    j.t = tg_row_bytes(y_true, &j.t_stride);
    j.dy = dy_pred ? tg_row_bytes(dy_pred, &j.dy_stride) : NULL;
    double scale = -kl_scale(reduction, t.rows, t.n);
    if (dloss && reduction == TG_NONE)
        j.dloss = (const float *)tg_row_bytes(dloss, &j.dloss_stride);
    else if (dloss)
        scale *= *(const float *)tg_data(dloss);
    j.scale = v_set((float)scale);
    /* a line that has just been read is best written through the cache */
    j.stream = j.dy && j.dy != j.y && j.dy != j.t && reduction != TG_NONE && !is_mixed(&j) &&
               tg_streams(t.rows * t.n * el_size(j.type));
    return j;
}

/* 0 without the memory that mixed types need. */
static int scratch_for(tg_ctx *ctx, job *j)
{
    const size_t floats = (size_t)tg_ctx_threads(ctx) * SCRATCH;
    if (is_mixed(j))
        j->scratch = tg_workspace(ctx, floats * sizeof *j->scratch);
    return !is_mixed(j) || j->scratch; /* no case: memory lacks in tests/oom alone */
}

static int one_row(const job *j)
{
    const int64_t n = j->all.n, wide = n * (int64_t)sizeof(float);
    return (!j->y || j->y_stride == n * el_size(j->y_type)) &&
           j->t_stride == n * el_size(j->t_type) &&
           (!j->dy || j->dy_stride == n * el_size(j->dy_type)) &&
           (!j->dloss || j->dloss_stride == wide) && (!j->loss || j->loss_stride == wide);
}

static tg_status forward(tg_ctx *ctx, const tg_kl_div_forward_args *args)
{
    const int each = args->reduction == TG_NONE;
    job j = job_of(args->y_pred, args->y_true, args->dloss, args->dy_pred, args->reduction);
    const double scale = kl_scale(args->reduction, j.all.rows, j.all.n);
    j.log_target = args->log_target != 0;
    j.eps = v_set((float)args->eps);
    if (each)
        j.loss = (float *)tg_row_bytes(args->loss, &j.loss_stride);
    const int64_t items = tg_pieces_cut(&j.all, one_row(&j));
    j.sums = tg_workspace(ctx, (size_t)(items + 1) * sizeof *j.sums);
    if (!j.sums || !scratch_for(ctx, &j))
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, forward_items, &j);
    const double sum = tg_pieces_sum(j.sums, items);
    if (!each)
        *(float *)tg_data(args->loss) = items ? (float)(sum * scale) : 0.0f;
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_kl_div_backward_args *args)
{
    job j = job_of(NULL, args->y_true, args->dloss, args->dy_pred, args->reduction);
    j.log_target = args->log_target != 0;
    const int64_t items = tg_pieces_cut(&j.all, one_row(&j));
    if (!scratch_for(ctx, &j))
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, backward_items, &j);
    return TG_OK;
}

TG_CPU_IMPLS(kl_div) = {TG_CPU_IMPL(kl_div_forward, forward),
                        TG_CPU_IMPL(kl_div_backward, backward), TG_IMPLS_END};
