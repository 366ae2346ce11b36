/* mhc_post_res.cu - y_o = post_o f + sum over i of res_oi x_i, and its gradients. */
#include "mhc_post_res_ring.cuh"

/* post and res of a token; zeros for streams that there are not. */
struct token_factors {
    float post[MOST_STREAMS], res[MOST_STREAMS][MOST_STREAMS];

    __device__ __forceinline__ void read(const post_res_args &a, int64_t t)
    {
        for (int e = (int)threadIdx.x; e < MOST_STREAMS * MOST_STREAMS; e += (int)blockDim.x) {
            const int o = e / MOST_STREAMS, i = e % MOST_STREAMS;
            const bool inside = o < a.streams && i < a.streams;
            res[o][i] = inside ? a.res[(t * a.streams + o) * a.streams + i] : 0;
            if (i == 0)
                post[o] = o < a.streams ? a.post[t * a.streams + o] : 0;
        }
        __syncthreads();
    }
};

template <class T>
__device__ __forceinline__ static void put_group(const row_span &to, int64_t t, int streams,
                                                 int first, int j, int n,
                                                 const float (&y)[GROUP][V<T>])
{
#pragma unroll
    for (int u = 0; u < GROUP; u++)
        if (first + u < streams)
            store(to.row<T>(t * streams + first + u) + j, n - j, narrow<T>(y[u]));
}

/* y of GROUP streams from o on: post f, and behind it res x of streams from i on. */
template <class T>
__device__ __forceinline__ static void begin_group(const token_factors &factors, int o, uint4 raw,
                                                   float (&y)[GROUP][V<T>])
{
    float f[V<T>];
    widen<T>(raw, f);
#pragma unroll
    for (int u = 0; u < GROUP; u++)
#pragma unroll
        for (int e = 0; e < V<T>; e++)
            y[u][e] = factors.post[o + u] * f[e];
}

template <class T>
__device__ __forceinline__ static void add_group(const token_factors &factors, int o, int i,
                                                 int streams, const group_chunks<T> &x,
                                                 float (&y)[GROUP][V<T>])
{
#pragma unroll
    for (int w = 0; w < GROUP; w++) {
        if (i + w >= streams)
            break;
        float of[V<T>];
        widen<T>(x.raw[w], of);
#pragma unroll
        for (int u = 0; u < GROUP; u++)
#pragma unroll
            for (int e = 0; e < V<T>; e++)
                y[u][e] += factors.res[o + u][i + w] * of[e];
    }
}

template <class T>
__global__ void __launch_bounds__(STREAMS_THREADS)
    post_res_kernel(const __grid_constant__ post_res_args a)
{
    __shared__ token_factors factors;
    const int64_t t = blockIdx.x;
    factors.read(a, t);
    for (int o = 0; o < a.streams; o += GROUP)
        for (int j = (int)threadIdx.x * V<T>; j < a.n; j += (int)blockDim.x * V<T>) {
            const uint4 f = load(a.f.row<T>(t) + j, a.n - j);
            float y[GROUP][V<T>];
            for (int i = 0; i < a.streams; i += GROUP) {
                group_chunks<T> x;
                x.read(a.x, t, a.streams, i, j, a.n);
                if (i == 0)
                    begin_group<T>(factors, o, f, y);
                add_group(factors, o, i, a.streams, x, y);
            }
            put_group<T>(a.out, t, a.streams, o, j, a.n, y);
        }
}

/* GROUP streams at most: a thread has one chunk, which is on its way before the factors are. A
 * token has `pieces` blocks. */
template <class T>
__global__ void __launch_bounds__(STREAMS_THREADS, 3)
    post_res_few_kernel(const __grid_constant__ post_res_args a, int pieces)
{
    __shared__ token_factors factors;
    const int64_t t = (int)blockIdx.x / pieces;
    const int j = ((int)blockIdx.x % pieces * (int)blockDim.x + (int)threadIdx.x) * V<T>;
    group_chunks<T> x;
    uint4 f;
    float y[GROUP][V<T>];
    if (j < a.n) {
        x.read(a.x, t, a.streams, 0, j, a.n);
        f = load(a.f.row<T>(t) + j, a.n - j);
    }
    factors.read(a, t);
    if (j >= a.n)
        return;
    begin_group<T>(factors, 0, f, y);
    add_group(factors, 0, 0, a.streams, x, y);
    put_group<T>(a.out, t, a.streams, 0, j, a.n, y);
}

/* ---- backward ---- */

/* Sums of a tile: of each of GROUP streams of dy with f, and with GROUP streams of x. */
enum { TILE = 32, ACROSS = 1 + GROUP };

/* What a chunk adds to them. */
template <class T>
__device__ __forceinline__ static void
add_products(const group_chunks<T> &dy, const group_chunks<T> &x, uint4 f, float (&value)[TILE])
{
#pragma unroll
    for (int u = 0; u < GROUP; u++) {
        float d[V<T>], of[V<T>];
        widen<T>(dy.raw[u], d);
#pragma unroll
        for (int w = 0; w < ACROSS; w++) {
            widen<T>(w == 0 ? f : x.raw[w > 0 ? w - 1 : 0], of);
#pragma unroll
            for (int e = 0; e < V<T>; e++)
                value[u * ACROSS + w] += d[e] * of[e];
        }
    }
}

__device__ __forceinline__ static void put_products(const post_res_args &a, int64_t t, int o, int i,
                                                    const float *total)
{
    const int k = (int)threadIdx.x, stream = o + k / ACROSS, of = i + k % ACROSS - 1;
    if (k >= GROUP * ACROSS || stream >= a.streams || of >= a.streams)
        return;
    if (k % ACROSS > 0)
        a.dres[(t * a.streams + stream) * a.streams + of] = total[k];
    else if (i == 0)
        a.dpost[t * a.streams + stream] = total[k];
}

/* dx of GROUP streams from i on, at a chunk, and with the first of them df. */
template <class T>
__device__ __forceinline__ static void
chunk_gradients(const post_res_args &a, const token_factors &factors, int64_t t, int i, int j)
{
    float dx[GROUP][V<T>] = {}, df[V<T>] = {};
    for (int o = 0; o < a.streams; o += GROUP) {
        group_chunks<T> dy;
        dy.read(a.dy, t, a.streams, o, j, a.n);
#pragma unroll
        for (int w = 0; w < GROUP; w++) {
            if (o + w >= a.streams)
                break;
            float d[V<T>];
            widen<T>(dy.raw[w], d);
#pragma unroll
            for (int e = 0; e < V<T>; e++)
                df[e] += factors.post[o + w] * d[e];
#pragma unroll
            for (int u = 0; u < GROUP; u++)
#pragma unroll
                for (int e = 0; e < V<T>; e++)
                    dx[u][e] += factors.res[o + w][i + u] * d[e];
        }
    }
    put_group<T>(a.out, t, a.streams, i, j, a.n, dx);
    if (i == 0)
        store(a.df.row<T>(t) + j, a.n - j, narrow<T>(df));
}

template <class T>
__global__ void __launch_bounds__(STREAMS_THREADS)
    post_res_gradient_kernel(const __grid_constant__ post_res_args a)
{
    __shared__ token_factors factors;
    __shared__ many_sums<TILE> sums;
    const int64_t t = blockIdx.x;
    const int from = (int)threadIdx.x * V<T>, step = (int)blockDim.x * V<T>;
    factors.read(a, t);
    for (int i = 0; i < a.streams; i += GROUP) {
        for (int j = from; j < a.n; j += step)
            chunk_gradients<T>(a, factors, t, i, j);
        for (int o = 0; o < a.streams; o += GROUP) {
            float value[TILE] = {};
            for (int j = from; j < a.n; j += step) {
                group_chunks<T> dy, x;
                dy.read(a.dy, t, a.streams, o, j, a.n);
                x.read(a.x, t, a.streams, i, j, a.n);
                add_products(dy, x, load(a.f.row<T>(t) + j, a.n - j), value);
            }
            sums(value);
            put_products(a, t, o, i, sums.total);
        }
    }
}

static post_res_args args_of(const tg_tensor *x, const tg_tensor *f, const tg_tensor *post,
                             const tg_tensor *res, const tg_tensor *out)
{
    post_res_args a = {};
    a.x = span_of(x);
    a.f = span_of(f);
    a.out = span_of(out);
    a.post = (const float *)data_of(post);
    a.res = (const float *)data_of(res);
    a.streams = streams_of(x);
    a.n = (int)width_of(x);
    return a;
}

CUDA_OPERATOR(mhc_post_res_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(mhc_post_res_backward, TG_TAKES_FLOATS);

tg_status cuda_mhc_post_res_forward(tg_ctx *ctx, const tg_mhc_post_res_forward_args *args)
{
    const post_res_args a = args_of(args->x, args->f, args->h_post, args->h_res, args->y);
    const tg_tensor *const tensors[] = {args->x, args->f, args->y};
    return over_tokens(
        ctx, "mhc_post_res_forward", args->x, tensors,
        [&](const cuda_call &call, auto e, int threads) {
            using T = decltype(e);
            const int tokens = (int)tokens_of(args->x), pieces = pieces_of<T>(args->x, threads);
            if (pieces)
                post_res_few_kernel<T><<<tokens * pieces, threads, 0, call.stream>>>(a, pieces);
            else
                post_res_kernel<T><<<tokens, threads, 0, call.stream>>>(a);
        });
}

tg_status cuda_mhc_post_res_backward(tg_ctx *ctx, const tg_mhc_post_res_backward_args *args)
{
    post_res_args a = args_of(args->x, args->f, args->h_post, args->h_res, args->dx);
    a.dy = span_of(args->dy);
    a.df = span_of(args->df);
    a.dpost = (float *)data_of(args->dh_post);
    a.dres = (float *)data_of(args->dh_res);
    const tg_tensor *const tensors[] = {args->x, args->f, args->dy, args->dx, args->df};
    return over_tokens(ctx, "mhc_post_res_backward", args->x, tensors,
                       [&](const cuda_call &call, auto e, int threads) {
                           using T = decltype(e);
                           const int64_t tokens = tokens_of(args->x);
                           const ring_shape s =
                               streams_ring_of<T, post_res_board>(call, args->x, 2 * a.streams + 1);
                           if (s.stages == 0)
                               post_res_gradient_kernel<T>
                                   <<<(unsigned)tokens, threads, 0, call.stream>>>(a);
                           else if constexpr (element<T>::WHOLE)
                               launch_ring(call, s, post_res_ring_kernel<T>, a, s, tokens);
                       });
}
