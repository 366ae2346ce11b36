/* fused_ce_tvd_apart.cuh - a pair of rows whose distributions are plainly apart, as those of
 * different models are: their probabilities may be subtracted as they are, from four exponentials
 * for each pair of logits, in two passes. Whether a pair is such a one shows in the results. */
#ifndef CUDA_FUSED_CE_TVD_APART_CUH
#define CUDA_FUSED_CE_TVD_APART_CUH

#include "softmax_jsd_rows.cuh"

/* Rows have the same lse but for a rounding where ties count, whose sign is 0, and probabilities
 * that nearly agree have a distance that is the rest of a difference. */
static constexpr float LEAST_OF_OFFSETS = 0x1p-16f, LEAST_DISTANCE = 0x1p-4f;

struct rows_apart {
    bool are; /* all of this holds */
    float log_p, distance, sigma, lse[2];
};

/* Exponentials of a row's logits that a thread has seen, from 2 to the base. */
struct running_sum {
    float base, sum;

    template <int N> __device__ __forceinline__ void add(const float (&x)[N])
    {
        float max = x[0];
#pragma unroll
        for (int i = 1; i < N; i++)
            max = fmaxf(max, x[i]);
        max = __fmul_rn(max, LOG2_E);
        if (max > base) {
            sum *= exp2_term(base - max);
            base = max;
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            sum += exp2_term(fmaf(x[i], LOG2_E, -base));
    }
};

/* The team's: base and sum of both rows. */
template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static void sum_powers(TEAM &t, int n, const PAIR &pair,
                                                  running_sum (&of)[2])
{
    of[0] = of[1] = {-CUDART_MAX_NORMAL_F, 0};
    pair.template for_each<false>(t, n, [&](int, float(&x)[V<T>], float(&z)[V<T>]) {
        of[0].add(x);
        of[1].add(z);
    });
    float base[2] = {of[0].base, of[1].base}, sum[2];
    t.reduce(base, larger());
#pragma unroll
    for (int m = 0; m < 2; m++)
        sum[m] = of[m].sum * exp2_term(of[m].base - base[m]);
    t.sum(sum);
#pragma unroll
    for (int m = 0; m < 2; m++)
        of[m] = {base[m], sum[m]};
}

/* x_y: the student's logit of the target. */
template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static rows_apart compare_apart(TEAM &t, int n, const PAIR &pair,
                                                           float x_y)
{
    running_sum of[2];
    rows_apart r;
    float share[2], log_sum[2], sums[2] = {0, 0}; /* |p - q|, p sign(p - q) */
    sum_powers<T>(t, n, pair, of);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        share[m] = 1 / of[m].sum;
        log_sum[m] = log2f(of[m].sum);
        r.lse[m] = (float)LN_2 * (of[m].base + log_sum[m]);
    }
    const float offset = of[0].base - of[1].base + log_sum[0] - log_sum[1];
    r.log_p = fmaf(x_y, LOG2_E, -of[0].base) - log_sum[0];
    /* none of it is NaN; bases are not so high that their rounding would be seen; what is left
     * beside the target is no difference */
    r.are = fabsf(of[0].base) <= HIGHEST_BASE && fabsf(of[1].base) <= HIGHEST_BASE &&
            of[0].sum > 0 && of[1].sum > 0 && fabsf(offset) >= LEAST_OF_OFFSETS && r.log_p <= -1;
    if (!r.are)
        return r;
    pair.template for_each<false>(t, n, [&](int, float(&x)[V<T>], float(&z)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float p = share[0] * exp2_term(fmaf(x[i], LOG2_E, -of[0].base));
            const float d = fmaf(-share[1], exp2_term(fmaf(z[i], LOG2_E, -of[1].base)), p);
            sums[0] += fabsf(d);
            sums[1] += d < 0 ? -p : d > 0 ? p : 0;
        }
    });
    t.sum(sums);
    r.distance = sums[0] / 2;
    r.sigma = sums[1];
    r.are = r.distance >= LEAST_DISTANCE;
    return r;
}

#endif
