/* moe_router.cuh - what both directions of moe_router share: a warp has a token, and its lane l the
 * experts l, l + 32 and so on, of which there are EACH. */
#ifndef CUDA_MOE_ROUTER_CUH
#define CUDA_MOE_ROUTER_CUH

#include "rows/indices.cuh"
#include "rows/logistic.cuh"

enum {
    MOST_EACH = 32, /* experts of a lane */
    WARP = 32,
    NONE_LEFT = 0 /* the key of an expert that may not be chosen */
};

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        v += __shfl_xor_sync(~0u, v, i);
    return v;
}

/* The larger of two, NaN if one is there: the other. */
__device__ __forceinline__ float warp_max(float v)
{
#pragma unroll
    for (int i = 16; i > 0; i /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, i));
    return v;
}

/* Numbers as keys in their order: 0 and -0 are equal, NaN is above all, and none is NONE_LEFT. */
__device__ __forceinline__ unsigned key_of(float x)
{
    const unsigned bits = __float_as_uint(x + 0.0f);
    if (x != x)
        return ~0u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* A token's logits in registers, -inf behind the last expert. */
template <class T, int EACH>
__device__ __forceinline__ void read_logits(const T *row, int experts, float (&x)[EACH])
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        x[i] = i * WARP + lane < experts ? get(row + i * WARP + lane) : -CUDART_INF_F;
}

/* run(integral constant): with the fewest experts of a lane. False: there are too many. */
template <class F> static bool by_experts(int64_t experts, F run)
{
    if (experts <= 1 * WARP)
        run(std::integral_constant<int, 1>());
    else if (experts <= 2 * WARP)
        run(std::integral_constant<int, 2>());
    else if (experts <= 4 * WARP)
        run(std::integral_constant<int, 4>());
    else if (experts <= 8 * WARP)
        run(std::integral_constant<int, 8>());
    else if (experts <= 16 * WARP)
        run(std::integral_constant<int, 16>());
    else if (experts <= MOST_EACH * WARP)
        run(std::integral_constant<int, MOST_EACH>());
    else
        return false;
    return true;
}

#endif
