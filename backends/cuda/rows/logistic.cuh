/* logistic.cuh - the logistic function and what is left of it to 1, both with all their digits. */
#ifndef CUDA_LOGISTIC_CUH
#define CUDA_LOGISTIC_CUH

#include "elements.cuh"

struct logistic {
    float value, rest; /* 1 / (1 + exp(-u)), 1 / (1 + exp(u)) */
};

__device__ __forceinline__ static logistic logistic_of(float u)
{
    const float e = exp_of(-fabsf(u)), large = __fdividef(1, 1 + e), small = e * large;
    logistic l;
    l.value = u >= 0 ? large : small;
    l.rest = u >= 0 ? small : large;
    return l;
}

#endif
