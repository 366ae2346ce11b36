/* streams.cuh - tokens of several residual streams: tensors [..,S,C], of which token t has rows t S
 * to t S + S - 1. A block of threads takes a token, and of its streams GROUP at a time. */
#ifndef CUDA_STREAMS_CUH
#define CUDA_STREAMS_CUH

#include "rows/many_sums.cuh"

enum { MOST_STREAMS = 16, GROUP = 4, STREAMS_THREADS = 256 };

/* The chunks at element j of streams [first, first + GROUP) of a token; zeros for streams that
 * there are not. All are on their way before the first is looked at. */
template <class T> struct group_chunks {
    uint4 raw[GROUP];

    __device__ __forceinline__ void read(const row_span &x, int64_t token, int streams, int first,
                                         int j, int n)
    {
#pragma unroll
        for (int u = 0; u < GROUP; u++)
            raw[u] = first + u < streams ? load(x.row<T>(token * streams + first + u) + j, n - j)
                                         : make_uint4(0, 0, 0, 0);
    }
};

/* ---- the host's side ---- */

static inline int streams_of(const tg_tensor *x)
{
    return (int)x->shape[x->ndim - 2];
}

static inline int64_t tokens_of(const tg_tensor *x)
{
    return rows_of(x) / streams_of(x);
}

/* Threads of a block: whole warps, as many as a row has chunks, or STREAMS_THREADS. */
template <class T> static inline int threads_over(int64_t n)
{
    const int64_t chunks = ceil_div(n, V<T>);
    return (int)min_of(ceil_div(chunks > 0 ? chunks : 1, 32) * 32, STREAMS_THREADS);
}

/* Blocks of a token with a thread for each of its chunks; 0: it has too many streams for that, or
 * nothing to do. */
template <class T> static inline int pieces_of(const tg_tensor *x, int threads)
{
    const int64_t pieces = ceil_div(width_of(x), threads * V<T>);
    return streams_of(x) <= GROUP && tokens_of(x) * pieces <= INT32_MAX ? (int)pieces : 0;
}

static inline tg_status check_streams(const char *op, const tg_tensor *x)
{
    return width_of(x) <= INT32_MAX / 2 && tokens_of(x) <= INT32_MAX
               ? TG_OK
               : cuda_host->fail(
                     TG_EUNSUPPORTED, "%s: %lld tokens of %lld columns, expected %d of %d at most",
                     op, (long long)tokens_of(x), (long long)width_of(x), INT32_MAX, INT32_MAX / 2);
}

/* A call with a block for each token of x: run(call, T(), threads), by the layout of all
 * tensors. */
template <int N, class F>
static tg_status over_tokens(tg_ctx *ctx, const char *op, const tg_tensor *x,
                             const tg_tensor *const (&tensors)[N], const F &run)
{
    cuda_call call;
    tg_status status = check_streams(op, x);
    if (status == TG_OK)
        status = cuda_begin(&call, ctx, op, x);
    if (status != TG_OK)
        return status;
    if (tokens_of(x) > 0)
        by_layout(tensors, [&](auto e) { run(call, e, threads_over<decltype(e)>(width_of(x))); });
    return cuda_end(&call, TG_OK);
}

#endif
