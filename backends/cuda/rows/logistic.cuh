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

/* The same from less: what is below 2^-126 is 0, and where `value` is so is `rest`. */
__device__ __forceinline__ static logistic quick_logistic_of(float u)
{
    const float e = exp2_term(fminf(u * -1.44269504088896341f, 127));
    logistic l;
    l.value = reciprocal(1 + e);
    l.rest = e * l.value;
    return l;
}

#endif
