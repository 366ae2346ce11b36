/* layer_norm.cu - y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(mean((x - mean)^2) + eps). */
#include "rows/backward.cuh"

struct forward_args {
    row_span x, y;
    vector_span weight, bias;
    float *mean, *rstd;
    int64_t rows;
    int n, lanes;
    float eps, share; /* share: 1 / n */
};

template <class T, int K> struct forward_rows {
    typedef row_stream<T, K, 1, ARE_FEW<K> ? ROWS_AHEAD : 0> stream;
    typedef held_vector<T, K> vector;
    static constexpr int CHUNKS = stream::CHUNKS + 2 * vector::CHUNKS;
};

/* v less the mean; what lies outside of the row stays 0. */
template <class T>
__device__ __forceinline__ static void center(float (&v)[V<T>], float mean, int j, int n)
{
    const float of_chunk = j < n ? mean : 0;
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        v[i] -= element<T>::WHOLE || is_inside<T>(j + i, n) ? of_chunk : 0;
}

template <class T, int K>
__global__ void __launch_bounds__(ARE_FEW<K> ? STREAM_THREADS : MOST_LANES, ARE_FEW<K> ? 2 : 1)
    layer_norm_kernel(const forward_args a)
{
    typedef forward_rows<T, K> rows;
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    t.shift = shift_of(t, a.x.row<T>(t.first));
    typename rows::stream xs;
    typename rows::vector weight, bias;
    uint4 *const vectors = chunks + rows::stream::CHUNKS * blockDim.x;
    xs.from[0] = a.x;
    xs.begin(t, a.rows, a.n, chunks);
    weight.begin(a.weight, t, a.n, 1, 0, vectors);
    bias.begin(a.bias, t, a.n, 0, 0, vectors + rows::vector::CHUNKS * blockDim.x);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *const x = a.x.row<T>(r);
        T *const y = a.y.row<T>(r);
        float sum[1] = {0}, squares[1] = {0};
        xs.step(t, r, a.rows, a.n);
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                sum[0] += v[i];
        });
        t.sum(sum);
        xs.now[0].renew();
        const float mean = sum[0] * a.share;
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
            center<T>(v, mean, j, a.n);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                squares[0] += v[i] * v[i];
        });
        t.sum(squares);
        xs.now[0].renew();
        const float rstd = rsqrtf(squares[0] * a.share + a.eps);
        if (a.mean && t.lane == 0)
            a.mean[r] = mean;
        if (a.rstd && t.lane == 0)
            a.rstd[r] = rstd;
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>], w[V<T>], b[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
            center<T>(v, mean, j, a.n);
            weight.chunk(a.weight, k, j, a.n, 1, 0, w);
            bias.chunk(a.bias, k, j, a.n, 0, 0, b);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] = v[i] * rstd * w[i] + b[i];
            store_chunk(y, j, a.n, v);
        });
    }
}

CUDA_OPERATOR(layer_norm_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(layer_norm_backward, TG_TAKES_FLOATS);

tg_status cuda_layer_norm_forward(tg_ctx *ctx, const tg_layer_norm_forward_args *args)
{
    forward_args a;
    a.x = span_of(args->x);
    a.y = span_of(args->y);
    a.weight = vector_of(args->weight);
    a.bias = vector_of(args->bias);
    a.mean = (float *)data_of(args->mean);
    a.rstd = (float *)data_of(args->rstd);
    a.rows = rows_of(args->x);
    a.n = (int)width_of(args->x);
    a.share = 1 / (float)a.n;
    a.eps = (float)args->eps;
    const tg_tensor *const tensors[] = {args->x, args->y, args->weight, args->bias};
    return run_forward(ctx, "layer_norm_forward", tensors, a, [](auto e) {
        using T = decltype(e);
        return row_kernels<forward_args>{
            {layer_norm_kernel<T, FEW>, forward_rows<T, FEW>::CHUNKS},
            {layer_norm_kernel<T, HELD>, 0},
            layer_norm_kernel<T, 0>,
            {layer_norm_kernel<T, SOME_OF<T>>, forward_rows<T, SOME_OF<T>>::CHUNKS}};
    });
}

/* dx = rstd (m - normal mean(m normal) - mean(m)), m = dy weight, normal = (x - mean) rstd; dweight
 * = sum over rows of dy normal, dbias = sum over rows of dy */
struct layer_norm_gradient {
    enum { SUMS = 2, COLUMNS = 2, SCALARS = 0, OWN = 0, THIRD = 0, WEIGHT = 1 };
    const float *mean, *rstd;
    float share; /* 1 / n */

    struct state {
        float mean, rstd, product, sum;
    };
    __device__ __forceinline__ state begin(int64_t row) const
    {
        return state{mean[row], rstd[row], 0, 0};
    }
    __device__ __forceinline__ float normal(const state &s, float x) const
    {
        return (x - s.mean) * s.rstd;
    }
    __device__ __forceinline__ void sum(float m, float normal, float (&sums)[2]) const
    {
        sums[0] += m * normal;
        sums[1] += m;
    }
    __device__ __forceinline__ void finish(state &s, const float (&sums)[2]) const
    {
        s.product = sums[0] * share;
        s.sum = sums[1] * share;
    }
    __device__ __forceinline__ float gradient(const state &s, float m, float normal) const
    {
        return s.rstd * (m - normal * s.product - s.sum);
    }
    template <int N>
    __device__ __forceinline__ void columns(const float (&dy)[N], const float (&normal)[N],
                                            float (&part)[2][N]) const
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            part[0][i] += dy[i] * normal[i];
            part[1][i] += dy[i];
        }
    }
};

tg_status cuda_layer_norm_backward(tg_ctx *ctx, const tg_layer_norm_backward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "layer_norm_backward", args->dy);
    if (status != TG_OK)
        return status;
    backward_args a = backward_of(args->dy, args->x, args->dx);
    a.weight = vector_of(args->weight);
    const tg_tensor *const columns[] = {args->dweight, args->dbias};
    const tg_tensor *const tensors[] = {args->x, args->dy, args->dx, args->weight};
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        const layer_norm_gradient f = {(const float *)data_of(args->mean),
                                       (const float *)data_of(args->rstd), 1 / (float)a.n};
        status =
            backward_rows<layer_norm_gradient, T>(call, f, a, columns, NULL, (int)args->accumulate);
    });
    return cuda_end(&call, status);
}
