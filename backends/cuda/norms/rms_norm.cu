/* rms_norm.cu - rms_norm and fused_add_rms_norm: y = x rstd (offset + weight), rstd = 1 /
 * sqrt(mean(x^2) + eps); the fused one normalises s = x + residual, which it writes as well. */
#include "rows/backward.cuh"

struct forward_args {
    row_span x, residual, s, y; /* residual and s: of the fused one alone */
    vector_span weight;
    float *rstd;
    int64_t rows;
    int n, lanes, llama;      /* llama: x rstd is rounded before the weight comes to it */
    float eps, offset, share; /* share: 1 / n */
};

template <class T, int K, bool FUSED> struct forward_rows {
    typedef row_stream<T, K, FUSED ? 2 : 1, ARE_FEW<K> ? ROWS_AHEAD : 0> stream;
    typedef held_vector<T, K> vector;
    static constexpr int CHUNKS = stream::CHUNKS + vector::CHUNKS;
};

template <class T, int K, bool FUSED>
__global__ void __launch_bounds__(ARE_FEW<K> ? STREAM_THREADS : MOST_LANES, ARE_FEW<K> ? 2 : 1)
    rms_norm_kernel(const forward_args a)
{
    typedef forward_rows<T, K, FUSED> rows;
    extern __shared__ uint4 chunks[];
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    t.shift = shift_of(a.x.row<T>(t.first));
    typename rows::stream xs;
    typename rows::vector weight;
    xs.from[0] = a.x;
    if (FUSED)
        xs.from[FUSED] = a.residual;
    xs.begin(t, a.rows, a.n, chunks);
    weight.begin(a.weight, t, a.n, 1, a.offset, chunks + rows::stream::CHUNKS * blockDim.x);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const T *x = a.x.row<T>(r), *const residual = a.residual.row<T>(r);
        T *const s = a.s.row<T>(r), *const y = a.y.row<T>(r);
        float squares[1] = {0};
        xs.step(t, r, a.rows, a.n);
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>], more[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
            if (FUSED) {
                widen<T>(xs.now[FUSED].chunk(residual, k, j, a.n), more);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    v[i] += more[i];
                const uint4 raw = narrow<T>(v);
                store_chunk(s, j, a.n, v);
                widen<T>(raw, v);
                if (K > 0)
                    xs.now[0].raw[k] = raw;
            }
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                squares[0] += v[i] * v[i];
        });
        if (FUSED)
            x = s;
        t.sum(squares);
        const float rstd = rsqrtf(squares[0] * a.share + a.eps);
        if (a.rstd && t.lane == 0)
            a.rstd[r] = rstd;
        for_chunks<T, K>(t, a.n, [&](int k, int j) {
            float v[V<T>], w[V<T>];
            widen<T>(xs.now[0].chunk(x, k, j, a.n), v);
            weight.chunk(a.weight, k, j, a.n, 1, a.offset, w);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] *= rstd;
            if (a.llama)
                widen<T>(narrow<T>(v), v);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] *= w[i];
            store_chunk(y, j, a.n, v);
        });
    }
}

template <int COUNT>
static tg_status forward(tg_ctx *ctx, const char *op, const tg_tensor *const (&tensors)[COUNT],
                         forward_args a)
{
    return on_rows(ctx, op, tensors[0], [&](const cuda_call &call) {
        by_layout(tensors, [&](auto e) {
            using T = decltype(e);
            static kernel_room known[2][WAYS];
            const row_kernels<forward_args> plain = {{rms_norm_kernel<T, FEW, false>,
                                                      forward_rows<T, FEW, false>::CHUNKS},
                                                     {rms_norm_kernel<T, HELD, false>, 0},
                                                     rms_norm_kernel<T, 0, false>,
                                                     {rms_norm_kernel<T, SOME_OF<T>, false>,
                                                      forward_rows<T, SOME_OF<T>, false>::CHUNKS}},
                                            fused = {{},
                                                     {rms_norm_kernel<T, HELD, true>, 0},
                                                     rms_norm_kernel<T, 0, true>,
                                                     {}};
            launch_forward<T>(call, a, a.s.data ? fused : plain, known[a.s.data != NULL]);
        });
    });
}

/* What both operators have. Without a weight there is no offset either. */
template <class ARGS> static forward_args forward_of(const ARGS *a)
{
    forward_args f = {};
    f.x = span_of(a->x);
    f.y = span_of(a->y);
    f.weight = vector_of(a->weight);
    f.rstd = (float *)data_of(a->rstd);
    f.rows = rows_of(a->x);
    f.n = (int)width_of(a->x);
    f.llama = a->casting_mode == 0;
    f.share = 1 / (float)f.n;
    f.eps = (float)a->eps;
    f.offset = a->weight ? (float)a->offset : 0;
    return f;
}

CUDA_OPERATOR(rms_norm_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(fused_add_rms_norm_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(rms_norm_backward, TG_TAKES_FLOATS);
CUDA_OPERATOR(fused_add_rms_norm_backward, TG_TAKES_FLOATS);

tg_status cuda_rms_norm_forward(tg_ctx *ctx, const tg_rms_norm_forward_args *a)
{
    const tg_tensor *const tensors[] = {a->x, a->y, a->weight};
    return forward(ctx, "rms_norm_forward", tensors, forward_of(a));
}

tg_status cuda_fused_add_rms_norm_forward(tg_ctx *ctx, const tg_fused_add_rms_norm_forward_args *a)
{
    forward_args f = forward_of(a);
    f.residual = span_of(a->residual);
    f.s = span_of(a->s);
    const tg_tensor *const tensors[] = {a->x, a->residual, a->s, a->y, a->weight};
    return forward(ctx, "fused_add_rms_norm_forward", tensors, f);
}

/* dx = rstd (m - normal mean(m normal)), m = dy (offset + weight), normal = x rstd; dweight = sum
 * over rows of dy normal, where normal is rounded for llama */
template <class T, bool LLAMA> struct rms_norm_gradient {
    enum { SUMS = 1, COLUMNS = 1, SCALARS = 0, OWN = 0, THIRD = 1, WEIGHT = 1 };
    const float *rstd;
    float share; /* 1 / n */

    struct state {
        float rstd, product;
    };
    __device__ __forceinline__ state begin(int64_t row) const
    {
        return state{rstd[row], 0};
    }
    __device__ __forceinline__ float normal(const state &s, float x) const
    {
        return x * s.rstd;
    }
    __device__ __forceinline__ void sum(float m, float normal, float (&sums)[1]) const
    {
        sums[0] += m * normal;
    }
    __device__ __forceinline__ void finish(state &s, const float (&sums)[1]) const
    {
        s.product = s.rstd * (sums[0] * share);
    }
    __device__ __forceinline__ float gradient(const state &s, float m, float normal) const
    {
        return s.rstd * m - normal * s.product;
    }
    __device__ __forceinline__ void columns(const float (&dy)[V<T>], float (&normal)[V<T>],
                                            float (&part)[1][V<T>]) const
    {
        if (LLAMA)
            widen<T>(narrow<T>(normal), normal);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            part[0][i] += dy[i] * normal[i];
    }
};

template <class T, bool LLAMA>
static tg_status gradients(const cuda_call &call, const backward_args &a, const float *rstd,
                           const tg_tensor *dweight, int accumulate)
{
    rms_norm_gradient<T, LLAMA> f;
    const tg_tensor *const columns[] = {dweight};
    f.rstd = rstd;
    f.share = 1 / (float)a.n;
    return backward_rows<rms_norm_gradient<T, LLAMA>, T>(call, f, a, columns, NULL, accumulate);
}

template <class ARGS>
static tg_status backward(tg_ctx *ctx, const char *op, const ARGS *args, const tg_tensor *x,
                          const tg_tensor *ds)
{
    cuda_call call;
    tg_status status = cuda_begin(&call, ctx, op, args->dy);
    if (status != TG_OK)
        return status;
    backward_args a = backward_of(args->dy, x, args->dx);
    a.third = span_of(ds);
    a.weight = vector_of(args->weight);
    a.offset = args->weight ? (float)args->offset : 0;
    const tg_tensor *const tensors[] = {x, args->dy, ds, args->dx, args->weight};
    by_layout(tensors, [&](auto e) {
        using T = decltype(e);
        const float *const rstd = (const float *)data_of(args->rstd);
        const auto run = args->casting_mode == 0 ? gradients<T, true> : gradients<T, false>;
        status = run(call, a, rstd, args->dweight, (int)args->accumulate);
    });
    return cuda_end(&call, status);
}

tg_status cuda_rms_norm_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    return backward(ctx, "rms_norm_backward", a, a->x, NULL);
}

tg_status cuda_fused_add_rms_norm_backward(tg_ctx *ctx,
                                           const tg_fused_add_rms_norm_backward_args *a)
{
    return backward(ctx, "fused_add_rms_norm_backward", a, a->s, a->ds);
}
