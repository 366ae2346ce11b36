/* largest.cuh - the largest logit of a row, and the first chunk that has it: what is cheap to look
 * for while the row is gone through. */
#ifndef CUDA_LARGEST_CUH
#define CUDA_LARGEST_CUH

#include "rows/chunk.cuh"

/* The largest logit that a thread has seen, and where the first chunk with it begins. */
struct softmax_largest {
    float max;
    int at;

    template <int N> __device__ __forceinline__ void add(const float (&x)[N], int j)
    {
        float own = x[0];
#pragma unroll
        for (int i = 1; i < N; i++)
            own = fmaxf(own, x[i]);
        if (own > max) {
            max = own;
            at = j;
        }
    }
};

/* Where in its chunk the first element is that is the largest; -1 in other chunks. */
template <int N>
__device__ __forceinline__ static int place_of(const softmax_largest &top, const float (&x)[N],
                                               int j)
{
    int place = -1;
#pragma unroll
    for (int i = N - 1; i >= 0; i--)
        place = x[i] == top.max ? i : place;
    return j == top.at ? place : -1;
}

#endif
