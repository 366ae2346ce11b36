/* mhc_coeffs_products.cuh - products of x with phi and with itself, in parts of its columns. */
#ifndef CUDA_MHC_COEFFS_PRODUCTS_CUH
#define CUDA_MHC_COEFFS_PRODUCTS_CUH

#include "mhc_coeffs.cuh"

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

/* ---- launching ---- */

static void launch_plain(const cuda_call &call, const tg_tensor *x, const forward_args &a)
{
    const dim3 grid((unsigned)ceil_div(a.c.tokens, SIDE), (unsigned)ceil_div(a.c.columns, SIDE),
                    (unsigned)a.splits);
    by_type(x, [&](auto e) {
        coeffs_products_kernel<decltype(e)><<<grid, TILE_THREADS, 0, call.stream>>>(a);
    });
}

#endif
