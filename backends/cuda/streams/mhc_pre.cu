/* mhc_pre.cu - y = sum over streams of h x; dx = h dy, dh = sum over columns of dy x. */
#include "streams_ring.cuh"

struct pre_args {
    row_span x, dy, out; /* dy: backward; out: y or dx */
    const float *h;      /* [tokens, streams] */
    float *dh;           /* backward */
    int streams, n;
};

template <class T>
__global__ void __launch_bounds__(STREAMS_THREADS) pre_kernel(const __grid_constant__ pre_args a)
{
    const int64_t t = blockIdx.x;
    for (int j = (int)threadIdx.x * V<T>; j < a.n; j += (int)blockDim.x * V<T>) {
        float y[V<T>] = {};
        for (int s = 0; s < a.streams; s += GROUP) {
            group_chunks<T> x;
            x.read(a.x, t, a.streams, s, j, a.n);
#pragma unroll
            for (int u = 0; u < GROUP; u++) {
                if (s + u >= a.streams)
                    break;
                const float h = __ldg(a.h + t * a.streams + s + u);
                float of[V<T>];
                widen<T>(x.raw[u], of);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    y[i] += h * of[i];
            }
        }
        store(a.out.row<T>(t) + j, a.n - j, narrow<T>(y));
    }
}

/* GROUP streams at most: a thread has one chunk, a token `pieces` blocks. */
template <class T>
__global__ void __launch_bounds__(STREAMS_THREADS)
    pre_few_kernel(const __grid_constant__ pre_args a, int pieces)
{
    const int64_t t = (int)blockIdx.x / pieces;
    const int j = ((int)blockIdx.x % pieces * (int)blockDim.x + (int)threadIdx.x) * V<T>;
    group_chunks<T> x;
    float h[GROUP], y[V<T>] = {};
    if (j >= a.n)
        return;
    x.read(a.x, t, a.streams, 0, j, a.n);
#pragma unroll
    for (int u = 0; u < GROUP; u++)
        h[u] = u < a.streams ? __ldg(a.h + t * a.streams + u) : 0;
#pragma unroll
    for (int u = 0; u < GROUP; u++) {
        if (u >= a.streams)
            break;
        float of[V<T>];
        widen<T>(x.raw[u], of);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            y[i] += h[u] * of[i];
    }
    store(a.out.row<T>(t) + j, a.n - j, narrow<T>(y));
}

template <class T>
__global__ void __launch_bounds__(STREAMS_THREADS)
    pre_gradient_kernel(const __grid_constant__ pre_args a)
{
    __shared__ many_sums<GROUP> sums;
    const int64_t t = blockIdx.x;
    for (int s = 0; s < a.streams; s += GROUP) {
        float value[GROUP] = {};
        for (int j = (int)threadIdx.x * V<T>; j < a.n; j += (int)blockDim.x * V<T>) {
            group_chunks<T> x;
            float dy[V<T>];
            x.read(a.x, t, a.streams, s, j, a.n);
            widen<T>(load(a.dy.row<T>(t) + j, a.n - j), dy);
#pragma unroll
            for (int u = 0; u < GROUP; u++) {
                if (s + u >= a.streams)
                    break;
                const float h = __ldg(a.h + t * a.streams + s + u);
                float of[V<T>];
                widen<T>(x.raw[u], of);
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    value[u] += dy[i] * of[i];
                    of[i] = h * dy[i];
                }
                store(a.out.row<T>(t * a.streams + s + u) + j, a.n - j, narrow<T>(of));
            }
        }
        sums(value);
        if (threadIdx.x < GROUP && s + (int)threadIdx.x < a.streams)
            a.dh[t * a.streams + s + threadIdx.x] = sums.total[threadIdx.x];
    }
}

/* ---- backward of GROUP streams at most, whose rows are read once ---- */

typedef streams_board<GROUP, GROUP> pre_board;

/* A stream's chunk of dx; what it adds to dh. */
template <class T>
__device__ __forceinline__ static uint4 pre_gradient(uint4 raw, const float (&dy)[V<T>], float h,
                                                     float &sum)
{
    float x[V<T>];
    widen<T>(raw, x);
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        sum += dy[i] * x[i];
        x[i] = h * dy[i];
    }
    return narrow<T>(x);
}

template <class T>
__global__ void __launch_bounds__(RING_THREADS, 1)
    pre_ring_kernel(const __grid_constant__ pre_args a, const ring_shape s, int64_t tokens)
{
    extern __shared__ uint4 memory[];
    const int streams = a.streams;
    const streams_source<T> source = {a.x, a.dy, {NULL, 0}, streams};
    pre_board &board = *(pre_board *)memory;
    streams_ring<T> ring(source, s, memory + sizeof board / 16, streams + 1, a.n, tokens);
    const auto factor_of = [&](int u, int64_t t) { return u < streams ? a.h[t * streams + u] : 0; };
    const auto work = [&](int64_t t, int turn) {
        float sum[GROUP] = {};
        for (int k = 0, j = ring.first(); j < a.n; k++, j += ring.step()) {
            float dy[V<T>];
            ring.chunk(streams, k, dy);
            ring.replace(streams, k, j, t);
#pragma unroll
            for (int u = 0; u < GROUP; u++)
                if (u < streams) {
                    const uint4 raw = ring.raw(u, k);
                    ring.replace(u, k, j, t);
                    store(a.out.row<T>(t * streams + u) + j, a.n - j,
                          pre_gradient<T>(raw, dy, board.factor[turn][u], sum[u]));
                }
        }
        board.put(turn, 0, sum);
    };
    over_ring(ring, board, factor_of, work, [&](int u, int64_t t, float sum) {
        if (u < streams)
            a.dh[t * streams + u] = sum;
    });
}

static pre_args args_of(const tg_tensor *x, const tg_tensor *h, const tg_tensor *out)
{
    pre_args a = {};
    a.x = span_of(x);
    a.out = span_of(out);
    a.h = (const float *)data_of(h);
    a.streams = streams_of(x);
    a.n = (int)width_of(x);
    return a;
}

CUDA_OPERATOR(mhc_pre_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(mhc_pre_backward, TG_TAKES_FLOATS);

tg_status cuda_mhc_pre_forward(tg_ctx *ctx, const tg_mhc_pre_forward_args *args)
{
    const pre_args a = args_of(args->x, args->h_pre, args->y);
    const tg_tensor *const tensors[] = {args->x, args->y};
    return over_tokens(
        ctx, "mhc_pre_forward", args->x, tensors, [&](const cuda_call &call, auto e, int threads) {
            using T = decltype(e);
            const int tokens = (int)tokens_of(args->x), pieces = pieces_of<T>(args->x, threads);
            if (pieces)
                pre_few_kernel<T><<<tokens * pieces, threads, 0, call.stream>>>(a, pieces);
            else
                pre_kernel<T><<<tokens, threads, 0, call.stream>>>(a);
        });
}

tg_status cuda_mhc_pre_backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *args)
{
    pre_args a = args_of(args->x, args->h_pre, args->dx);
    a.dy = span_of(args->dy);
    a.dh = (float *)data_of(args->dh_pre);
    const tg_tensor *const tensors[] = {args->x, args->dy, args->dx};
    return over_tokens(
        ctx, "mhc_pre_backward", args->x, tensors, [&](const cuda_call &call, auto e, int threads) {
            using T = decltype(e);
            const int64_t tokens = tokens_of(args->x);
            const ring_shape s = streams_ring_of<T, pre_board>(call, args->x, a.streams + 1);
            if (s.stages == 0)
                pre_gradient_kernel<T><<<(unsigned)tokens, threads, 0, call.stream>>>(a);
            else if constexpr (element<T>::WHOLE)
                launch_ring(call, s, pre_ring_kernel<T>, a, s, tokens);
        });
}
