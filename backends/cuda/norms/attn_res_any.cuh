/* attn_res_any.cuh - attn_res where a token's rows have no room in shared memory, or chunks that
 * are not whole: they are read twice, the second time from L2. */
#ifndef CUDA_ATTN_RES_ANY_CUH
#define CUDA_ATTN_RES_ANY_CUH

#include "attn_res.cuh"

enum {
    AT_ONCE = 4 /* rows whose products are summed together */,
    LEAST_THREADS = 128,
    MOST_THREADS = 512,
    WALKERS = 3 /* blocks of MOST_THREADS a multiprocessor, which go from token to token */
};

template <class T>
__device__ __forceinline__ static void load_row(const depth_args &a, int l, int64_t token, int j,
                                                float (&x)[V<T>])
{
    widen<T>(load(a.row_at<T>(l, token) + j, a.n - j), x);
}

/* each(l, of v and v or of v and dy, of v and the key), in one thread a row, for all rows. */
template <class T, bool WITH_DY, class EACH>
__device__ __forceinline__ static void products(const depth_args &a, int64_t token,
                                                many_sums<2 * AT_ONCE> &sums, const EACH &each)
{
    for (int l = 0; l < a.depth; l += AT_ONCE) {
        float value[2 * AT_ONCE] = {};
        for (int j = (int)threadIdx.x * V<T>; j < a.n; j += (int)blockDim.x * V<T>) {
            float key[V<T>], dy[V<T>];
            load_key<T>(a, j, key);
            if constexpr (WITH_DY)
                load_row<T>(a, a.depth, token, j, dy);
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++) {
                if (l + u >= a.depth)
                    break;
                float x[V<T>];
                load_row<T>(a, l + u, token, j, x);
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    value[2 * u] += x[i] * (WITH_DY ? dy[i] : x[i]);
                    value[2 * u + 1] += x[i] * key[i];
                }
            }
        }
        sums(value);
        const int mine = (int)threadIdx.x;
        if (mine < AT_ONCE && l + mine < a.depth)
            each(l + mine, make_float2(sums.total[2 * mine], sums.total[2 * mine + 1]));
    }
    __syncthreads();
}

/* The sums of a row stand where its pull and back go. */
__device__ __forceinline__ static float2 sums_in(const depth_numbers &number)
{
    return make_float2(number.pull, number.back);
}

template <class T>
__global__ void __launch_bounds__(MOST_THREADS, 2)
    attn_res_kernel(const __grid_constant__ depth_args a)
{
    extern __shared__ depth_numbers number[];
    __shared__ many_sums<2 * AT_ONCE> sums;
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        products<T, false>(a, t, sums, [&](int l, float2 of) { number[l] = {0, of.x, of.y, 0}; });
        if (threadIdx.x < 32)
            softmax(a, t, number, [&](int l) { return sums_in(number[l]); });
        __syncthreads();
        for (int j = (int)threadIdx.x * V<T>; j < a.n; j += (int)blockDim.x * V<T>) {
            float y[V<T>] = {};
            for (int l = 0; l < a.depth; l++) {
                float x[V<T>];
                load_row<T>(a, l, t, j, x);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    y[i] += number[l].scale * x[i];
            }
            store(a.out.row<T>(t) + j, a.n - j, narrow<T>(y));
        }
    }
}

/* The sums over tokens are kept in memory, where the part of dquery goes. */
template <class T>
__global__ void __launch_bounds__(MOST_THREADS, 1)
    attn_res_gradient_kernel(const __grid_constant__ depth_args a)
{
    extern __shared__ depth_numbers number[];
    __shared__ many_sums<2 * AT_ONCE> sums;
    float *const kept = a.partial + (int64_t)blockIdx.x * 2 * a.n;
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        products<T, true>(a, t, sums, [&](int l, float2 of) { number[l] = {0, of.x, of.y, 0}; });
        if (threadIdx.x < 32)
            factors(a, t, number, [&](int l) { return sums_in(number[l]); });
        __syncthreads();
        for (int j = (int)threadIdx.x * V<T>; j < a.n; j += (int)blockDim.x * V<T>) {
            float dy[V<T>], key[V<T>], sum[V<T>] = {};
            load_row<T>(a, a.depth, t, j, dy);
            load_key<T>(a, j, key);
            for (int l = 0; l < a.depth; l++) {
                float x[V<T>];
                load_row<T>(a, l, t, j, x);
                store(a.out.row<T>(l * a.tokens + t) + j, a.n - j,
                      gradient<T>(number[l], x, dy, key, sum));
            }
            for (int i = 0; a.partial && i < V<T> && j + i < a.n; i++)
                kept[j + i] = sum[i] + (t == blockIdx.x ? 0 : kept[j + i]);
        }
    }
    for (int j = (int)threadIdx.x * V<T>; a.partial && j < a.n; j += (int)blockDim.x * V<T>) {
        float sum[V<T>] = {};
        for (int i = 0; i < V<T> && j + i < a.n; i++)
            sum[i] = kept[j + i];
        put_parts<T>(a, j, sum);
    }
}

/* ---- launching ---- */

struct any_shape {
    int threads;
    int64_t blocks;
    size_t shared;
};

template <class T> static any_shape any_shape_of(const cuda_call &call, const depth_args &a)
{
    const int64_t chunks = ceil_div(a.n, V<T>);
    any_shape s = {LEAST_THREADS, 0, (size_t)a.depth * sizeof(depth_numbers)};
    while (s.threads < chunks && s.threads < MOST_THREADS)
        s.threads *= 2;
    s.blocks = min_of(a.tokens, (int64_t)call.processors * (WALKERS * MOST_THREADS / s.threads));
    return s;
}

static void launch_any(const cuda_call &call, const any_shape &s, void (*kernel)(depth_args),
                       const depth_args &a)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s.shared);
    kernel<<<(unsigned)s.blocks, s.threads, s.shared, call.stream>>>(a);
}

#endif
