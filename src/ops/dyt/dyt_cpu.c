/* dyt, fast: one pass each way, a few rows at a time, so that what belongs to the columns (gamma, beta,
 * sums of gradients) is read and written once for all of them.
 *
 * Whole pairs of vectors are worked on in the lane order of the type (v_load2); f32 arrays of our own
 * are kept in that order, but for the last columns that fill no pair.
 */
#include <string.h>

#include "core/services.h"
#include "simd.h"

/* Elements of work below which another thread does not pay. */
enum { MIN_CHUNK = 32768, ROW_BLOCK = 4, PAIR = 2 * VL };

typedef struct job {
    const char *dy, *x; /* dy: backward only */
    char *out;          /* y or dx */
    const float *gamma, *beta;
    float alpha;
    int64_t n, dy_stride, x_stride, out_stride; /* strides in bytes */
    int stream;
    el type;
    /* backward: sums over each chunk of rows, [chunks,2,n] for dgamma and dbeta */
    int64_t grain, chunks;
    float *sums;
    double *alpha_sums;
} job;

static int64_t whole_pairs(int64_t n)
{
    return n / PAIR * PAIR;
}

static int64_t tail(int64_t n, int64_t j)
{
    return n - j < VL ? n - j : VL;
}

SIMD_INLINE void put2(el e, int stream, void *p, int64_t j, vf2 x)
{
    if (stream)
        v_stream2(e, p, j, x);
    else
        v_store2(e, p, j, x);
}

/* ---- forward ---- */

SIMD_INLINE void forward_block(el e, int stream, const job *job, int64_t i, int count)
{
    const vf alpha = v_set(job->alpha);
    const char *x = job->x + i * job->x_stride;
    char *y = job->out + i * job->out_stride;
    int64_t j = 0;
    for (; j < whole_pairs(job->n); j += PAIR) {
        const vf2 gamma = v_get2(job->gamma + j), beta = v_get2(job->beta + j);
        for (int k = 0; k < count; k++) {
            v_ahead2(e, x + k * job->x_stride, j);
            const vf2 a = v_load2(e, e, x + k * job->x_stride, j);
            const vf2 t = {v_tanh_rational(a.a * alpha), v_tanh_rational(a.b * alpha)};
            put2(e, stream, y + k * job->out_stride, j,
                 (vf2){t.a * gamma.a + beta.a, t.b * gamma.b + beta.b});
        }
    }
    for (; j < job->n; j += VL) {
        const int64_t left = tail(job->n, j);
        const vf gamma = v_load_n(EL_F32, job->gamma, j, left, 0);
        const vf beta = v_load_n(EL_F32, job->beta, j, left, 0);
        for (int k = 0; k < count; k++) {
            const vf t = v_tanh_rational(v_load_n(e, x + k * job->x_stride, j, left, 0) * alpha);
            v_store_n(e, y + k * job->out_stride, j, left, t * gamma + beta);
        }
    }
}

SIMD_INLINE void forward_rows(el e, int stream, const job *job, int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        forward_block(e, stream, job, i, ROW_BLOCK);
    for (; i < end; i++)
        forward_block(e, stream, job, i, 1);
    if (stream)
        v_fence();
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *job = arg;
    if (job->stream)
        EL_SPECIALIZE(job->type, forward_rows, 1, job, begin, end);
    else
        EL_SPECIALIZE(job->type, forward_rows, 0, job, begin, end);
}

/* ---- backward ---- */

/* Sums that one place of a row adds to. */
typedef struct sums {
    vf gamma, beta, alpha;
} sums;

/* dx, and what the element adds to the parameters' gradients */
SIMD_INLINE vf gradient(vf dy, vf x, vf gamma, vf alpha, sums *s)
{
    const v_tanhs t = v_tanh_slope(x * alpha);
    const vf h = dy * gamma * t.slope;
    s->gamma += dy * t.tanh;
    s->beta += dy;
    s->alpha += x * h;
    return alpha * h;
}

/* Returns the rows' share of dalpha. */
SIMD_INLINE float backward_block(el e, int stream, const job *job, int64_t i, int count,
                                 float *dgamma, float *dbeta)
{
    const vf alpha = v_set(job->alpha);
    const char *x = job->x + i * job->x_stride, *dy = job->dy + i * job->dy_stride;
    char *dx = job->out + i * job->out_stride;
    sums a = {{0}, {0}, {0}}, b = a;
    int64_t j = 0;
    for (; j < whole_pairs(job->n); j += PAIR) {
        const vf2 gamma = v_get2(job->gamma + j), g = v_get2(dgamma + j), s = v_get2(dbeta + j);
        a = (sums){g.a, s.a, a.alpha};
        b = (sums){g.b, s.b, b.alpha};
        for (int k = 0; k < count; k++) {
            v_ahead2(e, x + k * job->x_stride, j);
            v_ahead2(e, dy + k * job->dy_stride, j);
            const vf2 vx = v_load2(e, e, x + k * job->x_stride, j);
            const vf2 vdy = v_load2(e, e, dy + k * job->dy_stride, j);
            put2(e, stream, dx + k * job->out_stride, j,
                 (vf2){gradient(vdy.a, vx.a, gamma.a, alpha, &a),
                       gradient(vdy.b, vx.b, gamma.b, alpha, &b)});
        }
        v_put2(dgamma + j, (vf2){a.gamma, b.gamma});
        v_put2(dbeta + j, (vf2){a.beta, b.beta});
    }
    for (; j < job->n; j += VL) {
        const int64_t left = tail(job->n, j);
        const vf gamma = v_load_n(EL_F32, job->gamma, j, left, 0);
        a.gamma = v_load_n(EL_F32, dgamma, j, left, 0);
        a.beta = v_load_n(EL_F32, dbeta, j, left, 0);
        for (int k = 0; k < count; k++) {
            const vf vx = v_load_n(e, x + k * job->x_stride, j, left, 0);
            const vf vdy = v_load_n(e, dy + k * job->dy_stride, j, left, 0);
            v_store_n(e, dx + k * job->out_stride, j, left, gradient(vdy, vx, gamma, alpha, &a));
        }
        v_store_n(EL_F32, dgamma, j, left, a.gamma);
        v_store_n(EL_F32, dbeta, j, left, a.beta);
    }
    return v_sum(a.alpha + b.alpha);
}

SIMD_INLINE void backward_rows(el e, int stream, const job *job, int64_t begin, int64_t end)
{
    const int64_t chunk = begin / job->grain;
    float *dgamma = job->sums + chunk * 2 * job->n, *dbeta = dgamma + job->n;
    memset(dgamma, 0, (size_t)job->n * 2 * sizeof *dgamma);
    double alpha = 0;
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        alpha += backward_block(e, stream, job, i, ROW_BLOCK, dgamma, dbeta);
    for (; i < end; i++)
        alpha += backward_block(e, stream, job, i, 1, dgamma, dbeta);
    job->alpha_sums[chunk] = alpha;
    if (stream)
        v_fence();
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *job = arg;
    if (job->stream)
        EL_SPECIALIZE(job->type, backward_rows, 1, job, begin, end);
    else
        EL_SPECIALIZE(job->type, backward_rows, 0, job, begin, end);
}

/* The sums of all chunks, in their order, become a parameter's gradient. */
typedef struct reduction {
    const float *sums; /* of the first chunk; the next stands 2 n further */
    int64_t n, chunks;
    void *out;
    el order, type; /* of lanes; of the gradient */
    int accumulate;
} reduction;

/* Columns [begin, end) begin at a pair. */
SIMD_INLINE void reduce_columns(el order, const reduction *r, int64_t begin, int64_t end)
{
    int64_t j = begin;
    for (; j + PAIR <= end; j += PAIR) {
        vf2 sum = {{0}, {0}};
        for (int64_t k = 0; k < r->chunks; k++) {
            const vf2 part = v_get2(r->sums + k * 2 * r->n + j);
            sum = (vf2){sum.a + part.a, sum.b + part.b};
        }
        sum = v_natural2(order, sum);
        if (r->accumulate)
            sum =
                (vf2){sum.a + v_load(r->type, r->out, j), sum.b + v_load(r->type, r->out, j + VL)};
        v_store(r->type, r->out, j, sum.a);
        v_store(r->type, r->out, j + VL, sum.b);
    }
    for (; j < end; j += VL) {
        vf sum = {0};
        for (int64_t k = 0; k < r->chunks; k++)
            sum += v_load_n(EL_F32, r->sums + k * 2 * r->n, j, tail(end, j), 0);
        if (r->accumulate)
            sum += v_load_n(r->type, r->out, j, tail(end, j), 0);
        v_store_n(r->type, r->out, j, tail(end, j), sum);
    }
}

static void reduce_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const reduction *r = arg;
    EL_SPECIALIZE(r->order, reduce_columns, r, begin, end);
}

static void reduce(tg_ctx *ctx, const job *job, int which, const tg_tensor *out, int accumulate)
{
    if (!out)
        return;
    reduction r = {job->sums + which * job->n, job->n,    job->chunks, tg_data(out), job->type,
                   (el)tg_el(tg_type_of(out)), accumulate};
    tg_parallel_for(ctx, r.n, whole_pairs(MIN_CHUNK / (r.chunks + 1)) + PAIR, reduce_chunk, &r);
}

static void reduce_alpha(const job *job, const tg_tensor *out, int accumulate)
{
    if (!out)
        return;
    const el type = (el)tg_el(tg_type_of(out));
    double sum = accumulate ? el_get(type, tg_data(out), 0) : 0;
    for (int64_t k = 0; k < job->chunks; k++)
        sum += job->alpha_sums[k];
    el_set(type, tg_data(out), 0, (float)sum);
}

/* ---- rows ---- */

SIMD_INLINE void copy_vector(el order, const tg_rows *from, float *to)
{
    const el type = (el)tg_el(from->type);
    int64_t j = 0;
    for (; j < whole_pairs(from->n); j += PAIR)
        v_put2(to + j, v_load2(order, type, from->data, j));
    for (; j < from->n; j += VL)
        v_store_n(EL_F32, to, j, tail(from->n, j),
                  v_load_n(type, from->data, j, tail(from->n, j), 0));
}

/* A vector of n as f32 in workspace; zeros for NULL. */
static tg_status load_vector(tg_ctx *ctx, el order, const tg_tensor *t, int64_t n,
                             const float **out)
{
    float *copy = tg_workspace(ctx, (size_t)n * sizeof *copy);
    if (!copy)
        return TG_ENOMEM;
    const tg_rows from = tg_rows_of(t);
    if (t)
        EL_SPECIALIZE(order, copy_vector, &from, copy);
    else
        memset(copy, 0, (size_t)n * sizeof *copy);
    *out = copy;
    return TG_OK;
}

/* What both directions have; `over` is what the output may stand in place of. */
static job job_of(const tg_tensor *x_in, const tg_tensor *alpha, const tg_tensor *out_in,
                  const tg_tensor *over)
{
    const tg_rows x = tg_rows_of(x_in), out = tg_rows_of(out_in);
    const el e = (el)tg_el(x.type);
    const int64_t size = el_size(e), rows_a_chunk = x.n > 0 ? MIN_CHUNK / x.n : 1;
    return (job){.x = x.data,
                 .out = out.data,
                 .alpha = el_get((el)tg_el(tg_type_of(alpha)), tg_data(alpha), 0),
                 .n = x.n,
                 .x_stride = x.stride * size,
                 .out_stride = out.stride * size,
                 .stream = out.data != tg_data(over) && tg_streams(x.rows * x.n * size) &&
                           v_streamable2(e, out.data) && out.stride % PAIR == 0,
                 .type = e,
                 .grain =
                     rows_a_chunk > ROW_BLOCK ? rows_a_chunk / ROW_BLOCK * ROW_BLOCK : ROW_BLOCK};
}

static tg_status forward(tg_ctx *ctx, const tg_dyt_forward_args *args)
{
    job job = job_of(args->x, args->alpha, args->y, args->x);
    TG_TRY(load_vector(ctx, job.type, args->gamma, job.n, &job.gamma));
    TG_TRY(load_vector(ctx, job.type, args->beta, job.n, &job.beta));
    tg_parallel_for(ctx, tg_rows_of(args->x).rows, job.grain, forward_chunk, &job);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_dyt_backward_args *args)
{
    const tg_rows dy = tg_rows_of(args->dy);
    job job = job_of(args->x, args->alpha, args->dx, args->dy);
    job.dy = dy.data;
    job.dy_stride = dy.stride * el_size(job.type);
    TG_TRY(load_vector(ctx, job.type, args->gamma, job.n, &job.gamma));
    /* at most 64 partial sums; the cut depends on sizes alone */
    while (job.grain * 64 < dy.rows)
        job.grain *= 2;
    job.chunks = (dy.rows + job.grain - 1) / job.grain;
    job.sums = tg_workspace(ctx, (size_t)(job.chunks * 2 * job.n) * sizeof *job.sums);
    job.alpha_sums = job.sums ? tg_workspace(ctx, 64 * sizeof *job.alpha_sums) : NULL;
    if (!job.alpha_sums)
        return TG_ENOMEM;
    tg_parallel_for(ctx, dy.rows, job.grain, backward_chunk, &job);
    reduce(ctx, &job, 0, args->dgamma, (int)args->accumulate);
    reduce(ctx, &job, 1, args->dbeta, (int)args->accumulate);
    reduce_alpha(&job, args->dalpha, (int)args->accumulate);
    return TG_OK;
}

static int accepts_forward(const tg_dyt_forward_args *args)
{
    return tg_fast_type(args->x);
}

static int accepts_backward(const tg_dyt_backward_args *args)
{
    return tg_fast_type(args->x);
}

TG_CPU_ROWS(dyt) = {
    TG_CPU_ROW(dyt_forward, accepts_forward, forward),
    TG_CPU_ROW(dyt_backward, accepts_backward, backward),
    TG_ROWS_END,
};
