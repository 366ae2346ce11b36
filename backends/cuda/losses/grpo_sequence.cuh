/* grpo_sequence.cuh - what a call of grpo_loss or policy_loss is given, and what a block knows of
 * its sequence and of each token. */
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
    token_plane ratio_mask; /* i64: tokens that ratios are made of; no data: those that are kept */
    /* forward */
    token_plane loss, kl, clipped; /* of each token */
    double
        *partial; /* sums of a block: of loss, kl, clipped, and its tokens; NULL: of each token */
    /* backward */
    token_plane dloss, dlogp; /* dlogp may be logp */
    const double *all;        /* tokens that are kept, where they count; NULL: 1 */
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

/* Whether a token is one that its sequence's ratio is made of. */
__device__ __forceinline__ static bool rates(const grpo_args &a, int64_t b, int64_t l)
{
    return a.ratio_mask.data ? *a.ratio_mask.at<int64_t>(b, l) != 0 : keeps(a, b, l);
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
    /* tokens; how far they have moved; the same, clamped, with is_ratio; which have moved */
    double sums[4] = {0, 0, 0, 0};
    for (int64_t l = threadIdx.x; l < a.k.length; l += GRPO_THREADS) {
        sums[0] += keeps(a, b, l);
        if (compares && rates(a, b, l)) {
            const double lp = a.logp.number<T>(b, l), moved = lp - old_of<T>(a, b, l, lp);
            sums[3] += 1;
            sums[1] += moved;
            sums[2] += clamp(moved, -20, 20) + (each ? log_is_ratio(a, b, l) : 0);
        }
    }
    block_total(sums);
    grpo_sequence s = {*a.advantages.at<float>(b, 0), sums[0], sums[3], 0, 0, 1};
    if (compares) {
        s.rho = exp(sums[1] / at_least_1(s.rated));
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
    const double lp = a.logp.number<T>(b, l), old = old_of<T>(a, b, l, lp);
    const double ratio = a.is_ratio.data ? *a.is_ratio.at<float>(b, l) : 1;
    const double ref = a.ref_logp.data ? a.ref_logp.number<T>(b, l) : 0;
    return token_of(a.o, s, lp, old, ratio, a.ref_logp.data ? &ref : NULL);
}

#endif
