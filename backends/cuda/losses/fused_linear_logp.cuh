/* fused_linear_logp.cuh - log-probabilities, entropies and their kin from the product of logits,
 * which is never written: kernels of bf16.
 *
 * The product leaves, of each row and tile, the largest logit and sums relative to it, and the
 * target's logit, which stands apart from them. What has a tile's largest logit is counted and not
 * summed, so that a row's largest stands apart, too: where it has nearly all of the probability,
 * entropies keep their digits (README.md of softmax_logp). */
#ifndef CUDA_FUSED_LINEAR_LOGP_CUH
#define CUDA_FUSED_LINEAR_LOGP_CUH

#include "last_layer.cuh"

/* What is asked for: log-probabilities and lse; entropies as well; and mean logits, sums of squared
 * probabilities and predicted classes. */
enum logp_kind { LOGP_OF_TARGETS, LOGP_ENTROPY, LOGP_ALL_RESULTS };

/* What a tile's columns say of a row, the target apart: the largest logit, how many columns have
 * it, and of the others, with d = logit - max, the sums of exp(d) and of -d exp(d). */
struct logp_part {
    float max, others, gaps;
    int tops;
};

/* And the sums of exp(2 d) and of all logits, and the first column of the largest. */
struct logp_more {
    float squares, total;
    int first;
};

/* ---- the result of the product of logits ---- */

template <int KIND> struct logp_sums {
    typedef bf16 type;
    static constexpr bool ADDED = false, FETCHES = false;
    const int64_t *target;
    float *logit; /* [rows], of the target */
    logp_part *parts;
    logp_more *more; /* [rows, tiles] */
    float by;        /* logits are the product times this */
    int rows, classes, tiles;

    struct two_rows {
        int target[2]; /* -1 for none */
    };

    __device__ __forceinline__ two_rows begin(int row) const
    {
        two_rows t;
#pragma unroll
        for (int h = 0; h < 2; h++)
            t.target[h] = target_of(target, row + 8 * h, rows, classes);
        return t;
    }

    /* Of this thread's columns that are there. */
    __device__ __forceinline__ void add_all(const float (&d)[128], int left,
                                            float (&total)[2]) const
    {
#pragma unroll
        for (int i = 0; i < 128; i++)
            total[i / 2 % 2] += i / 4 * 8 + i % 2 < left ? d[i] : 0;
    }

    __device__ __forceinline__ bool finish(float (&d)[128], const two_rows &t, int row, int tile,
                                           uint32_t (&)[64]) const
    {
        const int own = tile * TILE_N + 2 * (int)(threadIdx.x % 4);
        float max[2] = {-CUDART_INF_F, -CUDART_INF_F}, others[2] = {0, 0}, gaps[2] = {0, 0};
        float squares[2] = {0, 0}, total[2] = {0, 0};
        int tops[2] = {0, 0}, first[2] = {INT32_MAX, INT32_MAX};
        if (by != 1)
#pragma unroll
            for (int i = 0; i < 128; i++)
                d[i] *= by;
        if (KIND == LOGP_ALL_RESULTS)
            add_all(d, classes - own, total);
        leave_out(d, t.target, tile * TILE_N, classes,
                  [&](int h, float x) { logit[row + 8 * h] = x; });
#pragma unroll
        for (int i = 0; i < 128; i++)
            max[i / 2 % 2] = fmaxf(max[i / 2 % 2], d[i]);
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int o = 1; o < 4; o *= 2)
                max[h] = fmaxf(max[h], __shfl_xor_sync(0xffffffffu, max[h], o));
        const float from[2] = {max[0] == -CUDART_INF_F ? 0 : max[0],
                               max[1] == -CUDART_INF_F ? 0 : max[1]};
#pragma unroll
        for (int i = 0; i < 128; i++) {
            const int h = i / 2 % 2;
            const bool top = d[i] == max[h];
            const float apart = d[i] - from[h], e = top ? 0 : exp_term(apart);
            tops[h] += top;
            others[h] += e;
            if (KIND >= LOGP_ENTROPY) /* exp(-200) is 0, and no product with infinity */
                gaps[h] -= e * fmaxf(apart, -200);
            if (KIND == LOGP_ALL_RESULTS)
                squares[h] += e * e;
        }
        if (KIND == LOGP_ALL_RESULTS)
#pragma unroll
            for (int i = 127; i >= 0; i--)
                first[i / 2 % 2] = d[i] == max[i / 2 % 2] ? i / 4 * 8 + i % 2 : first[i / 2 % 2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            first[h] += first[h] == INT32_MAX ? 0 : own;
#pragma unroll
            for (int o = 1; o < 4; o *= 2) {
                others[h] += __shfl_xor_sync(0xffffffffu, others[h], o);
                tops[h] += __shfl_xor_sync(0xffffffffu, tops[h], o);
                gaps[h] += __shfl_xor_sync(0xffffffffu, gaps[h], o);
                squares[h] += __shfl_xor_sync(0xffffffffu, squares[h], o);
                total[h] += __shfl_xor_sync(0xffffffffu, total[h], o);
                first[h] = min(first[h], __shfl_xor_sync(0xffffffffu, first[h], o));
            }
            if (threadIdx.x % 4 != 0 || row + 8 * h >= rows)
                continue;
            const int64_t at = (int64_t)(row + 8 * h) * tiles + tile;
            parts[at] = {max[h], others[h], gaps[h], tops[h]};
            if (KIND == LOGP_ALL_RESULTS)
                more[at] = {squares[h], total[h], first[h]};
        }
        return false;
    }
};

/* ---- the rows of a chunk ---- */

struct logp_rows {
    const int64_t *target;
    const float *logit;
    const logp_part *parts;
    const logp_more *more;
    int64_t first, ignore_index;
    int rows, classes, tiles;
    index_range range;
    float temperature;                            /* which the sums' logits were divided by */
    float *logp, *lse, *entropy, *mean, *squares; /* one a row; NULL: not asked for */
    int64_t *predicted;
};

/* Sums over all classes but the target, relative to the largest of them, which is the lowest number
 * where there is nothing; gaps and squares without those that have it, of which there are tops. */
struct logp_row {
    float max, others, gaps, squares, total, tops;
    int first;
};

/* Of all tiles. Two tiles' largest logits may be one. */
__device__ __forceinline__ static logp_row logp_row_of(const logp_rows &a, int r, team &t)
{
    const logp_part *const parts = a.parts + (int64_t)r * a.tiles;
    const logp_more *const more = a.more ? a.more + (int64_t)r * a.tiles : NULL;
    float max[1] = {-CUDART_MAX_NORMAL_F}, sums[3] = {0, 0, 0}, others[2] = {0, 0};
    int first = INT32_MAX;
    for (int i = (int)threadIdx.x; i < a.tiles; i += ROW_THREADS)
        max[0] = fmaxf(max[0], parts[i].max);
    t.reduce(max, larger());
    for (int i = (int)threadIdx.x; i < a.tiles; i += ROW_THREADS) {
        const logp_part p = parts[i];
        const bool is_top = p.max == max[0];
        const float apart = fmaxf(p.max - max[0], -200), f = expf(apart);
        const float lower = p.max == -CUDART_INF_F ? 0 : f * (float)p.tops;
        const float all = f * p.others + (is_top ? 0 : lower);
        others[0] += all;
        others[1] += is_top ? (float)p.tops : 0;
        sums[0] += f * p.gaps - apart * all;
        if (!more)
            continue;
        sums[1] += f * (f * more[i].squares + (is_top ? 0 : lower));
        sums[2] += more[i].total;
        if (is_top || max[0] == -CUDART_MAX_NORMAL_F)
            first = min(first, more[i].first);
    }
    t.sum(others);
    t.sum(sums);
    float at[1] = {__int_as_float(first)};
    t.reduce(at, smaller_index());
    return {max[0], others[0], sums[0], sums[1], sums[2], others[1], __float_as_int(at[0])};
}

/* What else is asked for, by thread 0; x: the target's logit, y its class. */
__device__ __forceinline__ static void write_more(const logp_rows &a, int r, const logp_row &s,
                                                  float x, int y)
{
    const bool largest = x > s.max || s.tops == 0;
    const float max = largest ? x : s.max, other = (largest ? s.max : x) - max;
    const float e = s.tops == 0 ? 0 : expf(other), apart = fmaxf(other, -200);
    float others, gaps, squares;
    if (largest) { /* the sums become relative to the target's */
        const float all = e * (s.others + s.tops);
        others = all;
        gaps = e * s.gaps - apart * all;
        squares = e * e * (s.squares + s.tops);
    } else {
        others = s.others + (s.tops - 1) + e;
        gaps = s.gaps - apart * e;
        squares = s.squares + (s.tops - 1) + e * e;
    }
    const float log_sum = log1pf(others += max - max); /* NaN without a finite largest */
    if (a.entropy)
        a.entropy[r] = log_sum + gaps / (1 + others);
    if (a.mean)
        a.mean[r] = s.total / (float)a.classes * a.temperature;
    if (a.squares)
        a.squares[r] = log1pf(squares) - 2 * log_sum;
    if (a.predicted)
        a.predicted[r] =
            x > s.max || (x == s.max && y < s.first) || s.first == INT32_MAX ? y : s.first;
}

__device__ __forceinline__ static void write_nothing(const logp_rows &a, int r)
{
    float *const zeros[] = {a.logp, a.lse, a.entropy, a.mean, a.squares};
#pragma unroll
    for (int i = 0; i < 5; i++)
        if (zeros[i])
            zeros[i][r] = 0;
    if (a.predicted)
        a.predicted[r] = -1;
}

/* A block a row. */
__global__ void __launch_bounds__(ROW_THREADS) settle_logp_kernel(const logp_rows a)
{
    __shared__ team_memory memory;
    const int r = (int)blockIdx.x;
    const int64_t y = a.target[r];
    if (y == a.ignore_index) {
        if (threadIdx.x == 0)
            write_nothing(a, r);
        return;
    }
    if (!a.range.holds(a.first + r, y, threadIdx.x == 0))
        return;
    team t(&memory, ROW_THREADS);
    const logp_row s = logp_row_of(a, r, t);
    if (threadIdx.x != 0)
        return;
    const float x = a.logit[r];
    const row_odds o = odds_of({x, s.max, s.others + s.tops + (s.max - s.max)});
    a.logp[r] = -o.minus_log_p;
    if (a.lse)
        a.lse[r] = o.lse;
    write_more(a, r, s, x, (int)y);
}

#endif
