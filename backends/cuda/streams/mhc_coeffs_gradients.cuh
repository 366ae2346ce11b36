/* mhc_coeffs_gradients.cuh - dx and dphi, products of the gradient of mix with phi and with x. */
#ifndef CUDA_MHC_COEFFS_GRADIENTS_CUH
#define CUDA_MHC_COEFFS_GRADIENTS_CUH

#include "mhc_coeffs.cuh"

enum {
    Z_PARTS = 3,   /* bf16 that z is the sum of */
    UNIT = 8,      /* columns of phi that slabs take together, */
    MOST_UNITS = 3 /* 1 or so many of them */
};

struct backward_args {
    coeffs_args c;
    row_span dx;
    const float *mix, *rstd, *dpre, *dpost, *dres; /* dpre, dpost, dres: may be missing */
    float *z;       /* [tokens, columns]: alpha d rstd, d the gradient of alpha mix + bias */
    bf16 *split;    /* or, not NULL, [tokens, Z_PARTS, padded]: the same as sums, and zeros */
    float *back;    /* [tokens]: sum of alpha d mix rstd^2 / (streams n) */
    float *history; /* [2 iterations - 1, matrices of all lanes]; NULL: it is in shared memory */
    float *sums;    /* [blocks of threads, 2, columns]: of d, of d mix, or NULL */
    float *parts;   /* [splits, streams n, columns]: of dphi, or NULL */
    char *dphi;
    int64_t slice; /* tokens of a split */
    int dphi_f32, splits, accumulate, padded;
    float post_multiplier, share; /* share: 1 / (streams n) */
};

/* The next of the bf16 that z is the sum of. What is infinite has no lower parts. */
__device__ __forceinline__ static float take_part(int part, float &z)
{
    const float high = rounded<bf16>(z);
    z -= high;
    return part == 0 || isfinite(high) ? high : 0;
}

/* dx of tokens blockIdx.x SIDE..., columns blockIdx.y SIDE... of all streams. */
template <class T>
__global__ void __launch_bounds__(TILE_THREADS)
    coeffs_dx_kernel(const __grid_constant__ backward_args a)
{
    __shared__ tile_memory m;
    const coeffs_args &c = a.c;
    const int64_t first = (int64_t)blockIdx.x * SIDE;
    const int width = c.streams * c.n, column = (int)blockIdx.y * SIDE, thread = (int)threadIdx.x;
    float sum[OF_THREAD][OF_THREAD] = {};
    for (int k = 0; k < c.columns; k += DEEP) {
        for (int e = thread; e < DEEP * SIDE; e += TILE_THREADS) {
            const int deep = e % DEEP, i = e / DEEP;
            const bool inside = k + deep < c.columns;
            m.left[deep][i] =
                inside && first + i < c.tokens ? a.z[(first + i) * c.columns + k + deep] : 0;
            m.right[deep][i] =
                inside && column + i < width ? phi_at<T>(c, column + i, k + deep) : 0;
        }
        __syncthreads();
        multiply_tile(m, sum);
        __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < OF_THREAD; u++)
#pragma unroll
        for (int w = 0; w < OF_THREAD; w++) {
            const int64_t token = first + thread / 16 * OF_THREAD + u;
            const int j = column + thread % 16 * OF_THREAD + w;
            if (token < c.tokens && j < width)
                put(a.dx.row<T>(token * c.streams + j / c.n) + j % c.n,
                    sum[u][w] - a.back[token] * x_at<T>(c, token, j));
        }
}

/* dphi of columns blockIdx.x SIDE... of all streams, columns blockIdx.y SIDE... of phi, and tokens
 * of split blockIdx.z. */
template <class T>
__global__ void __launch_bounds__(TILE_THREADS)
    coeffs_dphi_kernel(const __grid_constant__ backward_args a)
{
    __shared__ tile_memory m;
    const coeffs_args &c = a.c;
    const int width = c.streams * c.n, first = (int)blockIdx.x * SIDE,
              column = (int)blockIdx.y * SIDE, thread = (int)threadIdx.x;
    const int64_t begin = blockIdx.z * a.slice, end = min(begin + a.slice, c.tokens);
    float sum[OF_THREAD][OF_THREAD] = {};
    for (int64_t t = begin; t < end; t += DEEP) {
        for (int e = thread; e < DEEP * SIDE; e += TILE_THREADS) {
            const int deep = e / SIDE, i = e % SIDE;
            const bool inside = t + deep < end;
            m.left[deep][i] = inside && first + i < width ? x_at<T>(c, t + deep, first + i) : 0;
            m.right[deep][i] =
                inside && column + i < c.columns ? a.z[(t + deep) * c.columns + column + i] : 0;
        }
        __syncthreads();
        multiply_tile(m, sum);
        __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < OF_THREAD; u++)
#pragma unroll
        for (int w = 0; w < OF_THREAD; w++) {
            const int k = first + thread / 16 * OF_THREAD + u,
                      j = column + thread % 16 * OF_THREAD + w;
            if (k < width && j < c.columns)
                a.parts[((int64_t)blockIdx.z * width + k) * c.columns + j] = sum[u][w];
        }
}

/* The parts of dphi, added up in their order. */
template <class T>
__global__ void __launch_bounds__(TILE_THREADS)
    coeffs_sum_kernel(const __grid_constant__ backward_args a)
{
    const int64_t n = (int64_t)a.c.streams * a.c.n * a.c.columns,
                  e = (int64_t)blockIdx.x * TILE_THREADS + threadIdx.x;
    float sum = 0;
    wait_for_the_kernel_before();
    if (e >= n)
        return;
    for (int s = 0; s < a.splits; s++)
        sum += a.parts[s * n + e];
    put_sum<T>({a.dphi, a.dphi_f32}, e, sum, a.accumulate);
}

/* ---- launching ---- */

template <class T> static void launch_tiles(const cuda_call &call, const backward_args &a)
{
    const unsigned across = (unsigned)ceil_div((int64_t)a.c.streams * a.c.n, SIDE),
                   columns = (unsigned)ceil_div(a.c.columns, SIDE);
    coeffs_dx_kernel<T>
        <<<dim3((unsigned)ceil_div(a.c.tokens, SIDE), across), TILE_THREADS, 0, call.stream>>>(a);
    if (a.parts)
        coeffs_dphi_kernel<T>
            <<<dim3(across, columns, (unsigned)a.splits), TILE_THREADS, 0, call.stream>>>(a);
}

#endif
