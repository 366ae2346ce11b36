/* dyt, fast: one pass each way, a few rows at a time, so that what belongs to the columns (gamma, beta,
 * sums of gradients) is read and written once for all of them. Here forward, and the table. */
#include "dyt_backward.h"

/* ---- forward ---- */

SIMD_INLINE void forward_block(el e, int stream, const job *job, int64_t i, int count)
{
    const vf alpha = v_set(job->alpha);
    const char *x = job->x + i * job->x_stride;
    char *y = job->out + i * job->out_stride;
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 gamma = v_get2(job->gamma + j), beta = v_get2(job->beta + j);
        for (int k = 0; k < count; k++) {
            v_ahead2(e, x + k * job->x_stride, j);
            const vf2 a = v_load2(e, e, x + k * job->x_stride, j);
            const vf2 t = {v_tanh_rational(a.a * alpha), v_tanh_rational(a.b * alpha)};
            v_write2(e, stream, y + k * job->out_stride, j,
                     (vf2){t.a * gamma.a + beta.a, t.b * gamma.b + beta.b});
        }
    }
    for (; j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
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

/* ---- rows ---- */

SIMD_INLINE void copy_vector(el order, const tg_rows *from, float *to)
{
    const el type = (el)tg_el(from->type);
    int64_t j = 0;
    for (; j < v_whole_pairs(from->n); j += V_PAIR)
        v_put2(to + j, v_load2(order, type, from->data, j));
    for (; j < from->n; j += VL)
        v_store_n(EL_F32, to, j, v_tail(from->n, j),
                  v_load_n(type, from->data, j, v_tail(from->n, j), 0));
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
                           v_streamable2(e, out.data) && out.stride % V_PAIR == 0,
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

TG_CPU_IMPLS(dyt) = {
    TG_CPU_IMPL(dyt_forward, forward),
    TG_CPU_IMPL(dyt_backward, backward),
    TG_IMPLS_END,
};
