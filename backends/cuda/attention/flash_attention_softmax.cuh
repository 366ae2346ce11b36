/* flash_attention_softmax.cuh - a running maximum and sum of powers of scores, tile by tile. */
#ifndef CUDA_FLASH_ATTENTION_SOFTMAX_CUH
#define CUDA_FLASH_ATTENTION_SOFTMAX_CUH

#include "flash_attention_tile.cuh"

/* Scores of row h of a thread's two become powers of 2 of their differences from the row's maximum
 * so far; what came before is to be multiplied by `old`. */
template <class T, int N>
__device__ __forceinline__ void flash_powers(float (&s)[N][4], int h, float &most, float &sum,
                                             float &old, float factor)
{
    float top = most;
#pragma unroll
    for (int n = 0; n < N; n++)
        top = fmaxf(top, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
    /* rounded once, so that the power of the maximum itself is that of P_EXPONENT */
    const float from = top == -CUDART_INF_F ? P_EXPONENT<T> : fmaf(-top, factor, P_EXPONENT<T>);
    /* of the difference, which is 0 where the maximum stays: sums do, too, then */
    old = power_of_2((most - (top == -CUDART_INF_F ? 0 : top)) * factor);
    most = top;
    float part = 0;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) {
            s[n][e] = power_of_2(fmaf(s[n][e], factor, from));
            part += s[n][e];
        }
    sum = sum * old + part;
}

/* The same of both. */
template <class T, int N>
__device__ __forceinline__ void flash_powers(float (&s)[N][4], float (&most)[2], float (&sum)[2],
                                             float (&old)[2], float factor)
{
#pragma unroll
    for (int h = 0; h < 2; h++)
        flash_powers<T>(s, h, most[h], sum[h], old[h], factor);
}

/* The same for a thread's rows of MT tiles; y is scaled where a maximum has changed. */
template <class T, int MT, int NT, int N>
__device__ __forceinline__ void flash_softmax(float (&s)[MT][NT][4], float (&most)[MT][2],
                                              float (&sum)[MT][2], float (&y)[MT][N][4],
                                              float factor)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        float old[2];
        flash_powers<T>(s[m], most[m], sum[m], old, factor);
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (__any_sync(0xffffffff, old[h] != 1)) {
#pragma unroll
                for (int n = 0; n < N; n++) {
                    y[m][n][2 * h] *= old[h];
                    y[m][n][2 * h + 1] *= old[h];
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
