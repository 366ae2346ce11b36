/* flash_attention_scores.cuh - what becomes of products of queries and keys in a warp's registers:
 * soft cap, bias, and what a query does not see. Row r and column c of 16 MT x 8 NT. */
#ifndef CUDA_FLASH_ATTENTION_SCORES_CUH
#define CUDA_FLASH_ATTENTION_SCORES_CUH

#include "flash_attention_sequences.cuh"
#include "flash_attention_tile.cuh"
#include "rows/tanh.cuh"

/* run(m, n, i, r, c) for each number x[m][n][i] of a thread. */
template <int MT, int NT, class F> __device__ __forceinline__ void each_score(F run)
{
    const int lane = lane_id();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                run(m, n, i, m * 16 + i / 2 * 8 + lane / 4, n * 8 + lane % 4 * 2 + i % 2);
}

/* Columns of which row r of a warp sees those from r + low to r + high, below `all`: relative to
 * the warp's first row. */
struct flash_band {
    int low, high, all;

    /* Whether 16 MT rows see all of the columns from c on, or none. */
    template <int MT, int NT> __device__ __forceinline__ bool has_all(int c) const
    {
        return c >= low + 16 * MT - 1 && c + 8 * NT <= min(all, high);
    }
    template <int MT, int NT> __device__ __forceinline__ bool has_none(int c) const
    {
        return c >= high + 16 * MT - 1 || c + 8 * NT <= low;
    }
};

/* What is not seen becomes `value`; c: the first column. */
template <int MT, int NT>
__device__ __forceinline__ void flash_hide(float (&x)[MT][NT][4], const flash_band &band, int c,
                                           float value)
{
    each_score<MT, NT>([&](int m, int n, int i, int row, int column) {
        const int at = c + column;
        if (at < row + band.low || at >= min(band.all, row + band.high))
            x[m][n][i] = value;
    });
}

/* Scores of a head's queries and keys in units of ln 2, where they are more than products times a
 * factor. */
template <class T> struct flash_scores {
    const flash_problem &p;
    const flash_sequence &of;
    int64_t first; /* place of the sequence's first bias */

    __device__ __forceinline__ flash_scores(const flash_problem &p_, const flash_sequence &of_,
                                            int head)
        : p(p_), of(of_),
          first(of_.batch * p_.bias.batch + head * p_.bias.head + of_.query * p_.bias.row + of_.key)
    {
    }

    /* slope: the derivative with respect to the product times the scale. */
    __device__ __forceinline__ float of_product(float product, int query, int key,
                                                float *slope) const
    {
        constexpr float LOG2_E = 1.44269504088896341f;
        float score = product * p.factor;
        *slope = 1;
        if (p.softcap != 0) {
            const tanh_pair t = tanh_and_slope(product * (p.scale / p.softcap));
            score = t.value * (p.softcap * LOG2_E);
            *slope = t.slope;
        }
        if (p.bias.of.data && query < of.queries && key < of.keys)
            score += get<T>(p.bias.of, first + query * p.bias.row + key) * LOG2_E;
        return score;
    }
};

#endif
