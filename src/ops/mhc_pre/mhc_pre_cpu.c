/* mhc_pre on the CPU: one pass each way along a token's streams side by side. */
#include "rows/rows.h"
#include "rows/streams.h"

typedef struct job {
    operand x, dy, out; /* dy: backward only; out: y or dx */
    const float *h;     /* [tokens, streams] */
    float *dh;          /* backward only */
    int64_t streams, n;
    int stream;
    el type;
} job;

SIMD_INLINE vf2 times(vf by, vf2 x)
{
    return (vf2){by * x.a, by * x.b};
}

SIMD_INLINE vf2 plus(vf2 x, vf2 y)
{
    return (vf2){x.a + y.a, x.b + y.b};
}

SIMD_INLINE void forward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                int worker)
{
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const float *h = job->h + t * job->streams;
        const char *x = row_at(&job->x, t * job->streams);
        char *y = row_at(&job->out, t);
        int64_t j = 0;
        for (; j < v_whole_pairs(job->n); j += V_PAIR) {
            vf2 sum = {{0}, {0}};
            for (int64_t s = 0; s < job->streams; s++) {
                v_ahead2(e, x + s * job->x.stride, j);
                sum = plus(sum, times(v_set(h[s]), v_load2(e, e, x + s * job->x.stride, j)));
            }
            v_write2(e, stream, y, j, sum);
        }
        for (; j < job->n; j += VL) {
            vf sum = v_set(0.0f);
            for (int64_t s = 0; s < job->streams; s++)
                sum += v_set(h[s]) * v_load_n(e, x + s * job->x.stride, j, v_tail(job->n, j), 0.0f);
            v_store_n(e, y, j, v_tail(job->n, j), sum);
        }
    }
}

ROWS_CHUNK(forward_chunk, job, forward_tokens);

/* Columns [begin, end) of a token, a vector at a time. */
SIMD_INLINE void backward_part(el e, const job *job, const float *h, const char *x, const char *dy,
                               char *dx, int64_t begin, int64_t end, float *sums)
{
    for (int64_t j = begin; j < end; j += VL) {
        const int64_t n = v_tail(end, j);
        const vf d = v_load_n(e, dy, j, n, 0.0f);
        for (int64_t s = 0; s < job->streams; s++) {
            const vf sum = v_load(EL_F32, sums, s * V_PAIR);
            v_store(EL_F32, sums, s * V_PAIR,
                    sum + d * v_load_n(e, x + s * job->x.stride, j, n, 0.0f));
            v_store_n(e, dx + s * job->out.stride, j, n, v_set(h[s]) * d);
        }
    }
}

SIMD_INLINE void backward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                 int worker)
{
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const int64_t row = t * job->streams;
        const float *h = job->h + row;
        const char *x = row_at(&job->x, row), *dy = row_at(&job->dy, t);
        char *dx = row_at(&job->out, row);
        float sums[MOST_STREAMS * V_PAIR] = {0}; /* a pair of vectors for each stream */
        int64_t j = 0;
        for (; j < v_whole_pairs(job->n); j += V_PAIR) {
            const vf2 d = v_load2(e, e, dy, j);
            v_ahead2(e, dy, j);
            for (int64_t s = 0; s < job->streams; s++) {
                const vf2 by = v_load2(e, e, x + s * job->x.stride, j);
                v_ahead2(e, x + s * job->x.stride, j);
                v_put2(sums + s * V_PAIR,
                       plus(v_get2(sums + s * V_PAIR), (vf2){d.a * by.a, d.b * by.b}));
                v_write2(e, stream, dx + s * job->out.stride, j, times(v_set(h[s]), d));
            }
        }
        backward_part(e, job, h, x, dy, dx, j, job->n, sums);
        for (int64_t s = 0; s < job->streams; s++) {
            const vf2 sum = v_get2(sums + s * V_PAIR);
            job->dh[row + s] = v_sum(sum.a + sum.b);
        }
    }
}

ROWS_CHUNK(backward_chunk, job, backward_tokens);

static tg_status run(tg_ctx *ctx, job *job, const tg_tensor *x, const tg_tensor *out,
                     tg_range_fn chunk)
{
    const streams s = streams_of(x);
    job->x = operand_of(x);
    job->out = operand_of(out);
    job->streams = s.streams;
    job->n = s.rows.n;
    job->type = el_of(x);
    job->stream = rows_stream_aligned(out, x);
    tg_parallel_for(ctx, s.tokens, rows_grain(s.tokens, s.streams * s.rows.n, 1), chunk, job);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_mhc_pre_forward_args *args)
{
    job job = {.h = tg_data(args->h_pre)};
    return run(ctx, &job, args->x, args->y, forward_chunk);
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *args)
{
    job job = {.dy = operand_of(args->dy), .h = tg_data(args->h_pre), .dh = tg_data(args->dh_pre)};
    return run(ctx, &job, args->x, args->dx, backward_chunk);
}

TG_CPU_IMPLS(mhc_pre) = {TG_CPU_IMPL(mhc_pre_forward, forward),
                         TG_CPU_IMPL(mhc_pre_backward, backward), TG_IMPLS_END};
