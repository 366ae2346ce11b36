/* flash_attention_softmax.cuh - a running maximum and sum of powers of scores, tile by tile. */
#ifndef CUDA_FLASH_ATTENTION_SOFTMAX_CUH
#define CUDA_FLASH_ATTENTION_SOFTMAX_CUH

#include "flash_attention_tile.cuh"

/* Scores become powers of 2 of their differences from the row's maximum so far; what is in `y` and
 * `sum` is scaled to it. */
template <class T, int MT, int NT, int N>
__device__ __forceinline__ void flash_softmax(float (&s)[MT][NT][4], float (&most)[MT][2],
                                              float (&sum)[MT][2], float (&y)[MT][N][4],
                                              float factor)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = most[m][h];
#pragma unroll
            for (int n = 0; n < NT; n++)
                top = fmaxf(top, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
            /* rounded once, so that the power of the maximum itself is that of P_EXPONENT */
            const float from =
                top == -CUDART_INF_F ? P_EXPONENT<T> : fmaf(-top, factor, P_EXPONENT<T>);
            /* of the difference, which is 0 where the maximum is the same: sums are then as they
             * were, over any number of tiles */
            const float old = power_of_2((most[m][h] - (top == -CUDART_INF_F ? 0 : top)) * factor);
            most[m][h] = top;
            float part = 0;
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    s[m][n][e] = power_of_2(fmaf(s[m][n][e], factor, from));
                    part += s[m][n][e];
                }
            sum[m][h] = sum[m][h] * old + part;
            if (__any_sync(0xffffffff, old != 1)) {
#pragma unroll
                for (int n = 0; n < N; n++) {
                    y[m][n][2 * h] *= old;
                    y[m][n][2 * h + 1] *= old;
                }
            }
        }
}

/* The greatest score of a row in units of ln 2. */
__device__ __forceinline__ float flash_top(float most, float factor)
{
    return most == -CUDART_INF_F ? -CUDART_INF_F : most * factor;
}

/* A head's sink, in units of ln 2, joins a row's sum of powers, if this thread `adds` it, and its
 * greatest score, which is in units of ln 2 then. Returns what sums so far are to be multiplied
 * with. */
template <class T>
__device__ __forceinline__ float flash_add_sink(float &sum, float &most, float factor, float sink,
                                                bool adds)
{
    const float old = flash_top(most, factor);
    most = fmaxf(old, sink);
    const float shift = most == -CUDART_INF_F ? 0 : most;
    const float shrink = power_of_2(old - shift);
    sum = sum * shrink + (adds ? power_of_2(sink - shift + P_EXPONENT<T>) : 0);
    return shrink;
}

#endif
