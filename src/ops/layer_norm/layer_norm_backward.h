/* Backward of layer_norm on the CPU. */
#ifndef TG_LAYER_NORM_BACKWARD_H
#define TG_LAYER_NORM_BACKWARD_H

#include "layer_norm_common.h"

/* BACKWARD_ROWS: rows taken at a time; of more, what differs from row to row no longer fits the registers. */
enum { BACKWARD_ROWS = 2 };

typedef struct backward_job {
    const char *dy, *x;
    char *dx;
    const float *weight, *mean, *rstd;
    float *partial; /* dweight, then dbias, of each chunk; NULL: not wanted */
    int64_t rows, n, grain, chunks, dy_stride, x_stride, dx_stride; /* strides in bytes */
    int64_t dy_ahead, x_ahead;
    int stream;
    el type;
} backward_job;

/* What the second pass over a row needs: dx = m scale - (normal c1 + c2). */
typedef struct gradient_terms {
    const char *dy, *x;
    char *dx;
    float mean, r, scale, c1, c2;
} gradient_terms;

/* Sums over a row, of m = dy weight and of m (x - mean). */
typedef struct row_sums {
    vf2 m, product;
} row_sums;

SIMD_INLINE void add_pair(el e, const backward_job *job, const gradient_terms *t, int64_t j,
                          row_sums *sum)
{
    const vf2 g = v_load2(e, e, t->dy, j), x = v_load2(e, e, t->x, j), w = v_get2(job->weight + j);
    const vf2 m = {g.a * w.a, g.b * w.b};
    sum->m = (vf2){sum->m.a + m.a, sum->m.b + m.b};
    sum->product.a += m.a * (x.a - v_set(t->mean));
    sum->product.b += m.b * (x.b - v_set(t->mean));
}

/* A row of one element has no gradient; rounding would leave one. */
SIMD_INLINE gradient_terms first_pass(el e, const backward_job *job, int64_t i)
{
    gradient_terms t = {job->dy + i * job->dy_stride,
                        job->x + i * job->x_stride,
                        job->dx + i * job->dx_stride,
                        job->mean[i],
                        job->rstd[i],
                        job->rstd[i],
                        0,
                        0};
    row_sums sum[2] = {{{{0}, {0}}, {{0}, {0}}}, {{{0}, {0}}, {{0}, {0}}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= job->n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_pair(e, job, &t, j + k * V_PAIR, &sum[k]);
    for (; j + V_PAIR <= job->n; j += V_PAIR)
        add_pair(e, job, &t, j, &sum[0]);
    for (; j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf m = v_load_n(e, t.dy, j, left, 0) * v_load_n(EL_F32, job->weight, j, left, 0);
        sum[0].m.a += m;
        sum[0].product.a += m * (v_load_n(e, t.x, j, left, t.mean) - v_set(t.mean));
    }
    const float share = t.r / (float)job->n;
    t.c1 = v_sum((sum[0].product.a + sum[0].product.b) + (sum[1].product.a + sum[1].product.b)) *
           t.r * share;
    t.c2 = v_sum((sum[0].m.a + sum[0].m.b) + (sum[1].m.a + sum[1].m.b)) * share;
    if (job->n == 1)
        t.scale = t.c1 = t.c2 = 0;
    return t;
}

/* One vector of a row: dx, returned, and what it adds to dweight and dbias. */
SIMD_INLINE vf gradient(const gradient_terms *t, vf dy, vf x, vf weight, vf *dweight, vf *dbias)
{
    const vf normal = (x - v_set(t->mean)) * v_set(t->r);
    *dweight += dy * normal;
    *dbias += dy;
    return dy * weight * v_set(t->scale) - (normal * v_set(t->c1) + v_set(t->c2));
}

SIMD_INLINE void gradient_pairs(el e, int stream, int next, const backward_job *job,
                                const gradient_terms *t, int count, float *dweight, float *dbias)
{
    for (int64_t j = 0; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 w = v_get2(job->weight + j);
        vf2 sum = {{0}, {0}}, product = {{0}, {0}};
        for (int k = 0; k < count; k++) {
            const vf2 x = v_load2(e, e, t[k].x, j), dy = v_load2(e, e, t[k].dy, j);
            v_write2(e, stream, t[k].dx, j,
                     (vf2){gradient(&t[k], dy.a, x.a, w.a, &product.a, &sum.a),
                           gradient(&t[k], dy.b, x.b, w.b, &product.b, &sum.b)});
            if (next) {
                v_prefetch2(e, t[k].x + job->x_ahead, j);
                v_prefetch2(e, t[k].dy + job->dy_ahead, j);
            }
        }
        if (dweight) {
            const vf2 w0 = v_get2(dweight + j), b0 = v_get2(dbias + j);
            v_put2(dweight + j, (vf2){w0.a + product.a, w0.b + product.b});
            v_put2(dbias + j, (vf2){b0.a + sum.a, b0.b + sum.b});
        }
    }
}

SIMD_INLINE void gradient_tail(el e, const backward_job *job, const gradient_terms *t, int count,
                               float *dweight, float *dbias)
{
    for (int64_t j = v_whole_pairs(job->n); j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf w = v_load_n(EL_F32, job->weight, j, left, 0);
        vf sum = {0}, product = {0};
        for (int k = 0; k < count; k++) {
            const vf x = v_load_n(e, t[k].x, j, left, 0), dy = v_load_n(e, t[k].dy, j, left, 0);
            v_store_n(e, t[k].dx, j, left, gradient(&t[k], dy, x, w, &product, &sum));
        }
        if (dweight) {
            v_store_n(EL_F32, dweight, j, left, v_load_n(EL_F32, dweight, j, left, 0) + product);
            v_store_n(EL_F32, dbias, j, left, v_load_n(EL_F32, dbias, j, left, 0) + sum);
        }
    }
}

/* A few rows at a time, so that the sums of dweight and dbias are read and written once for all of them. */
SIMD_INLINE void backward_block(el e, int stream, int next, const backward_job *job, int64_t i,
                                int count, float *dweight, float *dbias)
{
    gradient_terms t[BACKWARD_ROWS];
    for (int k = 0; k < count; k++)
        t[k] = first_pass(e, job, i + k);
    gradient_pairs(e, stream, next, job, t, count, dweight, dbias);
    gradient_tail(e, job, t, count, dweight, dbias);
}

SIMD_INLINE void backward_rows(el e, int stream, const backward_job *job, int64_t begin,
                               int64_t end)
{
    float *dweight = NULL, *dbias = NULL;
    if (job->partial) {
        dweight = job->partial + begin / job->grain * 2 * job->n;
        dbias = dweight + job->n;
        memset(dweight, 0, (size_t)job->n * 2 * sizeof *dweight);
    }
    int64_t i = begin;
    for (; i + BACKWARD_ROWS <= end; i += BACKWARD_ROWS)
        backward_block(e, stream, 1, job, i, BACKWARD_ROWS, dweight, dbias);
    for (; i < end; i++)
        backward_block(e, stream, 0, job, i, 1, dweight, dbias);
    if (stream)
        v_fence();
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    /* a copy: no store through a pointer can change it */
    const backward_job job = *(const backward_job *)arg;
    if (job.stream)
        EL_SPECIALIZE(job.type, backward_rows, 1, &job, begin, end);
    else
        EL_SPECIALIZE(job.type, backward_rows, 0, &job, begin, end);
}

typedef struct reduce_job {
    const float *partial; /* of the first chunk */
    char *out;
    int64_t n, chunks;
    int accumulate;
    el order, type; /* lane order of the partial sums; type of out */
} reduce_job;

/* out = the partial sums, in the order of the chunks; columns [begin, end) begin at a pair */
SIMD_INLINE void reduce_columns(el e, const reduce_job *job, int64_t begin, int64_t end)
{
    int64_t j = begin;
    for (; j + V_PAIR <= end; j += V_PAIR) {
        vf2 sum = {{0}, {0}};
        for (int64_t k = 0; k < job->chunks; k++) {
            const vf2 part = v_get2(job->partial + k * 2 * job->n + j);
            sum = (vf2){sum.a + part.a, sum.b + part.b};
        }
        sum = v_natural2(e, sum);
        if (job->accumulate)
            sum = (vf2){sum.a + v_load(job->type, job->out, j),
                        sum.b + v_load(job->type, job->out, j + VL)};
        v_store(job->type, job->out, j, sum.a);
        v_store(job->type, job->out, j + VL, sum.b);
    }
    for (; j < end; j += VL) {
        vf sum = {0};
        for (int64_t k = 0; k < job->chunks; k++)
            sum += v_load_n(EL_F32, job->partial + k * 2 * job->n, j, v_tail(end, j), 0);
        if (job->accumulate)
            sum += v_load_n(job->type, job->out, j, v_tail(end, j), 0);
        v_store_n(job->type, job->out, j, v_tail(end, j), sum);
    }
}

static void reduce_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const reduce_job *job = arg;
    EL_SPECIALIZE(job->order, reduce_columns, job, begin, end);
}

/* A parameter's gradient from the partial sums that begin `first` columns into each chunk's. */
static void reduce(tg_ctx *ctx, const backward_job *job, const tg_tensor *out, int64_t first,
                   int accumulate)
{
    if (!out)
        return;
    reduce_job r = {
        job->partial + first,      tg_data(out), job->n, job->chunks, accumulate, job->type,
        (el)tg_el(tg_type_of(out))};
    tg_parallel_for(ctx, r.n, v_whole_pairs(MIN_CHUNK / (r.chunks + 1)) + V_PAIR, reduce_chunk, &r);
}

static tg_status backward(tg_ctx *ctx, const tg_layer_norm_backward_args *a)
{
    const tg_rows dy = tg_rows_of(a->dy), x = tg_rows_of(a->x), dx = tg_rows_of(a->dx);
    const el e = (el)tg_el(x.type);
    backward_job job = {.dy = dy.data,
                        .x = x.data,
                        .dx = dx.data,
                        .mean = tg_data(a->mean),
                        .rstd = tg_data(a->rstd),
                        .rows = x.rows,
                        .n = x.n,
                        .grain = rows_per_chunk(x.n),
                        .dy_stride = dy.stride * el_size(e),
                        .x_stride = x.stride * el_size(e),
                        .dx_stride = dx.stride * el_size(e),
                        .stream = streams(&dx, dy.data),
                        .type = e};
    const int64_t ahead = v_rows_ahead(x.n * el_size(e), BACKWARD_ROWS);
    job.dy_ahead = ahead * job.dy_stride;
    job.x_ahead = ahead * job.x_stride;
    TG_TRY(load_columns(ctx, e, a->weight, x.n, 1, &job.weight));
    if (a->dweight || a->dbias) {
        /* at most 64 partial sums, whole blocks of rows; the cut depends on sizes alone */
        const int64_t least = (job.rows + 63) / 64;
        job.grain = job.grain < least ? least : job.grain;
        job.grain = (job.grain + BACKWARD_ROWS - 1) / BACKWARD_ROWS * BACKWARD_ROWS;
        job.chunks = (job.rows + job.grain - 1) / job.grain;
        job.partial = tg_workspace(ctx, (size_t)(job.chunks * 2 * job.n) * sizeof(float));
        if (!job.partial)
            return TG_ENOMEM;
    }
    tg_parallel_for(ctx, job.rows, job.grain, backward_chunk, &job);
    reduce(ctx, &job, a->dweight, 0, (int)a->accumulate);
    reduce(ctx, &job, a->dbias, job.n, (int)a->accumulate);
    return TG_OK;
}

#endif
