/* mhc_post_res on the CPU: one pass each way over a token's streams, chunk by chunk of columns. */
#include "rows/streams_chunks.h"

typedef struct job {
    operand x, f, dy, out, df;         /* dy, df: backward only; out: y or dx */
    const float *post, *res;           /* [tokens, streams], [tokens, streams, streams] */
    float *dpost, *dres;               /* backward only */
    float *scratch;                    /* ROWS of CHUNK floats a worker */
    int64_t tokens, streams, n, ahead; /* ahead: bytes from a row of x to the one to ask for */
    int64_t dy_ahead;
    int stream;
    el type;
} job;

/* Of a worker: f and the streams' chunks beside each other, those of dy, and those that leave. */
enum { F, X, DY = X + MOST_STREAMS, OUT = DY + MOST_STREAMS, ROWS = OUT + MOST_STREAMS };

/* A stream more than there may be: f stands before the streams. */
enum { MOST_FACTORS = MOST_STREAMS * (MOST_STREAMS + 1) };

SIMD_INLINE void get_rows(el e, const operand *from, int64_t first, int64_t count, int64_t ahead,
                          int64_t begin, int64_t n, float *to)
{
    for (int64_t s = 0; s < count; s++) {
        const char *row = row_at(from, first + s);
        chunk_get(e, row, begin, n, to + s * CHUNK);
        chunk_prefetch(e, row + ahead, begin, n);
    }
}

SIMD_INLINE void put_rows(el e, int stream, const operand *to, int64_t first, int64_t count,
                          int64_t begin, int64_t n, const float *from)
{
    for (int64_t s = 0; s < count; s++)
        chunk_put(e, stream, row_at(to, first + s), begin, n, from + s * CHUNK);
}

/* [h_post_o, h_res_o1, ...] of each stream o: what goes with f and the streams. */
SIMD_INLINE void factors_of(const job *job, int64_t token, float *factor)
{
    const int64_t streams = job->streams;
    for (int64_t o = 0; o < streams; o++) {
        factor[o * (streams + 1)] = job->post[token * streams + o];
        memcpy(factor + o * (streams + 1) + 1, job->res + (token * streams + o) * streams,
               (size_t)streams * sizeof *factor);
    }
}

SIMD_INLINE void forward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                int worker)
{
    float *f = job->scratch + worker * ROWS * CHUNK, *x = f + X * CHUNK, *y = f + OUT * CHUNK;
    const int64_t streams = job->streams;
    float factor[MOST_FACTORS];
    for (int64_t t = begin; t < end; t++) {
        factors_of(job, t, factor);
        for (int64_t j = 0; j < job->n; j += CHUNK) {
            const int64_t n = chunk_columns(job->n, j);
            get_rows(e, &job->f, t, 1, 0, j, n, f);
            get_rows(e, &job->x, t * streams, streams, job->ahead, j, n, x);
            chunk_combine(y, streams, f, streams + 1, factor, streams + 1, 1, chunk_width(n));
            put_rows(e, stream, &job->out, t * streams, streams, j, n, y);
        }
    }
}

ROWS_CHUNK(forward_chunk, job, forward_tokens);

/* The gradients of a chunk; what it adds to the products of dy with f and x. */
SIMD_INLINE void backward_chunk_of(el e, int stream, const job *job, int64_t t, int64_t j,
                                   const float *factor, float *scratch, float *sums)
{
    const int64_t streams = job->streams, n = chunk_columns(job->n, j), width = chunk_width(n);
    float *f = scratch, *x = f + X * CHUNK, *dy = f + DY * CHUNK, *out = f + OUT * CHUNK;
    get_rows(e, &job->f, t, 1, 0, j, n, f);
    get_rows(e, &job->x, t * streams, streams, job->ahead, j, n, x);
    get_rows(e, &job->dy, t * streams, streams, job->dy_ahead, j, n, dy);
    chunk_products(sums, streams + 1, dy, streams, f, streams + 1, width);
    chunk_combine(out, streams, dy, streams, factor + 1, 1, streams + 1, width);
    put_rows(e, stream, &job->out, t * streams, streams, j, n, out);
    chunk_combine(out, 1, dy, streams, factor, 1, streams + 1, width);
    put_rows(e, stream, &job->df, t, 1, j, n, out);
}

SIMD_INLINE void backward_tokens(el e, int stream, const job *job, int64_t begin, int64_t end,
                                 int worker)
{
    float *scratch = job->scratch + worker * ROWS * CHUNK;
    const int64_t streams = job->streams;
    float factor[MOST_FACTORS], sums[MOST_FACTORS * VL];
    for (int64_t t = begin; t < end; t++) {
        factors_of(job, t, factor);
        memset(sums, 0, sizeof sums[0] * (size_t)(streams * (streams + 1) * VL));
        for (int64_t j = 0; j < job->n; j += CHUNK)
            backward_chunk_of(e, stream, job, t, j, factor, scratch, sums);
        for (int64_t o = 0; o < streams; o++) {
            const float *row = sums + o * (streams + 1) * VL;
            job->dpost[t * streams + o] = v_sum(v_load(EL_F32, row, 0));
            for (int64_t i = 0; i < streams; i++)
                job->dres[(t * streams + o) * streams + i] =
                    v_sum(v_load(EL_F32, row, (i + 1) * VL));
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
    job->tokens = s.tokens;
    job->streams = s.streams;
    job->n = s.rows.n;
    job->type = el_of(x);
    job->stream = rows_stream_aligned(out, x) && job->stream;
    job->ahead = streams_ahead(&s);
    job->scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * ROWS * CHUNK) * sizeof(float));
    if (!job->scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, s.tokens, rows_grain(s.tokens, s.streams * s.rows.n, 1), chunk, job);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_mhc_post_res_forward_args *args)
{
    job job = {.f = operand_of(args->f),
               .post = tg_data(args->h_post),
               .res = tg_data(args->h_res),
               .stream = 1};
    return run(ctx, &job, args->x, args->y, forward_chunk);
}

static tg_status backward(tg_ctx *ctx, const tg_mhc_post_res_backward_args *args)
{
    const streams dy = streams_of(args->dy);
    job job = {.f = operand_of(args->f),
               .dy = operand_of(args->dy),
               .df = operand_of(args->df),
               .post = tg_data(args->h_post),
               .res = tg_data(args->h_res),
               .dpost = tg_data(args->dh_post),
               .dres = tg_data(args->dh_res),
               .dy_ahead = streams_ahead(&dy),
               .stream = v_streamable2(el_of(args->df), tg_data(args->df)) &&
                         tg_rows_of(args->df).stride % V_PAIR == 0};
    return run(ctx, &job, args->x, args->dx, backward_chunk);
}

TG_CPU_IMPLS(mhc_post_res) = {TG_CPU_IMPL(mhc_post_res_forward, forward),
                              TG_CPU_IMPL(mhc_post_res_backward, backward), TG_IMPLS_END};
