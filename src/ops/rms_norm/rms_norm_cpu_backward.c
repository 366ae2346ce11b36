/* rms_norm and fused_add_rms_norm on the CPU: backward. */
#include "rms_norm_cpu.h"

/* ROW_BLOCK: rows that are taken at a time; of more, what differs from row to row no longer fits
 * the registers. WORTH: elements of a chunk of rows with a sum of its own. */
enum { ROW_BLOCK = 2, WORTH = 2 * ROWS_WORTH };

typedef struct backward_job {
    operand dy, ds, x, dx; /* ds: may be missing */
    const float *scale, *rstd;
    column_sums dweight;
    int64_t n, dy_ahead, ds_ahead, x_ahead; /* ahead: bytes to the rows to ask for */
    int llama, stream;
    el type;
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
            const char *px = row_at(&job->x, i + k), *pdy = row_at(&job->dy, i + k),
                       *pds = job->ds.data ? row_at(&job->ds, i + k) : NULL;
            const vf2 x = v_load2(e, e, px, j), dy = v_load2(e, e, pdy, j),
                      ds = pds ? v_load2(e, e, pds, j) : (vf2){{0}, {0}},
                      normal = normalised2(e, job->llama, x, v_set(r[k]));
            sum = (vf2){sum.a + dy.a * normal.a, sum.b + dy.b * normal.b};
            v_write2(e, stream, row_at(&job->dx, i + k), j,
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
            const vf x = v_load_n(e, row_at(&job->x, i + k), j, left, 0),
                     dy = v_load_n(e, row_at(&job->dy, i + k), j, left, 0),
                     ds =
                         job->ds.data ? v_load_n(e, row_at(&job->ds, i + k), j, left, 0) : v_set(0);
            sum += dy * normalised(e, job->llama, x, v_set(r[k]));
            v_store_n(e, row_at(&job->dx, i + k), j, left, gradient(dy, x, w, r[k], c[k], ds));
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
        c[k] = product_sum(e, row_at(&job->dy, i + k), row_at(&job->x, i + k), job->scale, job->n);
        c[k] *= r[k] * r[k] * r[k] / (float)job->n;
    }
    gradient_pairs(e, stream, next, job, i, count, r, c, dweight);
    gradient_tail(e, job, i, count, r, c, dweight);
}

SIMD_INLINE void backward_rows(el e, int stream, const backward_job *job, int64_t begin,
                               int64_t end, int worker)
{
    (void)worker;
    float *dweight = columns_begin(&job->dweight, begin);
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        backward_block(e, stream, 1, job, i, ROW_BLOCK, dweight);
    for (; i < end; i++)
        backward_block(e, stream, 0, job, i, 1, dweight);
}

ROWS_CHUNK(backward_chunk, backward_job, backward_rows);

/* What the two operators have in common: fused_add_rms_norm has ds, and calls x s. */
typedef struct gradients {
    const tg_tensor *dy, *ds, *x, *weight, *rstd, *dx, *dweight;
    double offset;
    int llama;
    int64_t accumulate;
} gradients;

static tg_status run(tg_ctx *ctx, const gradients *a)
{
    const tg_rows x = tg_rows_of(a->x);
    backward_job job = {.dy = operand_of(a->dy),
                        .ds = operand_of(a->ds),
                        .x = operand_of(a->x),
                        .dx = operand_of(a->dx),
                        .rstd = tg_data(a->rstd),
                        .n = x.n,
                        .llama = a->llama,
                        .stream = rows_stream_aligned(a->dx, a->dy),
                        .type = el_of(a->x)};
    const int64_t ahead = v_rows_ahead(x.n * el_size(job.type), ROW_BLOCK);
    int64_t grain = rows_grain(x.rows, x.n, ROW_BLOCK);
    job.dy_ahead = ahead * job.dy.stride;
    job.ds_ahead = ahead * job.ds.stride;
    job.x_ahead = ahead * job.x.stride;
    TG_TRY(columns_load_plus(ctx, job.type, a->weight, (float)a->offset, &job.scale));
    if (a->dweight) {
        grain = columns_grain(x.rows, rows_worth(x.n, WORTH), ROW_BLOCK);
        TG_TRY(columns_sums(ctx, x.rows, x.n, 1, grain, &job.dweight));
    }
    tg_parallel_for(ctx, x.rows, grain, backward_chunk, &job);
    columns_reduce(ctx, &job.dweight, 0, job.type, a->dweight, a->accumulate);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    return run(ctx, &(gradients){a->dy, NULL, a->x, a->weight, a->rstd, a->dx, a->dweight,
                                 a->offset, a->casting_mode == 0, a->accumulate});
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    return run(ctx, &(gradients){a->dy, a->ds, a->s, a->weight, a->rstd, a->dx, a->dweight,
                                 a->offset, a->casting_mode == 0, a->accumulate});
}

TG_CPU_IMPLS(rms_norm_backward) = {TG_CPU_IMPL(rms_norm_backward, backward),
                                   TG_CPU_IMPL(fused_add_rms_norm_backward, fused_backward),
                                   TG_IMPLS_END};
