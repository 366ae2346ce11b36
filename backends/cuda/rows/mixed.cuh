/* mixed.cuh - chunks of a tensor that goes beside one of another type: N elements of Y, as many as
 * a chunk of the other has. */
#ifndef CUDA_MIXED_CUH
#define CUDA_MIXED_CUH

#include "elements.cuh"

/* What one access moves of N elements of Y, a chunk at most. */
template <class Y, int N> struct __align__((N * sizeof(Y) > 16 ? 16 : N * sizeof(Y))) mixed_group
{
    uint32_t bits[N * sizeof(Y) > 16 ? 4 : N * sizeof(Y) / 4];
};

template <class Y, int N> using group_of = mixed_group<typename element<Y>::type, N>;

/* Elements beyond `left` are 0. whole<Y> tells that all are there, and where they may lie. */
template <class Y, int N>
__device__ __forceinline__ group_of<Y, N> load_group(const Y *from, int64_t left)
{
    typedef group_of<Y, N> group;
    constexpr int EACH = sizeof(group) / sizeof(Y);
    group raw = {};
    if (element<Y>::WHOLE || (left >= EACH && (uintptr_t)from % sizeof(group) == 0)) {
        raw = *(const group *)from;
    } else {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (i < left)
                raw.bits[i * (int)sizeof(Y) / 4] |= (uint32_t)((const word<Y> *)from)[i]
                                                    << i * 8 * (int)sizeof(Y) % 32;
    }
    return raw;
}

template <class Y, int N>
__device__ __forceinline__ void store_group(Y *to, int64_t left, const group_of<Y, N> &raw)
{
    typedef group_of<Y, N> group;
    constexpr int EACH = sizeof(group) / sizeof(Y);
    if (element<Y>::WHOLE || (left >= EACH && (uintptr_t)to % sizeof(group) == 0)) {
        *(group *)to = raw;
    } else {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (i < left)
                ((word<Y> *)to)[i] =
                    (word<Y>)(raw.bits[i * (int)sizeof(Y) / 4] >> i * 8 * (int)sizeof(Y) % 32);
    }
}

/* The numbers of a group, which become x[first], x[first + 1], ... */
template <class Y, int N, int COUNT>
__device__ __forceinline__ void widen_group(const group_of<Y, N> &raw, int first, float (&x)[COUNT])
{
    typedef typename element<Y>::type type;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(raw) / sizeof(type)); i += 4 / (int)sizeof(type)) {
        if constexpr (sizeof(type) == 4) {
            x[first + i] = __uint_as_float(raw.bits[i]);
        } else {
            const float2 pair = widen_pair<type>(raw.bits[i / 2]);
            x[first + i] = pair.x;
            x[first + i + 1] = pair.y;
        }
    }
}

template <class Y, int N, int COUNT>
__device__ __forceinline__ group_of<Y, N> narrow_group(int first, const float (&x)[COUNT])
{
    typedef typename element<Y>::type type;
    group_of<Y, N> raw;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(raw) / sizeof(type)); i += 4 / (int)sizeof(type)) {
        if constexpr (sizeof(type) == 4)
            raw.bits[i] = __float_as_uint(x[first + i]);
        else
            raw.bits[i / 2] = narrow_pair<type>(x[first + i], x[first + i + 1]);
    }
    return raw;
}

template <class Y, int N>
__device__ __forceinline__ void load_as(const Y *from, int64_t left, float (&x)[N])
{
    constexpr int EACH = sizeof(group_of<Y, N>) / sizeof(Y);
#pragma unroll
    for (int i = 0; i < N; i += EACH)
        widen_group<Y, N>(load_group<Y, N>(from + i, left - i), i, x);
}

template <class Y, int N>
__device__ __forceinline__ void store_as(Y *to, int64_t left, const float (&x)[N])
{
    constexpr int EACH = sizeof(group_of<Y, N>) / sizeof(Y);
#pragma unroll
    for (int i = 0; i < N; i += EACH)
        store_group<Y, N>(to + i, left - i, narrow_group<Y, N>(i, x));
}

#endif
