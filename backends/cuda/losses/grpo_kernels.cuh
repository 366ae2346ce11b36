/* grpo_kernels.cuh - the losses of tokens and their gradients, of grpo_loss and policy_loss. A
 * block has a sequence, or a slice of it. */
#ifndef CUDA_GRPO_KERNELS_CUH
#define CUDA_GRPO_KERNELS_CUH

#include "grpo_sequence.cuh"

/* ---- forward ---- */

__device__ __forceinline__ static void write_token(const grpo_args &a, int64_t b, int64_t l,
                                                   const grpo_token &t)
{
    *a.loss.at<float>(b, l) = (float)t.loss;
    if (a.kl.data)
        *a.kl.at<float>(b, l) = (float)t.kl;
    if (a.clipped.data)
        *a.clipped.at<float>(b, l) = (float)t.clipped;
}

template <class T>
__global__ void __launch_bounds__(GRPO_THREADS) grpo_kernel(const __grid_constant__ grpo_args a)
{
    const int64_t b = blockIdx.x;
    wait_for_the_kernel_before();
    const grpo_sequence s = sequence_of<T>(a, b);
    double sums[4] = {0, 0, 0, 0};
    for (int64_t l = (int64_t)blockIdx.y * GRPO_THREADS + threadIdx.x; l < a.k.length;
         l += (int64_t)gridDim.y * GRPO_THREADS) {
        int y;
        const token_state state = a.k.state(b, l, false, &y);
        grpo_token t = {0, 0, 0, 0, 0};
        if (state == TOKEN_KEPT)
            t = token_at<T>(a, s, b, l);
        if (a.o.each && state != TOKEN_REFUSED)
            write_token(a, b, l, t);
        sums[0] += s.weight * t.loss;
        sums[1] += t.kl;
        sums[2] += t.clipped;
        sums[3] += state == TOKEN_KEPT;
    }
    if (!a.partial)
        return;
    block_sum<GRPO_THREADS>(sums);
    if (threadIdx.x == 0)
#pragma unroll
        for (int k = 0; k < 4; k++)
            a.partial[4 * (b * gridDim.y + blockIdx.y) + k] = sums[k];
}

/* The number of tokens that are kept. */
__global__ void __launch_bounds__(ALL_TOKENS_THREADS)
    grpo_count_kernel(const __grid_constant__ grpo_args a, double *to)
{
    double count = 0;
    for (int64_t i = threadIdx.x; i < a.k.logits.rows; i += ALL_TOKENS_THREADS) {
        const int64_t b = i / a.k.length;
        count += keeps(a, b, i - b * a.k.length);
    }
    count = block_sum<ALL_TOKENS_THREADS>(count);
    if (threadIdx.x == 0)
        *to = count;
}

__global__ void __launch_bounds__(ALL_TOKENS_THREADS)
    grpo_total_kernel(const double *partial, int64_t count, bool by_all, float *loss, float *kl,
                      float *clipped)
{
    double sums[4] = {0, 0, 0, 0};
    wait_for_the_kernel_before();
    for (int64_t i = threadIdx.x; i < count; i += ALL_TOKENS_THREADS)
#pragma unroll
        for (int k = 0; k < 4; k++)
            sums[k] += partial[4 * i + k];
    block_sum<ALL_TOKENS_THREADS>(sums);
    if (threadIdx.x != 0)
        return;
    const double all = at_least_1(sums[3]);
    *loss = (float)(sums[0] / (by_all ? all : 1));
    if (kl)
        *kl = (float)(sums[1] / all);
    if (clipped)
        *clipped = (float)(sums[2] / all);
}

/* ---- backward ---- */

/* What a token's derivatives are multiplied by: what it counts, times what is upstream. */
__device__ __forceinline__ static double weight_at(const grpo_args &a, const grpo_sequence &s,
                                                   int64_t b, int64_t l)
{
    return s.weight * (a.dloss.data ? *a.dloss.at<float>(b, l) : 1);
}

/* At TG_SEQUENCE_LEVEL log rho is the mean of logp - old_logp, so each token gets an equal part of
 * what reaches it. That is added before anything is rounded to f32: with few tokens the
 * exponentials of a divergence cancel. */
template <class T>
__global__ void __launch_bounds__(GRPO_THREADS)
    grpo_gradient_kernel(const __grid_constant__ grpo_args a)
{
    const int64_t b = blockIdx.x;
    wait_for_the_kernel_before();
    const grpo_sequence s = sequence_of<T>(a, b);
    double shared[1] = {0};
    if (a.o.sequence) {
        for (int64_t l = threadIdx.x; l < a.k.length; l += GRPO_THREADS)
            if (keeps(a, b, l))
                shared[0] += weight_at(a, s, b, l) * token_at<T>(a, s, b, l).by_log_rho;
        block_total(shared);
    }
    for (int64_t l = (int64_t)blockIdx.y * GRPO_THREADS + threadIdx.x; l < a.k.length;
         l += (int64_t)gridDim.y * GRPO_THREADS) {
        double d = 0;
        if (keeps(a, b, l)) {
            const grpo_token t = token_at<T>(a, s, b, l);
            d = weight_at(a, s, b, l) * (a.o.sequence ? t.direct : t.direct + t.by_log_rho);
        }
        if (a.o.sequence && rates(a, b, l))
            d += shared[0] / s.rated;
        a.dlogp.put<T>(b, l, (float)d);
    }
}

#endif
