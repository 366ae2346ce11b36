// causal_conv1d_sums.cuh - the sums of a run of rows that are the gradients of weight and bias.
#ifndef CUDA_CAUSAL_CONV1D_SUMS_CUH
#define CUDA_CAUSAL_CONV1D_SUMS_CUH

#include "causal_conv1d.cuh"

/* The sums of a run. */
template <class T, int K> struct conv_sums {
    float taps[K][V<T>], bias[V<T>];

    __device__ __forceinline__ void add(const conv_window<T, K> &window, int reach,
                                        const float (&dv)[V<T>])
    {
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            bias[i] += dv[i];
#pragma unroll
        for (int back = 0; back < K; back++)
            if (back <= reach)
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    taps[back][i] += dv[i] * window.u[back][i];
    }
    __device__ __forceinline__ void write(const conv_args &a, int j) const
    {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
                return;
            if (a.dbias)
                a.dbias[(int64_t)blockIdx.y * a.n + j + i] = bias[i];
#pragma unroll
            for (int back = 0; back < K; back++)
                if (a.dweight && back < a.width)
                    a.dweight[((int64_t)blockIdx.y * a.n + j + i) * a.width + a.width - 1 - back] =
                        taps[back][i];
        }
    }
};

#endif
