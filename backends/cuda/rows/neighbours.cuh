/* neighbours.cuh - pairs of neighbouring elements: two chunks of memory, of whose pairs one array
 * has the first elements and another the second. */
#ifndef CUDA_NEIGHBOURS_CUH
#define CUDA_NEIGHBOURS_CUH

#include "elements.cuh"

/* Pairs j, j + 1, ...; left: pairs from j on. */
template <class T>
__device__ __forceinline__ void load_neighbours(const T *row, int64_t j, int64_t left, uint4 &low,
                                                uint4 &high)
{
    low = load(row + 2 * j, 2 * left);
    high = load(row + 2 * j + V<T>, 2 * left - V<T>);
}

template <class T>
__device__ __forceinline__ void widen_neighbours(const uint4 &low, const uint4 &high,
                                                 float (&x)[V<T>], float (&y)[V<T>])
{
    float both[2][V<T>];
    widen<T>(low, both[0]);
    widen<T>(high, both[1]);
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        x[i] = both[2 * i / V<T>][2 * i % V<T>];
        y[i] = both[2 * i / V<T>][2 * i % V<T> + 1];
    }
}

template <class T>
__device__ __forceinline__ void store_neighbours(T *row, int64_t j, int64_t left,
                                                 const float (&x)[V<T>], const float (&y)[V<T>])
{
    float both[2][V<T>];
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        both[2 * i / V<T>][2 * i % V<T>] = x[i];
        both[2 * i / V<T>][2 * i % V<T> + 1] = y[i];
    }
    store(row + 2 * j, 2 * left, narrow<T>(both[0]));
    store(row + 2 * j + V<T>, 2 * left - V<T>, narrow<T>(both[1]));
}

#endif
