/* rms_norm and fused_add_rms_norm on the CPU: forward. A row is read from memory once: the second
 * pass over it hits the cache, and asks for the next row meanwhile.
 */
#include "rms_norm_cpu.h"

/* Most columns of which a worker keeps a row in f32: 1 MiB. */
enum { KEPT = 1 << 18 };

typedef struct forward_job {
    operand x, residual, y, s; /* residual and s: of fused_add_rms_norm alone */
    const float *scale;        /* offset + weight; NULL: no weight */
    float *rstd;               /* NULL: not wanted */
    float *kept; /* fused, where s goes past the cache: one row of it in f32 a worker */
    int64_t n;
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

/* y = x * r * scale. kept: x is a row of our own, in f32. next: the rows to ask for,
 * `inputs` of them. */
SIMD_INLINE void scale_row(el e, int kept, int stream, const void *x, void *y, const float *scale,
                           float r, int llama, int inputs, const char *const *next, int64_t n)
{
    const vf vr = v_set(r);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 a = kept ? v_get2((const float *)x + j) : v_load2(e, e, x, j);
        vf2 b = normalised2(e, llama, a, vr);
        if (scale) {
            const vf2 w = v_get2(scale + j);
            b = (vf2){b.a * w.a, b.b * w.b};
        }
        v_write2(e, stream, y, j, b);
        for (int64_t byte = 0; byte < V_PAIR * el_size(e); byte += 64) {
            for (int i = 0; i < inputs; i++)
                __builtin_prefetch(next[i] + j * el_size(e) + byte);
        }
    }
    for (; j < n; j += VL) {
        const vf a = v_load_n(kept ? EL_F32 : e, x, j, v_tail(n, j), 0),
                 b = normalised(e, llama, a, vr);
        v_store_n(e, y, j, v_tail(n, j),
                  scale ? b * v_load_n(EL_F32, scale, j, v_tail(n, j), 0) : b);
    }
}

SIMD_INLINE void forward_row(el e, int stream, const forward_job *job, int64_t i, float *kept)
{
    const char *x = row_at(&job->x, i), *next[] = {x + job->x.stride, NULL};
    float squares;
    if (job->residual.data) {
        const char *residual = row_at(&job->residual, i);
        next[1] = residual + job->residual.stride;
        squares = add_row(e, stream, x, residual, row_at(&job->s, i), kept, job->n);
    } else {
        squares = square_sum(e, x, job->n);
    }
    const float r = 1.0f / sqrtf(squares / (float)job->n + job->eps);
    char *y = row_at(&job->y, i);
    if (job->rstd)
        job->rstd[i] = r;
    if (!job->residual.data)
        scale_row(e, 0, stream, x, y, job->scale, r, job->llama, 1, next, job->n);
    else if (stream)
        scale_row(e, 1, 1, kept, y, job->scale, r, job->llama, 2, next, job->n);
    else
        scale_row(e, 0, 0, row_at(&job->s, i), y, job->scale, r, job->llama, 2, next, job->n);
}

SIMD_INLINE void forward_rows(el e, int stream, const forward_job *job, int64_t begin, int64_t end,
                              int worker)
{
    float *kept = job->kept ? job->kept + worker * job->n : NULL;
    for (int64_t i = begin; i < end; i++)
        forward_row(e, stream, job, i, kept);
}

ROWS_CHUNK(forward_chunk, forward_job, forward_rows);

static void run(tg_ctx *ctx, forward_job *job, const tg_tensor *x)
{
    const int64_t rows = tg_rows_of(x).rows;
    tg_parallel_for(ctx, rows, rows_grain(rows, job->n, 1), forward_chunk, job);
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    forward_job job = {.x = operand_of(a->x),
                       .y = operand_of(a->y),
                       .rstd = tg_data(a->rstd),
                       .n = tg_rows_of(a->x).n,
                       .eps = (float)a->eps,
                       .llama = a->casting_mode == 0,
                       .stream = rows_stream_aligned(a->y, a->x),
                       .type = el_of(a->x)};
    TG_TRY(columns_load_plus(ctx, job.type, a->weight, (float)a->offset, &job.scale));
    run(ctx, &job, a->x);
    return TG_OK;
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
    TG_TRY(columns_load_plus(ctx, job.type, a->weight, (float)a->offset, &job.scale));
    if (job.stream) {
        job.kept = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * job.n) * sizeof *job.kept);
        if (!job.kept)
            return TG_ENOMEM;
    }
    run(ctx, &job, a->x);
    return TG_OK;
}

TG_CPU_IMPLS(rms_norm) = {TG_CPU_IMPL(rms_norm_forward, forward),
                          TG_CPU_IMPL(fused_add_rms_norm_forward, fused_forward), TG_IMPLS_END};
