/* batch_rows.cuh - rows of logits that are a part of a batch's, as the kernels of softmax_jsd and
 * softmax_kl_div are given them beside the logits. */
#ifndef CUDA_BATCH_ROWS_CUH
#define CUDA_BATCH_ROWS_CUH

#include "rows/rows.cuh"

struct batch_args {
    const int64_t *labels; /* of these rows; NULL: all count */
    const float *dloss;    /* NULL: 1 */
    const double *counted; /* what a row counts; NULL: share */
    double *partial;       /* losses of a block, or of a row that is held; NULL: no loss */
    int64_t rows, ignore_index;
    double share;
    float unit; /* what the gradient is multiplied with beside share and dloss */
    int n, lanes;
};

__device__ __forceinline__ bool batch_counts(const batch_args &a, int64_t r)
{
    return !a.labels || a.labels[r] != a.ignore_index;
}

__device__ __forceinline__ float batch_factor(const batch_args &a)
{
    return (float)((a.counted ? *a.counted : a.share) * (a.dloss ? *a.dloss : 1) * a.unit);
}

/* The sum of what the block's teams have found. */
__device__ __forceinline__ void batch_leave(const batch_args &a, const team &t, double loss)
{
    __shared__ double losses[MOST_LANES / 2];
    if (!a.partial)
        return;
    if (t.lane == 0)
        losses[t.index] = loss;
    __syncthreads();
    loss = 0;
    for (int i = 0; i < (int)blockDim.x / a.lanes && threadIdx.x == 0; i++)
        loss += losses[i];
    if (threadIdx.x == 0)
        a.partial[blockIdx.x] = loss;
}

#endif
