/* mhc_pre.cu - y = sum over streams of h x; dx = h dy, dh = sum over columns of dy x. */
#include "streams.cuh"

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
            pre_kernel<decltype(e)><<<(unsigned)tokens_of(args->x), threads, 0, call.stream>>>(a);
        });
}

tg_status cuda_mhc_pre_backward(tg_ctx *ctx, const tg_mhc_pre_backward_args *args)
{
    pre_args a = args_of(args->x, args->h_pre, args->dx);
    a.dy = span_of(args->dy);
    a.dh = (float *)data_of(args->dh_pre);
    const tg_tensor *const tensors[] = {args->x, args->dy, args->dx};
    return over_tokens(ctx, "mhc_pre_backward", args->x, tensors,
                       [&](const cuda_call &call, auto e, int threads) {
                           pre_gradient_kernel<decltype(e)>
                               <<<(unsigned)tokens_of(args->x), threads, 0, call.stream>>>(a);
                       });
}
