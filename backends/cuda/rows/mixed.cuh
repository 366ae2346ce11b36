/* mixed.cuh - chunks of a tensor that goes beside one of another type: N elements of Y, as many as
 * a chunk of the other has. */
#ifndef CUDA_MIXED_CUH
#define CUDA_MIXED_CUH

#include "elements.cuh"

/* What one access moves of N elements of Y. */
template <class Y, int N> struct __align__((N * sizeof(Y) > 16 ? 16 : N * sizeof(Y))) mixed_group
{
    uint32_t bits[N * sizeof(Y) > 16 ? 4 : N * sizeof(Y) / 4];
};

/* Elements beyond `left` are 0. whole<Y> tells that all are there, and where they may lie. */
template <class Y, int N>
__device__ __forceinline__ void load_as(const Y *from, int64_t left, float (&x)[N])
{
    typedef typename element<Y>::type type;
    if (!element<Y>::WHOLE && (left < N || (uintptr_t)from % (N * sizeof(Y)))) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = i < left ? get((const type *)from + i) : 0;
        return;
    }
    typedef mixed_group<type, N> group;
    constexpr int EACH = sizeof(group) / sizeof(type);
#pragma unroll
    for (int g = 0; g < N / EACH; g++) {
        const group raw = ((const group *)from)[g];
#pragma unroll
        for (int i = 0; i < EACH; i += 4 / (int)sizeof(type)) {
            if constexpr (sizeof(type) == 4) {
                x[g * EACH + i] = __uint_as_float(raw.bits[i]);
            } else {
                const float2 pair = widen_pair<type>(raw.bits[i / 2]);
                x[g * EACH + i] = pair.x;
                x[g * EACH + i + 1] = pair.y;
            }
        }
    }
}

template <class Y, int N>
__device__ __forceinline__ void store_as(Y *to, int64_t left, const float (&x)[N])
{
    typedef typename element<Y>::type type;
    if (!element<Y>::WHOLE && (left < N || (uintptr_t)to % (N * sizeof(Y)))) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < left)
                put((type *)to + i, x[i]);
        return;
    }
    typedef mixed_group<type, N> group;
    constexpr int EACH = sizeof(group) / sizeof(type);
#pragma unroll
    for (int g = 0; g < N / EACH; g++) {
        group raw;
#pragma unroll
        for (int i = 0; i < EACH; i += 4 / (int)sizeof(type)) {
            if constexpr (sizeof(type) == 4)
                raw.bits[i] = __float_as_uint(x[g * EACH + i]);
            else
                raw.bits[i / 2] = narrow_pair<type>(x[g * EACH + i], x[g * EACH + i + 1]);
        }
        ((group *)to)[g] = raw;
    }
}

#endif
