/* map.cuh - operators that work element by element, over rows of any strides.
 *
 * A family gives a struct F with IN and OUT, how many tensors it reads and writes, and the
 * arithmetic of one element:
 *   __device__ void operator()(const float (&in)[IN], float (&out)[OUT]) const
 *
 * and calls map(), or, of an operator that F needs no options of, has
 *   CUDA_OPERATOR(product_forward, TG_TAKES_FLOATS);
 *   MAP_OPERATOR(product_forward, product, a->x, a->z, a->y)
 *
 * interleaved<F, I, O> is F whose operands I and I + 1 alternate in one tensor, and its results O
 * and O + 1 (-1: none). */
#ifndef CUDA_MAP_CUH
#define CUDA_MAP_CUH

#include "neighbours.cuh"

template <class F, int I, int O> struct interleaved : F {
    explicit interleaved(const F &f) : F(f)
    {
    }
};

/* Which operands and results of F alternate. */
template <class F> struct alternating {
    enum { IN_FIRST = -1, OUT_FIRST = -1 };
};
template <class F, int I, int O> struct alternating<interleaved<F, I, O>> {
    enum { IN_FIRST = I, OUT_FIRST = O };
};

template <class F> struct map_args {
    row_span in[F::IN], out[F::OUT];
    int64_t rows, n;
};

enum {
    MAP_THREADS = 256,
    MAP_AHEAD = 2 /* chunks of a tensor that a thread loads before it computes */
};

template <class F, class T>
__global__ void __launch_bounds__(MAP_THREADS) map_kernel(const F f, const map_args<F> a)
{
    constexpr int in_first = alternating<F>::IN_FIRST, out_first = alternating<F>::OUT_FIRST;
    const int64_t step = (int64_t)gridDim.x * blockDim.x * V<T>;
    const int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V<T>;
    const int64_t rows_step = (int64_t)gridDim.y * blockDim.y;
    for (int64_t r = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; r < a.rows; r += rows_step)
        for (int64_t j = first; j < a.n; j += MAP_AHEAD * step) {
            uint4 raw[MAP_AHEAD][F::IN];
#pragma unroll
            for (int u = 0; u < MAP_AHEAD; u++)
#pragma unroll
                for (int i = 0; i < F::IN; i++) {
                    const int64_t at = j + u * step;
                    if (at >= a.n || (in_first >= 0 && i == in_first + 1))
                        continue;
                    const T *const row = a.in[i].template row<T>(r);
                    if (i == in_first)
                        load_neighbours(row, at, a.n - at, raw[u][i], raw[u][(i + 1) % F::IN]);
                    else
                        raw[u][i] = load(row + at, a.n - at);
                }
#pragma unroll
            for (int u = 0; u < MAP_AHEAD; u++) {
                if (j + u * step >= a.n)
                    break;
                float in[F::IN][V<T>], out[F::OUT][V<T>];
#pragma unroll
                for (int i = 0; i < F::IN; i++)
                    if (i == in_first)
                        widen_neighbours<T>(raw[u][i], raw[u][(i + 1) % F::IN], in[i],
                                            in[(i + 1) % F::IN]);
                    else if (in_first < 0 || i != in_first + 1)
                        widen<T>(raw[u][i], in[i]);
#pragma unroll
                for (int k = 0; k < V<T>; k++) {
                    float x[F::IN], y[F::OUT];
#pragma unroll
                    for (int i = 0; i < F::IN; i++)
                        x[i] = in[i][k];
                    f(x, y);
#pragma unroll
                    for (int i = 0; i < F::OUT; i++)
                        out[i][k] = y[i];
                }
#pragma unroll
                for (int i = 0; i < F::OUT; i++) {
                    const int64_t at = j + u * step;
                    if (out_first >= 0 && i == out_first + 1)
                        continue;
                    T *const row = a.out[i].template row<T>(r);
                    if (i == out_first)
                        store_neighbours(row, at, a.n - at, out[i], out[(i + 1) % F::OUT]);
                    else
                        store(row + at, a.n - at, narrow<T>(out[i]));
                }
            }
        }
}

/* in: F::IN tensors, then F::OUT to be written, all of one shape and type. NULL: it alternates with
 * the one before it, in a tensor twice as wide. */
template <class F, int COUNT>
static tg_status map(tg_ctx *ctx, const char *op, const F &f,
                     const tg_tensor *const (&tensors)[COUNT])
{
    const tg_tensor *x = tensors[tensors[1] ? 0 : COUNT - 1];
    map_args<F> a = {};
    int compact = 1;
    a.rows = rows_of(x);
    a.n = width_of(x);
    if (a.rows == 0 || a.n == 0)
        return TG_OK;
    for (int i = 0; i < COUNT; i++) {
        if (!tensors[i])
            continue;
        (i < F::IN ? a.in[i] : a.out[i - F::IN]) = span_of(tensors[i]);
        const int64_t wide = i + 1 < COUNT && !tensors[i + 1] ? 2 : 1;
        compact &= a.rows == 1 || stride_of(tensors[i]) == wide * a.n;
    }
    if (compact) {
        a.n *= a.rows;
        a.rows = 1;
    }
    cuda_call call;
    const tg_status status = cuda_begin(&call, ctx, op, x);
    if (status != TG_OK)
        return status;
    by_layout(tensors, [&](auto t) {
        using T = decltype(t);
        const int64_t chunks = ceil_div(a.n, V<T>);
        const dim3 block = block_over(chunks, MAP_THREADS);
        const int64_t most = INT32_MAX;
        const dim3 grid((unsigned)min_of(most, ceil_div(chunks, (int64_t)block.x * MAP_AHEAD)),
                        (unsigned)min_of(65535, ceil_div(a.rows, block.y)));
        map_kernel<F, T><<<grid, block, 0, call.stream>>>(f, a);
    });
    return cuda_end(&call, TG_OK);
}

#define MAP_OPERATOR(op, F, ...)                              \
    tg_status cuda_##op(tg_ctx *ctx, const tg_##op##_args *a) \
    {                                                         \
        const tg_tensor *const tensors[] = {__VA_ARGS__};     \
        return map(ctx, #op, F(), tensors);                   \
    }

#endif
