/* rms_norm and fused_add_rms_norm on the CPU: forward. A row is read from memory once: the second
 * pass over it hits the cache, and asks for the next row meanwhile. With a scale of groups of rows,
 * weight (1 + scale) takes the place of the weight.
 */
#include "rms_norm_cpu.h"

/* Most columns of which a worker keeps a row in f32: 1 MiB. */
enum { KEPT = 1 << 18 };

typedef struct forward_job {
    operand x, residual, y, s;  /* residual and s: of fused_add_rms_norm alone */
    operand gate, scale, shift; /* may be missing; scale and shift: a row for each group */
    const float *weight;        /* offset + weight; NULL: no weight */
    float *rstd;                /* NULL: not wanted */
    float *kept; /* a row of f32 of each worker. Fused, where s goes past the cache: s; with a
                  * scale: weight (1 + scale) */
    int64_t n, height, ahead; /* height: rows of a group; ahead: to the row to ask for */
    el scale_type, shift_type;
    float eps;
    int llama, stream;
    el type;
} forward_job;

/* One pair of vectors of s = x + residual, rounded; kept as a pair in f32 as well where s
 * goes past the cache. */
SIMD_INLINE void add_pair(el e, int stream, const void *x, const void *residual, void *s,
                          float *row, int64_t i, vf2 *sum)
{
    const vf2 a = v_load2(e, e, x, i), b = v_load2(e, e, residual, i);
    const vf2 c = v_round2(e, (vf2){a.a + b.a, a.b + b.b});
    v_write2(e, stream, s, i, c);
    if (stream)
        v_put2(row + i, c);
    sum->a += c.a * c.a;
    sum->b += c.b * c.b;
}

/* s = x + residual. Returns the sum of squares, added up as square_sum() does, so that the norm of
 * s has the same bits when it is computed
 * again. Whole pairs are kept as pairs to the last one, as scale_row() reads them. */
SIMD_INLINE float add_row(el e, int stream, const void *x, const void *residual, void *s,
                          float *row, int64_t n)
{
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_pair(e, stream, x, residual, s, row, j + k * V_PAIR, &sum[k]);
    for (; j < v_whole_pairs(n); j += V_PAIR)
        add_pair(e, stream, x, residual, s, row, j, &sum[0]);
    for (; j < n; j += VL) {
        const vf a = v_round(e, v_load_n(e, x, j, v_tail(n, j), 0) +
                                    v_load_n(e, residual, j, v_tail(n, j), 0));
        v_store_n(e, s, j, v_tail(n, j), a);
        if (stream)
            v_store_n(EL_F32, row, j, v_tail(n, j), a);
        sum[0].a += a * a;
    }
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
}

SIMD_INLINE void square_pair(el e, const void *x, int64_t i, vf2 *sum)
{
    const vf2 a = v_load2(e, e, x, i);
    sum->a += a.a * a.a;
    sum->b += a.b * a.b;
}

SIMD_INLINE float square_sum(el e, const void *x, int64_t n)
{
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            square_pair(e, x, j + k * V_PAIR, &sum[k]);
    for (; j < v_whole_pairs(n); j += V_PAIR)
        square_pair(e, x, j, &sum[0]);
    for (; j < n; j += VL) {
        const vf a = v_load_n(e, x, j, v_tail(n, j), 0);
        sum[0].a += a * a;
    }
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
}

/* What x * r becomes: times the weight, plus the shift, times silu of the gate's row. Each may be
 * NULL. */
typedef struct finish {
    const float *weight;
    const void *shift, *gate;
    el shift_type;
} finish;

SIMD_INLINE vf2 finish_pair(el e, const finish *f, int64_t j, vf2 y)
{
    if (f->weight) {
        const vf2 w = v_get2(f->weight + j);
        y = (vf2){y.a * w.a, y.b * w.b};
    }
    if (f->shift) {
        const vf2 shift = v_load2(e, f->shift_type, f->shift, j);
        y = (vf2){y.a + shift.a, y.b + shift.b};
    }
    if (f->gate) {
        const vf2 z = v_load2(e, e, f->gate, j);
        y = (vf2){y.a * v_silu(z.a), y.b * v_silu(z.b)};
    }
    return y;
}

SIMD_INLINE vf finish_tail(el e, const finish *f, int64_t j, int64_t left, vf y)
{
    if (f->weight)
        y *= v_load_n(EL_F32, f->weight, j, left, 0);
    if (f->shift)
        y += v_load_n(f->shift_type, f->shift, j, left, 0);
    return f->gate ? y * v_silu(v_load_n(e, f->gate, j, left, 0)) : y;
}

/* y = x * r, finished. kept: x is a row of our own, in f32. next: the rows to ask for,
 * `inputs` of them. */
SIMD_INLINE void scale_row(el e, int kept, int stream, const void *x, void *y, float r, int llama,
                           finish f, int inputs, const char *const *next, int64_t n)
{
    const vf vr = v_set(r);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 a = kept ? v_get2((const float *)x + j) : v_load2(e, e, x, j);
        v_write2(e, stream, y, j, finish_pair(e, &f, j, normalised2(e, llama, a, vr)));
        for (int64_t byte = 0; byte < V_PAIR * el_size(e); byte += 64) {
            for (int i = 0; i < inputs; i++)
                __builtin_prefetch(next[i] + j * el_size(e) + byte);
        }
    }
    for (; j < n; j += VL) {
        const int64_t left = v_tail(n, j);
        const vf a = v_load_n(kept ? EL_F32 : e, x, j, left, 0);
        v_store_n(e, y, j, left, finish_tail(e, &f, j, left, normalised(e, llama, a, vr)));
    }
}

/* Also writes rstd. */
SIMD_INLINE float root(const forward_job *job, int64_t i, float squares)
{
    const float r = 1.0f / sqrtf(squares / (float)job->n + job->eps);
    if (job->rstd)
        job->rstd[i] = r;
    return r;
}

SIMD_INLINE void plain_row(el e, int stream, const forward_job *job, int64_t i, finish f)
{
    const char *x = row_at(&job->x, i);
    const char *next[] = {x + job->ahead * job->x.stride,
                          f.gate ? (const char *)f.gate + job->ahead * job->gate.stride : NULL};
    const float r = root(job, i, square_sum(e, x, job->n));
    scale_row(e, 0, stream, x, row_at(&job->y, i), r, job->llama, f, f.gate ? 2 : 1, next, job->n);
}

SIMD_INLINE void fused_row(el e, int stream, const forward_job *job, int64_t i, float *kept)
{
    const char *x = row_at(&job->x, i), *residual = row_at(&job->residual, i);
    const char *next[] = {x + job->ahead * job->x.stride,
                          residual + job->ahead * job->residual.stride};
    const finish f = {.weight = job->weight};
    char *s = row_at(&job->s, i), *y = row_at(&job->y, i);
    const float r = root(job, i, add_row(e, stream, x, residual, s, kept, job->n));
    if (stream)
        scale_row(e, 1, 1, kept, y, r, job->llama, f, 2, next, job->n);
    else
        scale_row(e, 0, 0, s, y, r, job->llama, f, 2, next, job->n);
}

/* Rows of one group after the other. */
SIMD_INLINE void modulated_rows(el e, int stream, const forward_job *job, int64_t begin,
                                int64_t end, float *factor)
{
    for (int64_t i = begin; i < end;) {
        const int64_t group = i / job->height, behind = (group + 1) * job->height;
        const int64_t last = behind < end ? behind : end;
        const char *shift = job->shift.data ? row_at(&job->shift, group) : NULL;
        const finish f = {.weight = factor, .shift = shift, .shift_type = job->shift_type};
        modulated_weight(e, job->scale_type, row_at(&job->scale, group), job->weight, factor,
                         job->n);
        for (; i < last; i++)
            plain_row(e, stream, job, i, f);
    }
}

SIMD_INLINE void forward_rows(el e, int stream, const forward_job *job, int64_t begin, int64_t end,
                              int worker)
{
    float *kept = job->kept ? job->kept + worker * job->n : NULL;
    if (job->scale.data)
        modulated_rows(e, stream, job, begin, end, kept);
    else if (job->gate.data)
        for (int64_t i = begin; i < end; i++)
            plain_row(e, stream, job, i,
                      (finish){.weight = job->weight, .gate = row_at(&job->gate, i)});
    else if (job->residual.data)
        for (int64_t i = begin; i < end; i++)
            fused_row(e, stream, job, i, kept);
    else
        for (int64_t i = begin; i < end; i++)
            plain_row(e, stream, job, i, (finish){.weight = job->weight});
}

ROWS_CHUNK(forward_chunk, forward_job, forward_rows);

static tg_status run(tg_ctx *ctx, forward_job *job, const tg_tensor *x, const tg_tensor *weight,
                     double offset)
{
    const int64_t rows = tg_rows_of(x).rows;
    job->ahead = v_rows_ahead(job->n * el_size(job->type), 1);
    TG_TRY(columns_load_plus(ctx, job->type, weight, (float)offset, &job->weight));
    if (job->scale.data || (job->residual.data && job->stream)) {
        job->kept = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * job->n) * sizeof *job->kept);
        if (!job->kept)
            return TG_ENOMEM;
    }
    tg_parallel_for(ctx, rows, rows_grain(rows, job->n, 1), forward_chunk, job);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    const tg_rows x = tg_rows_of(a->x), scale = tg_rows_of(a->scale);
    forward_job job = {.x = operand_of(a->x),
                       .y = operand_of(a->y),
                       .gate = operand_of(a->gate),
                       .scale = operand_of(a->scale),
                       .shift = operand_of(a->shift),
                       .rstd = tg_data(a->rstd),
                       .n = x.n,
                       .height = scale.rows ? x.rows / scale.rows : 1,
                       .scale_type = a->scale ? el_of(a->scale) : EL_F32,
                       .shift_type = a->shift ? el_of(a->shift) : EL_F32,
                       .eps = (float)a->eps,
                       .llama = a->casting_mode == 0 && !a->gate && !a->scale,
                       .stream = rows_stream_aligned(a->y, a->x),
                       .type = el_of(a->x)};
    return run(ctx, &job, a->x, a->weight, a->offset);
}

static tg_status fused_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    forward_job job = {.x = operand_of(a->x),
                       .residual = operand_of(a->residual),
                       .y = operand_of(a->y),
                       .s = operand_of(a->s),
                       .rstd = tg_data(a->rstd),
                       .n = tg_rows_of(a->x).n,
                       .eps = (float)a->eps,
                       .llama = a->casting_mode == 0,
                       .type = el_of(a->x)};
    job.stream =
        job.n <= KEPT && rows_stream_aligned(a->y, a->x) && rows_stream_aligned(a->s, a->residual);
    return run(ctx, &job, a->x, a->weight, a->offset);
}

TG_CPU_IMPLS(rms_norm) = {TG_CPU_IMPL(rms_norm_forward, forward),
                          TG_CPU_IMPL(fused_add_rms_norm_forward, fused_forward), TG_IMPLS_END};
