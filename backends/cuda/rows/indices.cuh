/* indices.cuh - indices in device memory, which nobody has checked. */
#ifndef CUDA_INDICES_CUH
#define CUDA_INDICES_CUH

#include "elements.cuh"

/* What indices must be, and where the first that is not is told of. */
struct index_range {
    cuda_fault *fault;
    const char *op, *argument;
    int64_t count;

    /* 1 if value, at this position, is in [0, count). `tell`: this thread says so if not. */
    __device__ __forceinline__ int holds(int64_t position, int64_t value, bool tell) const
    {
        if (value >= 0 && value < count)
            return 1;
        if (tell && atomicCAS(&fault->taken, 0u, 1u) == 0) {
            fault->op = op;
            fault->argument = argument;
            fault->position = position;
            fault->value = value;
            fault->count = count;
        }
        return 0;
    }
};

static inline index_range range_of(const cuda_call &call, const char *argument, int64_t count)
{
    const index_range range = {call.fault, call.op, argument, count};
    return range;
}

#endif
