/* gemm_triangle.cuh - tiles of a symmetric product: those on and below the diagonal. */
#ifndef CUDA_GEMM_TRIANGLE_CUH
#define CUDA_GEMM_TRIANGLE_CUH

#include <stdint.h>

/* Of smaller products the whole costs no more. */
enum { LEAST_HALVED = 768 };

/* Row and column of tile `index`. */
__device__ __forceinline__ void place_of_tile(int index, int &row, int &column)
{
    int64_t r = (int64_t)((sqrtf(8 * (float)index + 1) - 1) / 2);
    r += (r + 1) * (r + 2) / 2 <= index; /* the root is rounded */
    r -= r * (r + 1) / 2 > index;
    row = (int)r;
    column = (int)(index - r * (r + 1) / 2);
}

/* How many there are in so many rows. */
__host__ __device__ static inline int64_t tiles_of_triangle(int64_t rows)
{
    return rows * (rows + 1) / 2;
}

#endif
