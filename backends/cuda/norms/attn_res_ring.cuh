/* attn_res_ring.cuh - attn_res where a token's rows have room in shared memory and are made of
 * whole chunks: they are read once, those of the next tokens while one is worked on. */
#ifndef CUDA_ATTN_RES_RING_CUH
#define CUDA_ATTN_RES_RING_CUH

#include "attn_res.cuh"
#include "rows/token_ring.cuh"

enum {
    DEPTH_AT_ONCE = 8, /* rows whose products are summed together */
    DEPTH_PITCH = RING_THREADS / 32 + 1
};

template <class T> struct depth_source {
    const depth_args &a;
    __device__ __forceinline__ const T *row(int l, int64_t token) const
    {
        return a.row_at<T>(l, token);
    }
};

template <class T> using depth_ring = token_ring<T, depth_source<T>>;

/* What a block keeps of each row besides: its sums of each warp, and the numbers made of them. A
 * barrier after the sums, and one after the numbers. */
struct depth_board {
    float *of_warps; /* [depth rounded up to DEPTH_AT_ONCE, 2, DEPTH_PITCH] */
    depth_numbers *number;

    static __host__ __device__ __forceinline__ int rows(int depth)
    {
        return (depth + DEPTH_AT_ONCE - 1) / DEPTH_AT_ONCE * DEPTH_AT_ONCE;
    }
    /* In bytes, a multiple of 16. */
    static __host__ __device__ __forceinline__ int size(int depth)
    {
        return rows(depth) * (2 * DEPTH_PITCH * (int)sizeof(float) + (int)sizeof(depth_numbers));
    }

    __device__ __forceinline__ depth_board(uint4 *memory, int depth)
        : of_warps((float *)(memory + rows(depth))), number((depth_numbers *)memory)
    {
    }

    /* The warp's sums, of rows from l on. */
    __device__ __forceinline__ void put(int l, const float (&value)[2 * DEPTH_AT_ONCE]) const
    {
        constexpr int LANES = 16 / DEPTH_AT_ONCE;
        const int lane = (int)threadIdx.x % 32;
        const float one = warp_sums(value);
        if (lane % LANES == 0)
            of_warps[(2 * l + lane / LANES) * DEPTH_PITCH + threadIdx.x / 32] = one;
    }

    /* The first warp: sums of the block stand where the first warp's did. */
    __device__ __forceinline__ void total(int depth) const
    {
        for (int i = (int)threadIdx.x; i < 2 * depth; i += 32) {
            float *const of = of_warps + i * DEPTH_PITCH, sum = of[0];
            for (int w = 1; w < (int)blockDim.x / 32; w++)
                sum += of[w];
            of[0] = sum;
        }
        __syncwarp();
    }
    __device__ __forceinline__ float2 sums(int l) const
    {
        return make_float2(of_warps[2 * l * DEPTH_PITCH], of_warps[(2 * l + 1) * DEPTH_PITCH]);
    }
};

/* What a thread keeps for all tokens. */
template <class T, int EACH> struct depth_keys {
    float key[EACH][V<T>];

    __device__ __forceinline__ explicit depth_keys(const depth_args &a)
    {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int j = depth_ring<T>::first() + k * depth_ring<T>::step();
            if (j < a.n)
                load_key<T>(a, j, key[k]);
        }
    }
};

/* Sums of each row, of v v, or WITH_DY of v dy, and of v key. */
template <bool WITH_DY, class T, int EACH>
__device__ __forceinline__ static void put_products(const depth_args &a, const depth_ring<T> &ring,
                                                    const depth_keys<T, EACH> &keys,
                                                    const depth_board &board)
{
    for (int l = 0; l < a.depth; l += DEPTH_AT_ONCE) {
        float value[2 * DEPTH_AT_ONCE] = {};
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (ring.first() + k * ring.step() >= a.n)
                continue;
            float dy[V<T>];
            if constexpr (WITH_DY)
                ring.chunk(a.depth, k, dy);
#pragma unroll
            for (int u = 0; u < DEPTH_AT_ONCE; u++) {
                if (l + u >= a.depth)
                    continue;
                float x[V<T>];
                ring.chunk(l + u, k, x);
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    value[2 * u] += x[i] * (WITH_DY ? dy[i] : x[i]);
                    value[2 * u + 1] += x[i] * keys.key[k][i];
                }
            }
        }
        board.put(l, value);
    }
}

template <class T, int EACH>
__global__ void __launch_bounds__(RING_THREADS, 1)
    attn_res_ring_kernel(const __grid_constant__ depth_args a, const ring_shape s)
{
    extern __shared__ uint4 memory[];
    const depth_source<T> source = {a};
    const depth_board board(memory, a.depth);
    depth_ring<T> ring(source, s, memory + board.size(a.depth) / 16, a.depth, a.n, a.tokens);
    ring.begin();
    const depth_keys<T, EACH> keys(a);
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        ring.wait();
        put_products<false>(a, ring, keys, board);
        __syncthreads();
        if (threadIdx.x < 32) {
            board.total(a.depth);
            softmax(a, t, board.number, [&](int l) { return board.sums(l); });
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int j = ring.first() + k * ring.step();
            float y[V<T>] = {};
            if (j >= a.n)
                break;
#pragma unroll 4
            for (int l = 0; l < a.depth; l++) {
                const float score = board.number[l].scale;
                float x[V<T>];
                ring.chunk(l, k, x);
                ring.replace(l, k, j, t);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    y[i] += score * x[i];
            }
            store(a.out.row<T>(t) + j, a.n - j, narrow<T>(y));
        }
        ring.next();
    }
}

template <class T, int EACH>
__global__ void __launch_bounds__(RING_THREADS, 1)
    attn_res_gradient_ring_kernel(const __grid_constant__ depth_args a, const ring_shape s)
{
    extern __shared__ uint4 memory[];
    const depth_source<T> source = {a};
    const depth_board board(memory, a.depth);
    depth_ring<T> ring(source, s, memory + board.size(a.depth) / 16, a.depth + 1, a.n, a.tokens);
    float sum[EACH][V<T>] = {};
    ring.begin();
    const depth_keys<T, EACH> keys(a);
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        for (int l = (int)threadIdx.x; l < a.depth && threadIdx.x < 32; l += 32) {
            fetch_ahead(a.alpha + t * a.depth + l);
            fetch_ahead(a.rstd + t * a.depth + l);
        }
        ring.wait();
        put_products<true>(a, ring, keys, board);
        __syncthreads();
        if (threadIdx.x < 32) {
            board.total(a.depth);
            factors(a, t, board.number, [&](int l) { return board.sums(l); });
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int j = ring.first() + k * ring.step();
            float dy[V<T>];
            if (j >= a.n)
                break;
            ring.chunk(a.depth, k, dy);
            ring.replace(a.depth, k, j, t);
#pragma unroll 4
            for (int l = 0; l < a.depth; l++) {
                const depth_numbers number = board.number[l];
                float x[V<T>];
                ring.chunk(l, k, x);
                ring.replace(l, k, j, t);
                store(a.out.row<T>(l * a.tokens + t) + j, a.n - j,
                      gradient<T>(number, x, dy, keys.key[k], sum[k]));
            }
        }
        ring.next();
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int j = ring.first() + k * ring.step();
        if (a.partial && j < a.n)
            put_parts<T>(a, j, sum[k]);
    }
}

/* ---- launching ---- */

/* run(EACH) as a constant: chunks that a thread has of a row. */
template <class F> static void by_each(int each, const F &run)
{
    if (each == 1)
        run(std::integral_constant<int, 1>());
    else if (each == 2)
        run(std::integral_constant<int, 2>());
    else
        run(std::integral_constant<int, RING_MOST_EACH>());
}

/* rows: of a token. stages 0: not in shared memory. */
template <class T>
static ring_shape ring_shape_of(const cuda_call &call, const depth_args &a, int rows)
{
    ring_shape s = {};
    if (element<T>::WHOLE)
        s = shape_of_ring(call, a.tokens, rows, a.n * (int64_t)sizeof(T),
                          depth_board::size(a.depth));
    return s;
}

#endif
