/* tvd, fast: one pass. Backward is forward without its sums. */
#include <string.h>

#include "runs.h"

#include "core/pieces.h"

#include "tvd.h"

typedef struct job {
    el type, q_type; /* of p and dp; of q */
    float *scratch;  /* where they differ: SCRATCH floats a worker */
    int stream;
    tg_pieces all;
    const char *p, *q;
    char *dp;
    const float *dloss; /* of every element, or NULL */
    float *loss;        /* of every element, or NULL */
    int64_t p_stride, q_stride, dp_stride, dloss_stride, loss_stride; /* in bytes */
    tvd_labels labels;
    double *sums; /* of items; NULL for backward */
    vf slope;     /* half the upstream gradient */
} job;

enum { SCRATCH = 3 * RUN_FLOATS(TG_PIECE) };

/* A part of a row. */
typedef struct span {
    const char *p, *q;
    char *dp;
    const float *dloss;
    float *loss;
    int64_t n;
} span;

/* slope where d > 0, else -slope; NaN where d is. */
SIMD_INLINE vf gradient_of(vf d, vf slope)
{
    const vf zero = v_set(0.0f);
    return v_select(d > zero, slope, v_select(d <= zero, -slope, d));
}

/* Elements [begin, end), a vector at a time. */
SIMD_INLINE vf some(el e, const job *j, const span *s, int64_t begin, int64_t end)
{
    vf sum = v_set(0.0f);
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        const vf d = v_load_n(e, s->p, i, n, 0.0f) - v_load_n(e, s->q, i, n, 0.0f);
        sum += v_abs(d);
        if (s->loss)
            v_store_n(EL_F32, s->loss, i, n, v_abs(d) * v_set(0.5f));
        if (s->dp) {
            const vf g = s->dloss ? v_load_n(EL_F32, s->dloss, i, n, 0.0f) : v_set(1.0f);
            v_store_n(e, s->dp, i, n, gradient_of(d, j->slope * g));
        }
    }
    return sum;
}

SIMD_INLINE double run_span(el e, int stream, const job *j, const span *s)
{
    int64_t i = stream ? v_head2(e, s->dp, s->n) : 0;
    vf a = some(e, j, s, 0, i), b = v_set(0.0f);
    for (; i + 2 * VL <= s->n; i += 2 * VL) {
        v_ahead2(e, s->p, i);
        v_ahead2(e, s->q, i);
        const vf2 p = v_load2(e, e, s->p, i), q = v_load2(e, e, s->q, i);
        const vf2 d = {p.a - q.a, p.b - q.b};
        a += v_abs(d.a);
        b += v_abs(d.b);
        if (stream) {
            v_stream2(e, s->dp, i, (vf2){gradient_of(d.a, j->slope), gradient_of(d.b, j->slope)});
            continue;
        }
        if (s->loss) {
            const vf half = v_set(0.5f);
            v_put2(s->loss + i, v_natural2(e, (vf2){v_abs(d.a) * half, v_abs(d.b) * half}));
        }
        if (s->dp) {
            vf2 g = {j->slope, j->slope};
            if (s->dloss) {
                const vf2 each = v_load2(e, EL_F32, s->dloss, i);
                g = (vf2){g.a * each.a, g.b * each.b};
            }
            v_store2(e, s->dp, i, (vf2){gradient_of(d.a, g.a), gradient_of(d.b, g.b)});
        }
    }
    return v_sum(a + b + some(e, j, s, i, s->n));
}

SIMD_INLINE void add_span(el e, const job *j, const span *s, double *sum)
{
    *sum += j->stream ? run_span(e, 1, j, s) : run_span(e, 0, j, s);
}

/* ---- items ---- */

static span span_of(const job *j, int64_t row, int64_t first, int64_t n)
{
    const int64_t skip = first * el_size(j->type);
    span s = {.p = j->p + row * j->p_stride + skip,
              .q = j->q + row * j->q_stride + first * el_size(j->q_type),
              .n = n};
    s.dp = j->dp ? j->dp + row * j->dp_stride + skip : NULL;
    s.dloss =
        j->dloss ? (const float *)((const char *)j->dloss + row * j->dloss_stride) + first : NULL;
    s.loss = j->loss ? (float *)((char *)j->loss + row * j->loss_stride) + first : NULL;
    return s;
}

static void zero(const job *j, const span *s)
{
    if (s->dp)
        memset(s->dp, 0, (size_t)(s->n * el_size(j->type)));
    if (s->loss)
        memset(s->loss, 0, (size_t)s->n * sizeof(float));
}

/* In f32, whatever the types are. */
static void add_mixed(const job *j, const span *s, int worker, double *sum)
{
    float *at = j->scratch + worker * (int64_t)SCRATCH;
    span wide = *s;
    wide.p = run_read(j->type, s->p, s->n, &at);
    wide.q = run_read(j->q_type, s->q, s->n, &at);
    wide.dp = run_place(j->type, s->dp, s->n, &at);
    *sum += run_span(EL_F32, 0, j, &wide);
    run_write(j->type, wide.dp, s->dp, s->n);
}

static double run_item(const job *j, int64_t item, int worker)
{
    const tg_piece piece = tg_piece_at(&j->all, item);
    double sum = 0;
    for (int64_t r = piece.row; r < piece.end; r++) {
        const span s = span_of(j, r, piece.first, piece.n);
        if (tvd_ignores(j->labels, r))
            zero(j, &s);
        else if (j->scratch)
            add_mixed(j, &s, worker, &sum);
        else
            EL_SPECIALIZE(j->type, add_span, j, &s, &sum);
    }
    return sum;
}

static void run_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        const double sum = run_item(j, item, worker);
        if (j->sums)
            j->sums[item] = sum;
    }
    if (j->stream)
        v_fence();
}

/* ---- from tensors to jobs ---- */

static job job_of(const tg_tensor *p, const tg_tensor *q, const tg_tensor *dloss,
                  const tg_tensor *dp, tvd_labels labels, int64_t reduction)
{
    const tg_rows rows = tg_rows_of(p);
    job j = {.type = (el)tg_el(rows.type),
             .q_type = (el)tg_el(tg_type_of(q)),
             .all = {.rows = rows.rows, .n = rows.n},
             .labels = labels};
    j.p = tg_row_bytes(p, &j.p_stride);
    j.q = tg_row_bytes(q, &j.q_stride);
    j.dp = dp ? tg_row_bytes(dp, &j.dp_stride) : NULL;
    double slope = 0.5 * tvd_scale(labels, reduction, rows.rows, rows.n);
    if (dloss && reduction == TG_NONE)
        j.dloss = (const float *)tg_row_bytes(dloss, &j.dloss_stride);
    else if (dloss)
        slope *= *(const float *)tg_data(dloss);
    j.slope = v_set((float)slope);
    /* a line that has just been read is best written through the cache */
    j.stream = j.dp && j.dp != j.p && reduction != TG_NONE && j.type == j.q_type &&
               tg_streams(rows.rows * rows.n * el_size(j.type));
    return j;
}

/* 0 without the memory that mixed types need. */
static int scratch_for(tg_ctx *ctx, job *j)
{
    const size_t floats = (size_t)tg_ctx_threads(ctx) * SCRATCH;
    if (j->type != j->q_type)
        j->scratch = tg_workspace(ctx, floats * sizeof *j->scratch);
    return j->type == j->q_type || j->scratch; /* no case: memory lacks in tests/oom alone */
}

static int one_row(const job *j)
{
    const int64_t width = j->all.n * el_size(j->type), wide = j->all.n * (int64_t)sizeof(float);
    return !j->labels.of && j->p_stride == width && j->q_stride == j->all.n * el_size(j->q_type) &&
           (!j->dp || j->dp_stride == width) && (!j->dloss || j->dloss_stride == wide) &&
           (!j->loss || j->loss_stride == wide);
}

static tg_status forward(tg_ctx *ctx, const tg_tvd_forward_args *args)
{
    const int each = args->reduction == TG_NONE;
    const tvd_labels labels = tvd_labels_of(args->labels, args->ignore_index);
    job j = job_of(args->p, args->q, args->dloss, args->dp, labels, args->reduction);
    const double scale = 0.5 * tvd_scale(labels, args->reduction, j.all.rows, j.all.n);
    if (each)
        j.loss = (float *)tg_row_bytes(args->loss, &j.loss_stride);
    const int64_t items = tg_pieces_cut(&j.all, one_row(&j));
    j.sums = tg_workspace(ctx, (size_t)(items + 1) * sizeof *j.sums);
    if (!j.sums || !scratch_for(ctx, &j))
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, run_items, &j);
    const double sum = tg_pieces_sum(j.sums, items);
    if (!each)
        *(float *)tg_data(args->loss) = (float)(sum * scale);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_tvd_backward_args *args)
{
    job j = job_of(args->p, args->q, args->dloss, args->dp,
                   tvd_labels_of(args->labels, args->ignore_index), args->reduction);
    const int64_t items = tg_pieces_cut(&j.all, one_row(&j));
    if (!scratch_for(ctx, &j))
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, run_items, &j);
    return TG_OK;
}

TG_CPU_IMPLS(tvd) = {TG_CPU_IMPL(tvd_forward, forward), TG_CPU_IMPL(tvd_backward, backward),
                     TG_IMPLS_END};
