/* many_sums.cuh - many sums over the threads of a block at once. */
#ifndef CUDA_MANY_SUMS_CUH
#define CUDA_MANY_SUMS_CUH

#include "elements.cuh"

/* COUNT, a power of two up to 32. Lanes give each other the half of their sums that they do not go
 * on with, so that a warp takes COUNT steps or so for all of them. Returns sum lane / (32 / COUNT)
 * of the warp. */
template <int COUNT, int APART = 16>
__device__ __forceinline__ float warp_sums(const float (&value)[COUNT])
{
    if constexpr (COUNT == 1) {
        float sum = value[0];
#pragma unroll
        for (int o = APART; o > 0; o /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        return sum;
    } else {
        constexpr int HALF = COUNT / 2;
        const bool upper = threadIdx.x & APART;
        float kept[HALF];
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            const float given = upper ? value[i] : value[i + HALF];
            kept[i] =
                (upper ? value[i + HALF] : value[i]) + __shfl_xor_sync(0xffffffffu, given, APART);
        }
        return warp_sums<HALF, APART / 2>(kept);
    }
}

template <int COUNT> struct many_sums {
    float of_warp[COUNT][33];
    float total[COUNT];

    /* After it all threads may read `total`, until the next call. */
    __device__ __forceinline__ void operator()(const float (&value)[COUNT])
    {
        constexpr int LANES = 32 / COUNT; /* with the same sum in the end */
        const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
        const float one = warp_sums(value);
        if (lane % LANES == 0)
            of_warp[lane / LANES][threadIdx.x / 32] = one;
        __syncthreads();
        if (threadIdx.x < COUNT) {
            float sum = 0;
            for (int w = 0; w < warps; w++)
                sum += of_warp[threadIdx.x][w];
            total[threadIdx.x] = sum;
        }
        __syncthreads();
    }
};

#endif
