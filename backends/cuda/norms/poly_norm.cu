/* poly_norm.cu - y = w3 r3 x^3 + w2 r2 x^2 + w1 r1 x + bias, r_p = 1 / sqrt(mean(x^(2p)) + eps);
 * weight and rstd hold what belongs to x^3, x^2, x, in this order. */
#include "rows/backward.cuh"

struct forward_args {
    row_span x, y;
    vector_span weight, bias;
    float *rstd; /* three a row */
    int64_t rows;
    int n, lanes;
    float eps, share; /* share: 1 / n */
};

template <class T, int K>
__global__ void __launch_bounds__(K == FEW ? STREAM_THREADS : MOST_LANES, K == FEW ? 2 : 1)
    poly_norm_kernel(const forward_args a)
{
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    t.shift = shift_of(t, a.x.row<T>(t.first));
    row_stream<T, K, 1, K == FEW ? ROWS_AHEAD : 0> xs;
    float w[3];
    xs.from[0] = a.x;
    xs.begin(t, a.rows, a.n, chunks);
#pragma unroll
    for (int k = 0; k < 3; k++)
        w[k] = get<T>(a.weight, k);
    const float bias = get<T>(a.bias, 0);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *const x = a.x.row<T>(r);
        T *const y = a.y.row<T>(r);
        float powers[3] = {0, 0, 0},
              c[3]; /* sums of sixth, fourth and second powers; coefficients */
        xs.step(t, r, a.rows, a.n);
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                const float square = v[i] * v[i], fourth = square * square;
                powers[0] += fourth * square;
                powers[1] += fourth;
                powers[2] += square;
            }
        });
        t.sum(powers);
#pragma unroll
        for (int k = 0; k < 3; k++) {
            const float rstd = rsqrtf(powers[k] * a.share + a.eps);
            if (a.rstd && t.lane == 0)
                a.rstd[3 * r + k] = rstd;
            c[k] = w[k] * rstd;
        }
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] = ((c[0] * v[i] + c[1]) * v[i] + c[2]) * v[i] + bias;
            store_chunk(y, j, a.n, v);
        });
    }
}

CUDA_OPERATOR(poly_norm_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(poly_norm_backward, TG_TAKES_FLOATS);

tg_status cuda_poly_norm_forward(tg_ctx *ctx, const tg_poly_norm_forward_args *args)
{
    forward_args a;
    a.x = span_of(args->x);
    a.y = span_of(args->y);
    a.weight = vector_of(args->weight);
    a.bias = vector_of(args->bias);
    a.rstd = (float *)data_of(args->rstd);
    a.rows = rows_of(args->x);
    a.n = (int)width_of(args->x);
    a.share = 1 / (float)a.n;
    a.eps = (float)args->eps;
    const tg_tensor *const tensors[] = {args->x, args->y};
    return run_forward(ctx, "poly_norm_forward", tensors, a, [](auto e) {
        using T = decltype(e);
        return row_kernels<forward_args>{{poly_norm_kernel<T, FEW>, row_stream<T, FEW, 1>::CHUNKS},
                                         {poly_norm_kernel<T, HELD>, 0},
                                         poly_norm_kernel<T, 0>};
    });
}

/* With S_p = sum over the row of dy x^p: dx = dy A(x) - x B(x^2), A(x) = sum over p of p w_p r_p
 * x^(p-1), B(x^2) = sum over p of p w_p r_p^3 S_p / n x^(2p-2); dweight_p = sum over rows of r_p
 * S_p, dbias = sum of dy */
template <class T> struct poly_norm_gradient {
    enum { SUMS = 3, COLUMNS = 0, SCALARS = 4, OWN = 1, THIRD = 0, WEIGHT = 0 };
    const float *rstd;
    vector_span weight;
    float share; /* 1 / n */

    struct state {
        float rstd[3], along[3], back[3];
    };
    __device__ __forceinline__ state begin(int64_t row) const
    {
        return state{{rstd[3 * row], rstd[3 * row + 1], rstd[3 * row + 2]}, {}, {}};
    }
    __device__ __forceinline__ float normal(const state &, float x) const
    {
        return x;
    }
    __device__ __forceinline__ void sum(float dy, float x, float (&sums)[3]) const
    {
        const float first = dy * x, second = first * x;
        sums[0] += second * x;
        sums[1] += second;
        sums[2] += first;
    }
    __device__ __forceinline__ void own(float dy, float, float (&sum)[1]) const
    {
        sum[0] += dy;
    }
    __device__ __forceinline__ void finish(state &s, const float (&sums)[3]) const
    {
#pragma unroll
        for (int k = 0; k < 3; k++) {
            s.along[k] = (3 - k) * get<T>(weight, k) * s.rstd[k];
            s.back[k] = s.along[k] * (s.rstd[k] * s.rstd[k] * (sums[k] * share));
        }
    }
    __device__ __forceinline__ void scalars(const state &s, const float (&sums)[3],
                                            double (&total)[4]) const
    {
#pragma unroll
        for (int k = 0; k < 3; k++)
            total[k] += (double)s.rstd[k] * sums[k];
    }
    __device__ __forceinline__ float gradient(const state &s, float dy, float x) const
    {
        const float square = x * x;
        return dy * ((s.along[0] * x + s.along[1]) * x + s.along[2]) -
               x * ((s.back[0] * square + s.back[1]) * square + s.back[2]);
    }
};

tg_status cuda_poly_norm_backward(tg_ctx *ctx, const tg_poly_norm_backward_args *args)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, "poly_norm_backward", args->dy);
    if (status != TG_OK)
        return status;
    const backward_args a = backward_of(args->dy, args->x, args->dx);
    const vector_span dweight = vector_of(args->dweight);
    const scalar_span scalars[] = {
        {dweight, 0}, {dweight, 1}, {dweight, 2}, {vector_of(args->dbias), 0}};
    const tg_tensor *const tensors[] = {args->x, args->dy, args->dx};
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        poly_norm_gradient<T> f;
        f.rstd = (const float *)data_of(args->rstd);
        f.weight = vector_of(args->weight);
        f.share = 1 / (float)a.n;
        status = backward_rows<poly_norm_gradient<T>, T>(call, f, a, NULL, scalars,
                                                         (int)args->accumulate);
    });
    return cuda_end(&call, status);
}
