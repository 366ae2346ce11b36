/* grpo_sequence.cuh - what a call of grpo_loss is given, and what a block knows of its sequence and
 * of each token. */
#ifndef CUDA_GRPO_SEQUENCE_CUH
#define CUDA_GRPO_SEQUENCE_CUH

#include "grpo_policy.cuh"
#include "rows/parts.cuh"

enum {
    GRPO_THREADS = 256,
    GRPO_SLICES = 64 /* of a sequence, at most */,
    ALL_TOKENS_THREADS = 1024
};

struct grpo_args {
    grpo_options o;
    tokens k;
    token_plane advantages, old_logp, ref_logp, is_ratio, logp;
    /* forward */
    token_plane loss, kl, clipped; /* of each token */
    double
        *partial; /* sums of a block: of loss, kl, clipped, and its tokens; NULL: of each token */
    /* backward: logp becomes its gradient */
    token_plane dloss;
    const double *all; /* tokens that are kept, where they count; NULL: 1 */
};

/* ---- sequences ---- */

/* The block's sums, in all of its threads. */
template <int N> __device__ __forceinline__ static void block_total(double (&value)[N])
{
    __shared__ double total[N];
    block_sum<GRPO_THREADS>(value);
    if (threadIdx.x == 0)
#pragma unroll
        for (int k = 0; k < N; k++)
            total[k] = value[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++)
        value[k] = total[k];
}

__device__ __forceinline__ static bool keeps(const grpo_args &a, int64_t b, int64_t l)
{
    int y;
    return a.k.state(b, l, false, &y) == TOKEN_KEPT;
}

__device__ __forceinline__ static double log_is_ratio(const grpo_args &a, int64_t b, int64_t l)
{
    const double ratio = a.is_ratio.data ? *a.is_ratio.at<float>(b, l) : 1;
    return clamp(log(ratio), log(1e-8), 20);
}

template <class T>
__device__ __forceinline__ static double old_of(const grpo_args &a, int64_t b, int64_t l, double lp)
{
    return a.old_logp.data ? a.old_logp.number<T>(b, l) : lp;
}

/* What needs all tokens of the sequence: by the whole block. */
template <class T>
__device__ __forceinline__ static grpo_sequence sequence_of(const grpo_args &a, int64_t b)
{
    const bool compares = a.o.sequence || a.o.type == TG_VESPO, each = a.is_ratio.by_token != 0;
    double sums[3] = {0, 0,
                      0}; /* tokens; how far they have moved; the same, clamped, with is_ratio */
    for (int64_t l = threadIdx.x; l < a.k.length; l += GRPO_THREADS) {
        if (!keeps(a, b, l))
            continue;
        sums[0] += 1;
        if (compares) {
            const double lp = *a.logp.at<float>(b, l), moved = lp - old_of<T>(a, b, l, lp);
            sums[1] += moved;
            sums[2] += clamp(moved, -20, 20) + (each ? log_is_ratio(a, b, l) : 0);
        }
    }
    block_total(sums);
    grpo_sequence s = {*a.advantages.at<float>(b, 0), sums[0], 0, 0, 1};
    if (compares) {
        s.rho = exp(sums[1] / at_least_1(s.kept));
        s.phi = phi_of(a.o, s.advantage, sums[2] + (each ? 0 : log_is_ratio(a, b, 0)));
    }
    if (!a.o.each)
        s.weight = weight_of(a.o, (double)a.k.batch, (double)a.k.length, s.kept) /
                   (a.all ? at_least_1(*a.all) : 1);
    return s;
}

template <class T>
__device__ __forceinline__ static grpo_token token_at(const grpo_args &a, const grpo_sequence &s,
                                                      int64_t b, int64_t l)
{
    const double lp = *a.logp.at<float>(b, l), old = old_of<T>(a, b, l, lp);
    const double ratio = a.is_ratio.data ? *a.is_ratio.at<float>(b, l) : 1;
    const double ref = a.ref_logp.data ? a.ref_logp.number<T>(b, l) : 0;
    return token_of(a.o, s, lp, old, ratio, a.ref_logp.data ? &ref : NULL);
}

#endif
