/* softmax.cu - y = exp(x - max) / sum of exp(x - max) */
#include "rows/backward.cuh"

struct forward_args {
    row_span x, y;
    int64_t rows;
    int n, lanes;
};

/* e^x of a row that the threads hold, times 2^ABOVE: what lies far below the largest element then
 * is no subnormal number before it is divided by the sum. f32 keeps the digits that this would
 * cost. */
template <class T> constexpr float ABOVE = sizeof(T) == 4 ? 0 : 100;

template <class T> __device__ __forceinline__ static float raised_exp(float x, float max)
{
    constexpr float log2e = 1.44269504088896341f;
    return ABOVE<T> == 0 ? exp_of(x - max) : exp2_term((x - max) * log2e + ABOVE<T>);
}

/* A row that the threads hold: its largest element, then the exponentials, which are kept. */
template <class T, int K>
__device__ __forceinline__ static void held_softmax(const forward_args &a, team &t,
                                                    const held_row<T, K> &xs, T *y)
{
    float e[K][V<T>], max[1] = {-CUDART_INF_F}, sum[1] = {0};
    for_chunks<T, K>(t, a.n, [&](int k, int) {
        widen<T>(xs.raw[k], e[k]);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            max[0] = fmaxf(max[0], e[k][i]);
    });
    t.reduce(max, larger());
    for_chunks<T, K>(t, a.n, [&](int k, int) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            e[k][i] = raised_exp<T>(e[k][i], max[0]);
            sum[0] += e[k][i];
        }
    });
    t.sum(sum);
    const float share = 1 / sum[0];
    for_chunks<T, K>(t, a.n, [&](int k, int j) {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            e[k][i] *= share;
        store_chunk(y, j, a.n, e[k]);
    });
}

/* A wide row is read twice: first each thread keeps its own largest element, and its sum relative
 * to that. Both begin so that an element of -inf adds nothing, and a row of -inf alone has the sum
 * 0 and becomes NaN. */
template <class T>
__device__ __forceinline__ static void walked_softmax(const forward_args &a, team &t, const T *x,
                                                      T *y)
{
    float own = -CUDART_MAX_NORMAL_F, sum[1] = {0};
    for_chunks<T, 0>(t, a.n, [&](int, int j) {
        float v[V<T>], before = own;
        widen<T>(load_chunk(x, j, a.n, MINUS_INFINITY<T>), v);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            own = fmaxf(own, v[i]);
        if (own > before)
            sum[0] *= expf(before - own);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum[0] += exp_term(v[i] - own);
    });
    float max[1] = {own};
    t.reduce(max, larger());
    sum[0] *= expf(own - max[0]);
    t.sum(sum);
    const float share = 1 / sum[0];
    for_chunks<T, 0>(t, a.n, [&](int, int j) {
        float v[V<T>];
        widen<T>(load_chunk(x, j, a.n), v);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            v[i] = exp_of(v[i] - max[0]) * share;
        store_chunk(y, j, a.n, v);
    });
}

template <class T, int K>
__global__ void __launch_bounds__(K == FEW ? STREAM_THREADS : MOST_LANES, K == FEW ? 2 : 1)
    softmax_kernel(const forward_args a)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    t.shift = shift_of(t, a.x.row<T>(t.first));
    row_stream<T, K, 1> xs;
    xs.from[0] = a.x;
    xs.begin(t, a.rows, a.n, chunks, MINUS_INFINITY<T>);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        xs.step(t, r, a.rows, a.n);
        if constexpr (K > 0)
            held_softmax<T, K>(a, t, xs.now[0], a.y.row<T>(r));
        else
            walked_softmax<T>(a, t, a.x.row<T>(r), a.y.row<T>(r));
    }
}

CUDA_OPERATOR(softmax_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(softmax_backward, TG_TAKES_FLOATS);

tg_status cuda_softmax_forward(tg_ctx *ctx, const tg_softmax_forward_args *args)
{
    forward_args a;
    a.x = span_of(args->x);
    a.y = span_of(args->y);
    a.rows = rows_of(args->x);
    a.n = (int)width_of(args->x);
    const tg_tensor *const tensors[] = {args->x, args->y};
    return run_forward(ctx, "softmax_forward", tensors, a, [](auto e) {
        using T = decltype(e);
        return row_kernels<forward_args>{{softmax_kernel<T, FEW>, row_stream<T, FEW, 1>::CHUNKS},
                                         {softmax_kernel<T, HELD>, row_stream<T, HELD, 1>::CHUNKS},
                                         softmax_kernel<T, 0>};
    });
}

/* dx = y (dy - sum of y dy) */
struct softmax_gradient {
    enum { SUMS = 1, COLUMNS = 0, SCALARS = 0, OWN = 0, THIRD = 0, WEIGHT = 0 };
    typedef float state;
    __device__ __forceinline__ state begin(int64_t) const
    {
        return 0;
    }
    __device__ __forceinline__ float normal(const state &, float y) const
    {
        return y;
    }
    __device__ __forceinline__ void sum(float dy, float y, float (&sums)[1]) const
    {
        sums[0] += y * dy;
    }
    __device__ __forceinline__ void finish(state &s, const float (&sums)[1]) const
    {
        s = sums[0];
    }
    __device__ __forceinline__ float gradient(const state &s, float dy, float y) const
    {
        return y * (dy - s);
    }
};

tg_status cuda_softmax_backward(tg_ctx *ctx, const tg_softmax_backward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "softmax_backward", args->dy);
    if (status != TG_OK)
        return status;
    const backward_args a = backward_of(args->dy, args->y, args->dx);
    const tg_tensor *const tensors[] = {args->y, args->dy, args->dx};
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        status = backward_rows<softmax_gradient, T>(call, softmax_gradient(), a, NULL, NULL, 0);
    });
    return cuda_end(&call, status);
}
