/* mhc_pre on the CPU: one pass each way over a token's streams, chunk by chunk of columns. */
#include "rows/streams_chunks.h"

typedef struct job {
    operand x, dy, out; /* dy: backward only; out: y or dx */
    const float *h;     /* [tokens, streams] */
    float *dh;          /* backward only */
    float *scratch;     /* ROWS of CHUNK floats a worker */
    int64_t tokens, streams, n;
    int64_t ahead; /* bytes from a row of x to the one to ask for */
    int stream;
    el type;
} job;

/* Of a worker: the streams' chunks, theirs of the gradient, and one of y or dy. */
enum { X, DX = MOST_STREAMS, Y = 2 * MOST_STREAMS, ROWS };

/* The streams' chunk [begin, begin + n) of a token. */
SIMD_INLINE void get_streams(el e, const job *job, int64_t token, int64_t begin, int64_t n,
                             float *x)
{
    for (int64_t s = 0; s < job->streams; s++) {
        const char *row = row_at(&job->x, token * job->streams + s);
        chunk_get(e, row, begin, n, x + s * CHUNK);
        chunk_prefetch(e, row + job->ahead, begin, n);
    }
}

SIMD_INLINE void forward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                int worker)
{
    float *x = job->scratch + worker * ROWS * CHUNK, *y = x + Y * CHUNK;
    for (int64_t t = begin; t < end; t++)
        for (int64_t j = 0; j < job->n; j += CHUNK) {
            const int64_t n = chunk_columns(job->n, j);
            get_streams(e, job, t, j, n, x);
            chunk_combine(y, 1, x, job->streams, job->h + t * job->streams, 0, 1, chunk_width(n));
            chunk_put(e, stream, row_at(&job->out, t), j, n, y);
        }
}

ROWS_CHUNK(forward_chunk, job, forward_tokens);

SIMD_INLINE void backward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                 int worker)
{
    float *x = job->scratch + worker * ROWS * CHUNK, *dx = x + DX * CHUNK, *dy = x + Y * CHUNK;
    for (int64_t t = begin; t < end; t++) {
        float sums[MOST_STREAMS * VL] = {0};
        for (int64_t j = 0; j < job->n; j += CHUNK) {
            const int64_t n = chunk_columns(job->n, j), width = chunk_width(n);
            get_streams(e, job, t, j, n, x);
            chunk_get(e, row_at(&job->dy, t), j, n, dy);
            chunk_products(sums, 1, x, job->streams, dy, 1, width);
            chunk_combine(dx, job->streams, dy, 1, job->h + t * job->streams, 1, 0, width);
            for (int64_t s = 0; s < job->streams; s++)
                chunk_put(e, stream, row_at(&job->out, t * job->streams + s), j, n, dx + s * CHUNK);
        }
        for (int64_t s = 0; s < job->streams; s++)
            job->dh[t * job->streams + s] = v_sum(v_load(EL_F32, sums, s * VL));
    }
}

ROWS_CHUNK(backward_chunk, job, backward_tokens);

static tg_status run(tg_ctx *ctx, job *job, const tg_tensor *x, const tg_tensor *out,
                     tg_range_fn chunk)
{
    const streams s = streams_of(x);
    job->x = operand_of(x);
    job->out = operand_of(out);
    job->tokens = s.tokens;
    job->streams = s.streams;
    job->n = s.rows.n;
    job->type = el_of(x);
    job->stream = rows_stream_aligned(out, x);
    job->ahead = streams_ahead(&s);
    job->scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * ROWS * CHUNK) * sizeof(float));
    if (!job->scratch)
        return TG_ENOMEM;
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
