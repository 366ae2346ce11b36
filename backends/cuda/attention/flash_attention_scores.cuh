/* flash_attention_scores.cuh - what becomes of products of queries and keys in a warp's registers:
 * soft cap, bias, dropout, and what a query does not see. Row r and column c of 16 MT x 8 NT. */
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

/* Where the columns of a kernel begin, keys of which the first that some row sees is `first`: where
 * something is drawn, at a multiple of what is drawn together; where the rows beside a row do not
 * change its sums, at a multiple of a tile. */
template <int COLUMNS, bool FORMED>
__device__ __forceinline__ int flash_from(const flash_problem &p, int first)
{
    const int drawn = FORMED && p.dropout.least ? min(COLUMNS, 32) : 1;
    return first - first % (p.alike ? COLUMNS : drawn);
}

/* Which of a thread's powers are kept: bit 2 n + i % 2 of kept[m][i / 2]. head: the number of the
 * sequence times heads, plus the head. A draw of random.h has the numbers of a query and of keys
 * 8 w + 2 c and the next, of a counter c and four words w, counted from a multiple of 32 on. */
template <bool OF_KEYS, int MT, int NT>
__device__ __forceinline__ void flash_draw(uint32_t (&kept)[MT][2], const tg_dropout &d,
                                           uint32_t head, int row, int column)
{
    const int lane = lane_id();
#pragma unroll
    for (int i = 0; i < 2 * MT; i++)
        kept[i / 2][i % 2] = d.least ? 0 : ~0u;
    if (!d.least)
        return;
    const auto keep = [&](int m, int h, int bit, uint32_t word, bool high) {
        kept[m][h] |= (uint32_t)((high ? word >> 16 : word & 0xffff) >= d.least) << bit;
    };
    const auto word_of = [](const tg_drawn &x, int w) {
        return w < 2 ? (w ? x.word[1] : x.word[0]) : w == 2 ? x.word[2] : x.word[3];
    };
    if constexpr (OF_KEYS) {
        const int first = row % 32 / 8; /* word of the first row, a multiple of 16 */
#pragma unroll
        for (int bit = 0; bit < 2 * NT; bit++) {
            const int query = column + bit / 2 * 8 + lane % 4 * 2 + bit % 2;
            const tg_drawn x = tg_dropout_draw(d, head, query, row / 32, lane / 8);
#pragma unroll
            for (int i = 0; i < 2 * MT; i++)
                keep(i / 2, i % 2, bit, word_of(x, MT == 2 ? i : first + i), lane / 4 % 2);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
#pragma unroll
            for (int n = 0; n < NT; n += 4) {
                const tg_drawn x = tg_dropout_draw(d, head, row + i * 8 + lane / 4,
                                                   (column + n * 8) / 32, lane % 4);
#pragma unroll
                for (int j = n; j < n + 4 && j < NT; j++) {
                    const uint32_t word = word_of(x, NT < 4 ? column / 8 % 4 + j : j % 4);
                    keep(i / 2, i % 2, 2 * j, word, false);
                    keep(i / 2, i % 2, 2 * j + 1, word, true);
                }
            }
    }
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
