/* mhc_coeffs_products.cuh - products of x with phi and with itself, in parts of its columns. */
#ifndef CUDA_MHC_COEFFS_PRODUCTS_CUH
#define CUDA_MHC_COEFFS_PRODUCTS_CUH

#include "mhc_coeffs.cuh"
#include "rows/fragments.cuh"

struct forward_args {
    coeffs_args c;
    float *parts; /* [splits, tokens, columns + 1]: x phi, and behind it x x */
    float *pre, *post, *res, *mix, *rstd;
    int splits, slice; /* columns of x that a split has, a multiple of DEEP */
    float rms_eps, pre_eps, post_multiplier, share; /* share: 1 / (streams n) */
};

/* Tokens blockIdx.x SIDE..., columns of phi blockIdx.y SIDE..., split blockIdx.z. */
template <class T>
__global__ void __launch_bounds__(TILE_THREADS)
    coeffs_products_kernel(const __grid_constant__ forward_args a)
{
    __shared__ tile_memory m;
    const coeffs_args &c = a.c;
    const int64_t first = (int64_t)blockIdx.x * SIDE;
    const int width = c.streams * c.n, begin = (int)blockIdx.z * a.slice,
              end = min(begin + a.slice, width), column = (int)blockIdx.y * SIDE;
    const int thread = (int)threadIdx.x;
    float sum[OF_THREAD][OF_THREAD] = {}, squares = 0;
    for (int k = begin; k < end; k += DEEP) {
        for (int e = thread; e < DEEP * SIDE; e += TILE_THREADS) {
            const int deep = e % DEEP, token = e / DEEP;
            const bool there = k + deep < end && first + token < c.tokens;
            m.left[deep][token] = there ? x_at<T>(c, first + token, k + deep) : 0;
        }
        for (int e = thread; e < DEEP * SIDE; e += TILE_THREADS) {
            const int deep = e / SIDE, j = e % SIDE;
            m.right[deep][j] = k + deep < end ? phi_at<T>(c, k + deep, column + j) : 0;
        }
        __syncthreads();
        multiply_tile(m, sum);
        for (int deep = 0; blockIdx.y == 0 && thread < SIDE && deep < DEEP; deep++)
            squares += m.left[deep][thread] * m.left[deep][thread];
        __syncthreads();
    }
    float *const to = a.parts + ((int64_t)blockIdx.z * c.tokens + first) * (c.columns + 1);
#pragma unroll
    for (int u = 0; u < OF_THREAD; u++)
#pragma unroll
        for (int w = 0; w < OF_THREAD; w++) {
            const int token = thread / 16 * OF_THREAD + u;
            const int j = column + thread % 16 * OF_THREAD + w;
            if (first + token < c.tokens && j < c.columns)
                to[(int64_t)token * (c.columns + 1) + j] = sum[u][w];
        }
    if (blockIdx.y == 0 && thread < SIDE && first + thread < c.tokens)
        to[(int64_t)thread * (c.columns + 1) + c.columns] = squares;
}

/* ---- the same products on tensor cores, where x and phi are of one type of 16 bits ---- */

/* A warp has TOKENS tokens, and takes STEP columns of x at a time, AHEAD of which are on their way;
 * of phi it takes 8 columns a tile. */
enum { TOKENS = 16, WARPS = 4, STEP = 32, AHEAD = 4, MOST_TILES = 4 };

struct tensor_args {
    forward_args f;
    uint4 *packed; /* phi: [steps, tiles, 32 lanes], of a lane the 8 elements that it multiplies */
    int tiles;     /* of all columns of phi, a multiple of those that a warp takes */
};

/* Lane l has elements 8 (l % 4)... of the step's columns, of column l / 4 of a tile. So has it of
 * x, of tokens l / 4 and l / 4 + 8: which of the 16 columns of an instruction these are does not
 * matter to a sum over all of them. */
template <class T> __global__ void pack_phi_kernel(const __grid_constant__ tensor_args a)
{
    const coeffs_args &c = a.f.c;
    const int64_t steps = (int64_t)c.streams * c.n / STEP,
                  e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = (int)(e % 32), column = (int)(e / 32 % a.tiles) * 8 + lane / 4;
    const int64_t row = e / 32 / a.tiles * STEP + lane % 4 * 8;
    uint32_t bits[4];
    if (e >= steps * a.tiles * 32)
        return;
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = narrow_pair<T>(phi_at<T>(c, row + 2 * i, column),
                                 phi_at<T>(c, row + 2 * i + 1, column));
    a.packed[e] = make_uint4(bits[0], bits[1], bits[2], bits[3]);
}

template <class T> __device__ __forceinline__ static float squares_of(uint4 raw)
{
    float x[V<T>], sum = 0;
    widen<T>(raw, x);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        sum += x[i] * x[i];
    return sum;
}

/* Tokens blockIdx.x WARPS TOKENS..., TILES tiles of phi from blockIdx.y TILES on, split
 * blockIdx.z. */
template <class T, int TILES>
__global__ void __launch_bounds__(WARPS * 32)
    tensor_products_kernel(const __grid_constant__ tensor_args a)
{
    const coeffs_args &c = a.f.c;
    const int lane = (int)threadIdx.x % 32, steps_of_row = c.n / STEP;
    const int begin = (int)blockIdx.z * a.f.slice / STEP,
              end = min(begin + a.f.slice / STEP, c.streams * steps_of_row);
    const int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * TOKENS + lane / 4,
                  token[2] = {min(first, c.tokens - 1), min(first + 8, c.tokens - 1)};
    const uint4 *phi = a.packed + (int64_t)blockIdx.y * TILES * 32 + lane;
    float sum[TILES][4] = {}, squares[2] = {};
    for (int step = begin; step < end; step += AHEAD) {
        uint4 x[AHEAD][2];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int s = min(step + u, end - 1), column = s % steps_of_row * STEP;
                x[u][i] =
                    step + u < end
                        ? *(const uint4 *)(c.x.row<T>(token[i] * c.streams + s / steps_of_row) +
                                           column + lane % 4 * 8)
                        : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const uint4 *const of_step = phi + (int64_t)min(step + u, end - 1) * a.tiles * 32;
#pragma unroll
            for (int i = 0; i < 2; i++)
                squares[i] += squares_of<T>(x[u][i]);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const uint4 b = __ldg(of_step + t * 32);
                multiply_16<T>(sum[t], x[u][0].x, x[u][1].x, x[u][0].y, x[u][1].y, b.x, b.y);
                multiply_16<T>(sum[t], x[u][0].z, x[u][1].z, x[u][0].w, x[u][1].w, b.z, b.w);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float *const to = a.f.parts + ((int64_t)blockIdx.z * c.tokens + token[i]) * (c.columns + 1);
        squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], 1);
        squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], 2);
        if (first + 8 * i >= c.tokens)
            continue;
        if (blockIdx.y == 0 && lane % 4 == 0)
            to[c.columns] = squares[i];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int w = 0; w < 2; w++) {
                const int j = ((int)blockIdx.y * TILES + t) * 8 + lane % 4 * 2 + w;
                if (j < c.columns)
                    to[j] = sum[t][2 * i + w];
            }
    }
}

/* ---- launching ---- */

/* Tiles of 8 columns that a warp takes of phi: few enough for its registers. */
static int tiles_of_warp(int columns)
{
    return columns <= 8 ? 1 : columns > 16 && columns <= 24 ? 3 : MOST_TILES;
}

static int tiles_of(int columns)
{
    const int of_warp = tiles_of_warp(columns);
    return (int)ceil_div(columns, 8 * of_warp) * of_warp;
}

template <class T> static void launch_tensor_of(const cuda_call &call, const tensor_args &a)
{
    const coeffs_args &c = a.f.c;
    const int64_t packed = (int64_t)c.streams * c.n / STEP * a.tiles * 32;
    const int of_warp = tiles_of_warp(c.columns);
    const dim3 grid((unsigned)ceil_div(c.tokens, WARPS * TOKENS), (unsigned)(a.tiles / of_warp),
                    (unsigned)a.f.splits);
    const auto kernel = of_warp == 1   ? tensor_products_kernel<T, 1>
                        : of_warp == 3 ? tensor_products_kernel<T, 3>
                                       : tensor_products_kernel<T, MOST_TILES>;
    pack_phi_kernel<T><<<(unsigned)ceil_div(packed, 256), 256, 0, call.stream>>>(a);
    kernel<<<grid, WARPS * 32, 0, call.stream>>>(a);
}

static void launch_tensor(const cuda_call &call, const tg_tensor *x, const tensor_args &a)
{
    if (tg_type_of(x) == TG_BF16)
        launch_tensor_of<bf16>(call, a);
    else
        launch_tensor_of<f16>(call, a);
}

static void launch_plain(const cuda_call &call, const tg_tensor *x, const forward_args &a)
{
    const dim3 grid((unsigned)ceil_div(a.c.tokens, SIDE), (unsigned)ceil_div(a.c.columns, SIDE),
                    (unsigned)a.splits);
    by_type(x, [&](auto e) {
        coeffs_products_kernel<decltype(e)><<<grid, TILE_THREADS, 0, call.stream>>>(a);
    });
}

#endif
