/* rms_norm and fused_add_rms_norm on the CPU. A row is read from memory once: the second pass over
 * it hits the cache. */
#include "core/services.h"
#include "simd.h"

/* Elements of work below which another thread does not pay. */
enum { MIN_CHUNK = 32768, ROW_BLOCK = 4 };

static int64_t rows_per_chunk(int64_t n)
{
    return n > 0 && MIN_CHUNK / n > 1 ? MIN_CHUNK / n : 1;
}

/* offset + weight as f32, in workspace; *scale is NULL without a weight. */
static tg_status load_scale(tg_ctx *ctx, const tg_tensor *weight, double offset,
                            const float **scale)
{
    *scale = NULL;
    if (!weight)
        return TG_OK;
    const tg_rows w = tg_rows_of(weight);
    float *copy = tg_workspace(ctx, (size_t)w.n * sizeof *copy);
    if (!copy)
        return TG_ENOMEM;
    const el e = (el)tg_el(w.type);
    for (int64_t j = 0; j < w.n; j += VL) {
        const int64_t left = w.n - j < VL ? w.n - j : VL;
        v_store_n(EL_F32, copy, j, left, v_load_n(e, w.data, j, left, 0) + v_set((float)offset));
    }
    *scale = copy;
    return TG_OK;
}

/* ---- forward ---- */

typedef struct forward_job {
    const char *x, *residual; /* residual: NULL for rms_norm */
    char *y, *s;
    const float *scale;
    float *rstd; /* NULL: not wanted */
    float *rows; /* fused: one row of s in f32 a worker */
    int64_t n, x_stride, residual_stride, y_stride, s_stride;
    float eps;
    int llama, stream;
    el type;
} forward_job;

/* s = x + residual, rounded; kept in f32 as well. Returns the sum of squares. */
SIMD_INLINE float add_row(el e, int stream, const void *x, const void *residual, void *s,
                          float *row, int64_t n)
{
    vf sum[2] = {{0}, {0}};
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL)
        for (int k = 0; k < 2; k++) {
            const vf a = v_round(e, v_load(e, x, j + k * VL) + v_load(e, residual, j + k * VL));
            if (stream)
                v_stream(e, s, j + k * VL, a);
            else
                v_store(e, s, j + k * VL, a);
            v_store(EL_F32, row, j + k * VL, a);
            sum[k] += a * a;
        }
    for (; j < n; j += VL) {
        const int64_t left = n - j < VL ? n - j : VL;
        const vf a = v_round(e, v_load_n(e, x, j, left, 0) + v_load_n(e, residual, j, left, 0));
        v_store_n(e, s, j, left, a);
        v_store_n(EL_F32, row, j, left, a);
        sum[0] += a * a;
    }
    return v_sum(sum[0] + sum[1]);
}

SIMD_INLINE float square_sum(el e, const void *x, int64_t n)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL)
        for (int k = 0; k < 4; k++) {
            const vf a = v_load(e, x, j + k * VL);
            sum[k] += a * a;
        }
    for (; j < n; j += VL) {
        const vf a = v_load_n(e, x, j, n - j < VL ? n - j : VL, 0);
        sum[0] += a * a;
    }
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

SIMD_INLINE vf normalised(el out, int llama, vf x, vf r, const float *scale, int64_t j,
                          int64_t left)
{
    vf a = x * r;
    if (llama)
        a = v_round(out, a);
    return scale ? a * (left == VL ? v_load(EL_F32, scale, j) : v_load_n(EL_F32, scale, j, left, 0))
                 : a;
}

/* y = x * r * scale; x of type `in`, y of type `out` */
SIMD_INLINE void scale_row(el in, el out, int stream, const void *x, void *y, const float *scale,
                           float r, int llama, int64_t n)
{
    const vf vr = v_set(r);
    int64_t j = 0;
    for (; j + VL <= n; j += VL) {
        const vf a = normalised(out, llama, v_load(in, x, j), vr, scale, j, VL);
        if (stream)
            v_stream(out, y, j, a);
        else
            v_store(out, y, j, a);
    }
    if (j < n)
        v_store_n(out, y, j, n - j,
                  normalised(out, llama, v_load_n(in, x, j, n - j, 0), vr, scale, j, n - j));
}

SIMD_INLINE void forward_rows(el e, const forward_job *job, int64_t begin, int64_t end, int worker)
{
    const int size = el_size(e);
    float *row = job->rows ? job->rows + worker * job->n : NULL;
    for (int64_t i = begin; i < end; i++) {
        const void *x = job->x + i * job->x_stride * size;
        void *y = job->y + i * job->y_stride * size;
        float squares;
        if (job->residual) {
            void *s = job->s + i * job->s_stride * size;
            const void *residual = job->residual + i * job->residual_stride * size;
            if (job->stream && v_streamable(e, s))
                squares = add_row(e, 1, x, residual, s, row, job->n);
            else
                squares = add_row(e, 0, x, residual, s, row, job->n);
        } else {
            squares = square_sum(e, x, job->n);
        }
        const float r = 1.0f / sqrtf(squares / (float)job->n + job->eps);
        if (job->rstd)
            job->rstd[i] = r;
        const int stream = job->stream && v_streamable(e, y);
        if (job->residual)
            stream ? scale_row(EL_F32, e, 1, row, y, job->scale, r, job->llama, job->n)
                   : scale_row(EL_F32, e, 0, row, y, job->scale, r, job->llama, job->n);
        else
            stream ? scale_row(e, e, 1, x, y, job->scale, r, job->llama, job->n)
                   : scale_row(e, e, 0, x, y, job->scale, r, job->llama, job->n);
    }
    v_fence();
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const forward_job *job = arg;
    EL_SPECIALIZE(job->type, forward_rows, job, begin, end, worker);
}

static int accepts_forward(const tg_rms_norm_forward_args *a)
{
    return tg_fast_type(a->x);
}

static tg_status forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    const tg_rows x = tg_rows_of(a->x), y = tg_rows_of(a->y);
    forward_job job = {.x = x.data,
                       .y = y.data,
                       .rstd = tg_data(a->rstd),
                       .n = x.n,
                       .x_stride = x.stride,
                       .y_stride = y.stride};
    job.eps = a->eps == 0 ? 1e-6f : (float)a->eps;
    job.llama = a->casting_mode == 0;
    job.type = (el)tg_el(x.type);
    job.stream = y.data != x.data && tg_streams(x.rows * x.n * el_size(job.type));
    TG_TRY(load_scale(ctx, a->weight, a->offset, &job.scale));
    tg_parallel_for(ctx, x.rows, rows_per_chunk(x.n), forward_chunk, &job);
    return TG_OK;
}

static int accepts_fused_forward(const tg_fused_add_rms_norm_forward_args *a)
{
    return tg_fast_type(a->x);
}

static tg_status fused_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    const tg_rows x = tg_rows_of(a->x), residual = tg_rows_of(a->residual), y = tg_rows_of(a->y),
                  s = tg_rows_of(a->s);
    forward_job job = {.x = x.data,
                       .residual = residual.data,
                       .y = y.data,
                       .s = s.data,
                       .rstd = tg_data(a->rstd),
                       .n = x.n,
                       .x_stride = x.stride,
                       .residual_stride = residual.stride,
                       .y_stride = y.stride,
                       .s_stride = s.stride};
    job.eps = a->eps == 0 ? 1e-6f : (float)a->eps;
    job.llama = a->casting_mode == 0;
    job.type = (el)tg_el(x.type);
    job.stream =
        y.data != x.data && s.data != residual.data && tg_streams(x.rows * x.n * el_size(job.type));
    TG_TRY(load_scale(ctx, a->weight, a->offset, &job.scale));
    job.rows = tg_workspace(ctx, (size_t)tg_ctx_threads(ctx) * (size_t)x.n * sizeof(float));
    if (!job.rows)
        return TG_ENOMEM;
    tg_parallel_for(ctx, x.rows, rows_per_chunk(x.n), forward_chunk, &job);
    return TG_OK;
}

/* ---- backward ---- */

typedef struct backward_job {
    const char *dy, *ds, *x; /* ds: NULL if there is none */
    char *dx;
    const float *scale, *rstd;
    float *partial; /* dweight of each chunk; NULL: not wanted */
    char *dweight;
    int64_t rows, n, grain, chunks, dy_stride, ds_stride, x_stride, dx_stride;
    int llama, stream, accumulate;
    el type, dweight_type;
} backward_job;

SIMD_INLINE vf scaled(vf dy, const float *scale, int64_t j, int64_t left)
{
    return scale
               ? dy * (left == VL ? v_load(EL_F32, scale, j) : v_load_n(EL_F32, scale, j, left, 0))
               : dy;
}

/* sum of dy * scale * x */
SIMD_INLINE float product_sum(el e, const void *dy, const void *x, const float *scale, int64_t n)
{
    vf sum[4] = {{0}, {0}, {0}, {0}};
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL)
        for (int k = 0; k < 4; k++) {
            const int64_t at = j + k * VL;
            sum[k] += scaled(v_load(e, dy, at), scale, at, VL) * v_load(e, x, at);
        }
    for (; j < n; j += VL) {
        const int64_t left = n - j < VL ? n - j : VL;
        sum[0] += scaled(v_load_n(e, dy, j, left, 0), scale, j, left) * v_load_n(e, x, j, left, 0);
    }
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* One vector of columns of `count` rows: dx, and their part of dweight. */
SIMD_INLINE vf column_step(el e, int stream, int full, const backward_job *job, int64_t i,
                           int count, const float *r, const float *c, int64_t j, vf dweight)
{
    const int64_t left = full ? VL : job->n - j;
    for (int k = 0; k < count; k++) {
        const int64_t row = i + k;
        const void *px = job->x + row * job->x_stride * el_size(e),
                   *pdy = job->dy + row * job->dy_stride * el_size(e);
        void *pdx = job->dx + row * job->dx_stride * el_size(e);
        const vf x = full ? v_load(e, px, j) : v_load_n(e, px, j, left, 0);
        const vf dy = full ? v_load(e, pdy, j) : v_load_n(e, pdy, j, left, 0);
        const vf normal = x * v_set(r[k]);
        dweight += dy * (job->llama ? v_round(e, normal) : normal);
        /* r m - x r^3 mean(m x): c = r^3 mean(m x) */
        vf dx = scaled(dy, job->scale, j, left) * v_set(r[k]) - x * v_set(c[k]);
        if (job->ds) {
            const void *pds = job->ds + row * job->ds_stride * el_size(e);
            dx += full ? v_load(e, pds, j) : v_load_n(e, pds, j, left, 0);
        }
        if (!full)
            v_store_n(e, pdx, j, left, dx);
        else if (stream)
            v_stream(e, pdx, j, dx);
        else
            v_store(e, pdx, j, dx);
    }
    return dweight;
}

/* A few rows at a time, so that dweight is read and written once for all of them. */
SIMD_INLINE void backward_block(el e, int stream, const backward_job *job, int64_t i, int count,
                                float *dweight)
{
    float r[ROW_BLOCK], c[ROW_BLOCK];
    for (int k = 0; k < count; k++) {
        const int64_t row = i + k;
        r[k] = job->rstd[row];
        c[k] = product_sum(e, job->dy + row * job->dy_stride * el_size(e),
                           job->x + row * job->x_stride * el_size(e), job->scale, job->n);
        c[k] *= r[k] * r[k] * r[k] / (float)job->n;
    }
    int64_t j = 0;
    for (; j + VL <= job->n; j += VL) {
        const vf sum = column_step(e, stream, 1, job, i, count, r, c, j,
                                   dweight ? v_load(EL_F32, dweight, j) : v_set(0));
        if (dweight)
            v_store(EL_F32, dweight, j, sum);
    }
    if (j < job->n) {
        const int64_t left = job->n - j;
        const vf sum = column_step(e, stream, 0, job, i, count, r, c, j,
                                   dweight ? v_load_n(EL_F32, dweight, j, left, 0) : v_set(0));
        if (dweight)
            v_store_n(EL_F32, dweight, j, left, sum);
    }
}

SIMD_INLINE void backward_rows(el e, const backward_job *job, int64_t begin, int64_t end)
{
    float *dweight = job->partial ? job->partial + begin / job->grain * job->n : NULL;
    for (int64_t j = 0; dweight && j < job->n; j++)
        dweight[j] = 0;
    const int stream = job->stream && v_streamable(e, job->dx) && job->dx_stride % VL == 0;
    for (int64_t i = begin; i < end; i += ROW_BLOCK) {
        const int64_t count = end - i < ROW_BLOCK ? end - i : ROW_BLOCK;
        if (count < ROW_BLOCK)
            for (int64_t k = 0; k < count; k++)
                backward_block(e, 0, job, i + k, 1, dweight);
        else if (stream)
            backward_block(e, 1, job, i, ROW_BLOCK, dweight);
        else
            backward_block(e, 0, job, i, ROW_BLOCK, dweight);
    }
    v_fence();
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const backward_job *job = arg;
    EL_SPECIALIZE(job->type, backward_rows, job, begin, end);
}

/* dweight = the partial sums, in the order of the chunks */
static void reduce_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const backward_job *job = arg;
    for (int64_t j = begin; j < end; j += VL) {
        const int64_t left = end - j < VL ? end - j : VL;
        vf sum = job->accumulate ? v_load_n(job->dweight_type, job->dweight, j, left, 0) : v_set(0);
        for (int64_t k = 0; k < job->chunks; k++)
            sum += v_load_n(EL_F32, job->partial + k * job->n, j, left, 0);
        v_store_n(job->dweight_type, job->dweight, j, left, sum);
    }
}

static tg_status run_backward(tg_ctx *ctx, backward_job *job, const tg_tensor *weight,
                              double offset, const tg_tensor *dweight)
{
    TG_TRY(load_scale(ctx, weight, offset, &job->scale));
    job->grain = rows_per_chunk(job->n);
    if (dweight) {
        /* at most 64 partial sums, whole blocks of rows; the cut depends on sizes alone */
        const int64_t least = (job->rows + 63) / 64;
        job->grain = job->grain < least ? least : job->grain;
        job->grain = (job->grain + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
        job->chunks = (job->rows + job->grain - 1) / job->grain;
        job->dweight = tg_data(dweight);
        job->dweight_type = (el)tg_el(tg_type_of(dweight));
        job->partial = tg_workspace(ctx, (size_t)(job->chunks * job->n) * sizeof(float));
        if (!job->partial)
            return TG_ENOMEM;
    }
    tg_parallel_for(ctx, job->rows, job->grain, backward_chunk, job);
    if (dweight)
        tg_parallel_for(ctx, job->n, (MIN_CHUNK / (job->chunks + 1) + VL) / VL * VL, reduce_chunk,
                        job);
    return TG_OK;
}

static int accepts_backward(const tg_rms_norm_backward_args *a)
{
    return tg_fast_type(a->x);
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    const tg_rows dy = tg_rows_of(a->dy), x = tg_rows_of(a->x), dx = tg_rows_of(a->dx);
    backward_job job = {.dy = dy.data,
                        .x = x.data,
                        .dx = dx.data,
                        .rstd = tg_data(a->rstd),
                        .rows = x.rows,
                        .n = x.n,
                        .dy_stride = dy.stride,
                        .x_stride = x.stride,
                        .dx_stride = dx.stride};
    job.llama = a->casting_mode == 0;
    job.accumulate = (int)a->accumulate;
    job.type = (el)tg_el(x.type);
    job.stream = dx.data != dy.data && tg_streams(x.rows * x.n * el_size(job.type));
    return run_backward(ctx, &job, a->weight, a->offset, a->dweight);
}

static int accepts_fused_backward(const tg_fused_add_rms_norm_backward_args *a)
{
    return tg_fast_type(a->s);
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    const tg_rows dy = tg_rows_of(a->dy), ds = tg_rows_of(a->ds), s = tg_rows_of(a->s),
                  dx = tg_rows_of(a->dx);
    backward_job job = {.dy = dy.data,
                        .ds = ds.data,
                        .x = s.data,
                        .dx = dx.data,
                        .rstd = tg_data(a->rstd),
                        .rows = s.rows,
                        .n = s.n,
                        .dy_stride = dy.stride,
                        .ds_stride = ds.stride,
                        .x_stride = s.stride,
                        .dx_stride = dx.stride};
    job.llama = a->casting_mode == 0;
    job.accumulate = (int)a->accumulate;
    job.type = (el)tg_el(s.type);
    job.stream = dx.data != dy.data && tg_streams(s.rows * s.n * el_size(job.type));
    return run_backward(ctx, &job, a->weight, a->offset, a->dweight);
}

TG_CPU_ROWS(rms_norm) = {
    TG_CPU_ROW(rms_norm_forward, accepts_forward, forward),
    TG_CPU_ROW(rms_norm_backward, accepts_backward, backward),
    TG_CPU_ROW(fused_add_rms_norm_forward, accepts_fused_forward, fused_forward),
    TG_CPU_ROW(fused_add_rms_norm_backward, accepts_fused_backward, fused_backward), TG_ROWS_END};
