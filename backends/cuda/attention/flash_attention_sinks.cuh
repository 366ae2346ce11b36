/* flash_attention_sinks.cuh - the gradient of sinks. */
#ifndef CUDA_FLASH_ATTENTION_SINKS_CUH
#define CUDA_FLASH_ATTENTION_SINKS_CUH

#include "flash_attention_tile.cuh"

/* dsinks = - sum of exp(sink - lse) delta over a head's queries: a block for each head. */
template <class T>
__global__ void __launch_bounds__(1024) flash_sinks_kernel(const __grid_constant__ flash_problem p)
{
    __shared__ float sums[32];
    const int h = blockIdx.x, lane = lane_id(), warp = threadIdx.x / 32;
    const float sink = get<T>(p.sinks, h) / LN_2;
    const int64_t all = (int64_t)p.batches * p.queries;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < all; i += 1024) {
        const int64_t b = i / p.queries, at = (b * p.heads + h) * p.queries + i % p.queries;
        const flash_row row = p.rows[at];
        sum = fmaf(power_of_2(sink - row.x), row.y, sum);
    }
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = sums[0];
        for (int i = 1; i < 32; i++)
            sum += sums[i];
        put_sum<T>(p.dsinks, h, -sum, 0);
    }
}

/* Behind the other gradients, for which p.rows has been made. */
template <class T>
static inline void flash_launch_sinks(const flash_problem &p, cudaStream_t stream)
{
    if (p.dsinks.data && p.heads > 0)
        flash_sinks_kernel<T><<<p.heads, 1024, 0, stream>>>(p);
}

#endif
