/* Backward of rms_norm and fused_add_rms_norm on the CPU. */
#ifndef TG_RMS_NORM_BACKWARD_H
#define TG_RMS_NORM_BACKWARD_H

#include "rms_norm_common.h"

typedef struct backward_job {
    const char *dy, *ds, *x; /* ds: NULL if there is none */
    char *dx;
    const float *scale, *rstd;
    float *partial; /* dweight of each chunk; NULL: not wanted */
    char *dweight;
    int64_t rows, n, grain, chunks, dy_stride, ds_stride, x_stride,
        dx_stride; /* strides in bytes */
    int64_t dy_ahead, ds_ahead, x_ahead;
    int llama, stream, accumulate;
    el type, dweight_type;
} backward_job;

SIMD_INLINE void add_products(el e, const void *dy, const void *x, const float *scale, int64_t j,
                              vf2 *sum)
{
    const vf2 g = v_load2(e, e, dy, j), a = v_load2(e, e, x, j);
    const vf2 w = scale ? v_get2(scale + j) : (vf2){v_set(1), v_set(1)};
    sum->a += g.a * w.a * a.a;
    sum->b += g.b * w.b * a.b;
}

/* sum of dy * scale * x */
SIMD_INLINE float product_sum(el e, const void *dy, const void *x, const float *scale, int64_t n)
{
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_products(e, dy, x, scale, j + k * V_PAIR, &sum[k]);
    for (; j + V_PAIR <= n; j += V_PAIR)
        add_products(e, dy, x, scale, j, &sum[0]);
    for (; j < n; j += VL) {
        const vf w = scale ? v_load_n(EL_F32, scale, j, v_tail(n, j), 0) : v_set(1);
        sum[0].a += v_load_n(e, dy, j, v_tail(n, j), 0) * w * v_load_n(e, x, j, v_tail(n, j), 0);
    }
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
}

/* One vector of dx: r m - x r^3 mean(m x) + ds */
SIMD_INLINE vf gradient(vf dy, vf x, vf scale, float r, float c, vf ds)
{
    return dy * scale * v_set(r) + (ds - x * v_set(c));
}

SIMD_INLINE void gradient_pairs(el e, int stream, int next, const backward_job *job, int64_t i,
                                int count, const float *r, const float *c, float *dweight)
{
    for (int64_t j = 0; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 w = job->scale ? v_get2(job->scale + j) : (vf2){v_set(1), v_set(1)};
        vf2 sum = dweight ? v_get2(dweight + j) : (vf2){{0}, {0}};
        for (int k = 0; k < count; k++) {
            const char *px = job->x + (i + k) * job->x_stride,
                       *pdy = job->dy + (i + k) * job->dy_stride,
                       *pds = job->ds ? job->ds + (i + k) * job->ds_stride : NULL;
            const vf2 x = v_load2(e, e, px, j), dy = v_load2(e, e, pdy, j),
                      ds = pds ? v_load2(e, e, pds, j) : (vf2){{0}, {0}},
                      normal = normalised2(e, job->llama, x, v_set(r[k]));
            sum = (vf2){sum.a + dy.a * normal.a, sum.b + dy.b * normal.b};
            v_write2(e, stream, job->dx + (i + k) * job->dx_stride, j,
                     (vf2){gradient(dy.a, x.a, w.a, r[k], c[k], ds.a),
                           gradient(dy.b, x.b, w.b, r[k], c[k], ds.b)});
            if (next) {
                v_prefetch2(e, px + job->x_ahead, j);
                v_prefetch2(e, pdy + job->dy_ahead, j);
                if (pds)
                    v_prefetch2(e, pds + job->ds_ahead, j);
            }
        }
        if (dweight)
            v_put2(dweight + j, sum);
    }
}

SIMD_INLINE void gradient_tail(el e, const backward_job *job, int64_t i, int count, const float *r,
                               const float *c, float *dweight)
{
    for (int64_t j = v_whole_pairs(job->n); j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf w = job->scale ? v_load_n(EL_F32, job->scale, j, left, 0) : v_set(1);
        vf sum = dweight ? v_load_n(EL_F32, dweight, j, left, 0) : v_set(0);
        for (int k = 0; k < count; k++) {
            const vf x = v_load_n(e, job->x + (i + k) * job->x_stride, j, left, 0),
                     dy = v_load_n(e, job->dy + (i + k) * job->dy_stride, j, left, 0),
                     ds = job->ds ? v_load_n(e, job->ds + (i + k) * job->ds_stride, j, left, 0)
                                  : v_set(0);
            sum += dy * normalised(e, job->llama, x, v_set(r[k]));
            v_store_n(e, job->dx + (i + k) * job->dx_stride, j, left,
                      gradient(dy, x, w, r[k], c[k], ds));
        }
        if (dweight)
            v_store_n(EL_F32, dweight, j, left, sum);
    }
}

/* A few rows at a time, so that dweight is read and written once for all of them. */
SIMD_INLINE void backward_block(el e, int stream, int next, const backward_job *job, int64_t i,
                                int count, float *dweight)
{
    float r[ROW_BLOCK], c[ROW_BLOCK];
    for (int k = 0; k < count; k++) {
        r[k] = job->rstd[i + k];
        c[k] = product_sum(e, job->dy + (i + k) * job->dy_stride, job->x + (i + k) * job->x_stride,
                           job->scale, job->n);
        c[k] *= r[k] * r[k] * r[k] / (float)job->n;
    }
    gradient_pairs(e, stream, next, job, i, count, r, c, dweight);
    gradient_tail(e, job, i, count, r, c, dweight);
}

SIMD_INLINE void backward_rows(el e, int stream, const backward_job *job, int64_t begin,
                               int64_t end)
{
    float *dweight = job->partial ? job->partial + begin / job->grain * job->n : NULL;
    if (dweight)
        memset(dweight, 0, (size_t)job->n * sizeof *dweight);
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        backward_block(e, stream, 1, job, i, ROW_BLOCK, dweight);
    for (; i < end; i++)
        backward_block(e, stream, 0, job, i, 1, dweight);
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

/* dweight = the partial sums, in the order of the chunks; columns [begin, end) begin at a pair */
SIMD_INLINE void reduce_columns(el e, const backward_job *job, int64_t begin, int64_t end)
{
    int64_t j = begin;
    for (; j + V_PAIR <= end; j += V_PAIR) {
        vf2 sum = {{0}, {0}};
        for (int64_t k = 0; k < job->chunks; k++) {
            const vf2 part = v_get2(job->partial + k * job->n + j);
            sum = (vf2){sum.a + part.a, sum.b + part.b};
        }
        sum = v_natural2(e, sum);
        if (job->accumulate)
            sum = (vf2){sum.a + v_load(job->dweight_type, job->dweight, j),
                        sum.b + v_load(job->dweight_type, job->dweight, j + VL)};
        v_store(job->dweight_type, job->dweight, j, sum.a);
        v_store(job->dweight_type, job->dweight, j + VL, sum.b);
    }
    for (; j < end; j += VL) {
        vf sum = {0};
        for (int64_t k = 0; k < job->chunks; k++)
            sum += v_load_n(EL_F32, job->partial + k * job->n, j, v_tail(end, j), 0);
        if (job->accumulate)
            sum += v_load_n(job->dweight_type, job->dweight, j, v_tail(end, j), 0);
        v_store_n(job->dweight_type, job->dweight, j, v_tail(end, j), sum);
    }
}

static void reduce_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const backward_job *job = arg;
    EL_SPECIALIZE(job->type, reduce_columns, job, begin, end);
}

static tg_status run_backward(tg_ctx *ctx, const tg_tensor *dy_in, const tg_tensor *ds_in,
                              const tg_tensor *x_in, const tg_tensor *weight, const tg_tensor *rstd,
                              const tg_tensor *dx_out, const tg_tensor *dweight, double offset,
                              int llama, int accumulate)
{
    const tg_rows dy = tg_rows_of(dy_in), ds = tg_rows_of(ds_in), x = tg_rows_of(x_in),
                  dx = tg_rows_of(dx_out);
    const el e = (el)tg_el(x.type);
    const int64_t size = el_size(e);
    backward_job job = {.dy = dy.data,
                        .ds = ds.data,
                        .x = x.data,
                        .dx = dx.data,
                        .rstd = tg_data(rstd),
                        .rows = x.rows,
                        .n = x.n,
                        .grain = rows_per_chunk(x.n),
                        .dy_stride = dy.stride * size,
                        .ds_stride = ds.stride * size,
                        .x_stride = x.stride * size,
                        .dx_stride = dx.stride * size,
                        .llama = llama,
                        .stream = streams(&dx, dy.data),
                        .accumulate = accumulate,
                        .type = e};
    const int64_t ahead = v_rows_ahead(x.n * size, ROW_BLOCK);
    job.dy_ahead = ahead * job.dy_stride;
    job.ds_ahead = ahead * job.ds_stride;
    job.x_ahead = ahead * job.x_stride;
    TG_TRY(load_scale(ctx, e, weight, offset, &job.scale));
    if (dweight) {
        /* at most 64 partial sums, whole blocks of rows; the cut depends on sizes alone */
        const int64_t least = (job.rows + 63) / 64;
        job.grain = job.grain < least ? least : job.grain;
        job.grain = (job.grain + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
        job.chunks = (job.rows + job.grain - 1) / job.grain;
        job.dweight = tg_data(dweight);
        job.dweight_type = (el)tg_el(tg_type_of(dweight));
        job.partial = tg_workspace(ctx, (size_t)(job.chunks * job.n) * sizeof(float));
        if (!job.partial)
            return TG_ENOMEM;
    }
    tg_parallel_for(ctx, job.rows, job.grain, backward_chunk, &job);
    if (dweight)
        tg_parallel_for(ctx, job.n, v_whole_pairs(MIN_CHUNK / (job.chunks + 1)) + V_PAIR,
                        reduce_chunk, &job);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    return run_backward(ctx, a->dy, NULL, a->x, a->weight, a->rstd, a->dx, a->dweight, a->offset,
                        a->casting_mode == 0, (int)a->accumulate);
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    return run_backward(ctx, a->dy, a->ds, a->s, a->weight, a->rstd, a->dx, a->dweight, a->offset,
                        a->casting_mode == 0, (int)a->accumulate);
}

#endif
