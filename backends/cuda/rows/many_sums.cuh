/* many_sums.cuh - many sums over the threads of a block at once. */
#ifndef CUDA_MANY_SUMS_CUH
#define CUDA_MANY_SUMS_CUH

#include "elements.cuh"

/* COUNT, a power of two up to 32. Lanes give each other the half of their sums that they do not go
 * on with, so that a warp takes COUNT steps or so for all of them. */
template <int COUNT> struct many_sums {
    float of_warp[COUNT][33];
    float total[COUNT];

    /* After it all threads may read `total`, until the next call. */
    __device__ __forceinline__ void operator()(float (&value)[COUNT])
    {
        constexpr int LANES = 32 / COUNT; /* with the same sum in the end */
        const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
#pragma unroll
        for (int o = 16, half = COUNT / 2; o > 0; o /= 2, half /= 2) {
            const bool upper = lane & o;
            if (half == 0)
                value[0] += __shfl_xor_sync(0xffffffffu, value[0], o);
#pragma unroll
            for (int i = 0; i < half; i++) {
                const float given = upper ? value[i] : value[i + half];
                value[i] =
                    (upper ? value[i + half] : value[i]) + __shfl_xor_sync(0xffffffffu, given, o);
            }
        }
        if (lane % LANES == 0)
            of_warp[lane / LANES][threadIdx.x / 32] = value[0];
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
