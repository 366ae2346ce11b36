/* fused_linear_cross_entropy.cuh - what the product of logits leaves, and what becomes of a row:
 * kernels of bf16.
 *
 * Logits are never written. Their product leaves E = exp(z - offset), of each row and tile the
 * largest logit and the sum of E before it is rounded, and the target's logit. The offset is 0:
 * bf16 has the exponents for that, and its digits are the same everywhere. A row whose largest
 * logit is below LOWEST, so that its small probabilities would be lost, or above HIGHEST, where
 * sums would come near the end of the range, takes it for its offset, and its tiles are made again.
 * The gradient of the logits is E times a number of the row, but for the target, whose element of E
 * is overwritten so that this holds for it as well; the row's number goes into the products with
 * E. */
#ifndef CUDA_FUSED_LINEAR_CROSS_ENTROPY_CUH
#define CUDA_FUSED_LINEAR_CROSS_ENTROPY_CUH

#include "last_layer.cuh"
#include "rows/parts.cuh"

enum { COUNT_THREADS = 1024, LOWEST = -20, HIGHEST = 60 };

/* What a tile's columns say of a row, the target's apart. */
struct row_part {
    float max, sum; /* the largest logit; of exp(logit - offset) */
};

enum row_kind { COUNTS, IGNORED, OUT_OF_RANGE };

/* A row on its way through the kernels. */
struct row_state {
    row_kind kind; /* by its target */
    float logit;   /* of the target */
    float offset;  /* of the exponentials: infinite where all shall be 0 */
    float loss, z_loss;
};

/* ---- the result of the product of logits ---- */

struct exponentials {
    typedef bf16 type;
    static constexpr bool ADDED = false, FETCHES = false;
    row_state *state; /* [rows] */
    const int64_t *target;
    row_part *parts; /* [rows, tiles] */
    float by;        /* logits are the product times this */
    int rows, classes, tiles, stored;

    struct two_rows {
        float offset[2];
        int target[2]; /* -1 for none */
    };

    __device__ __forceinline__ two_rows begin(int row) const
    {
        two_rows t;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            t.offset[h] = row + 8 * h < rows ? state[row + 8 * h].offset : 0;
            t.target[h] = target_of(target, row + 8 * h, rows, classes);
        }
        return t;
    }

    __device__ __forceinline__ bool finish(float (&d)[128], const two_rows &t, int row, int tile,
                                           uint32_t (&pairs)[64]) const
    {
        float max[2] = {-CUDART_INF_F, -CUDART_INF_F}, sum[2] = {0, 0};
        if (by != 1)
#pragma unroll
            for (int i = 0; i < 128; i++)
                d[i] *= by;
        leave_out(d, t.target, tile * TILE_N, classes,
                  [&](int h, float x) { state[row + 8 * h].logit = x; });
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int h = i % 2;
            max[h] = fmaxf(max[h], fmaxf(d[2 * i], d[2 * i + 1]));
            const float a = exp_term(d[2 * i] - t.offset[h]);
            const float b = exp_term(d[2 * i + 1] - t.offset[h]);
            sum[h] += a;
            sum[h] += b;
            pairs[i] = narrow_pair<bf16>(a, b);
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int o = 1; o < 4; o *= 2) {
                max[h] = fmaxf(max[h], __shfl_xor_sync(0xffffffffu, max[h], o));
                sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], o);
            }
            if (threadIdx.x % 4 == 0 && row + 8 * h < rows)
                parts[(int64_t)(row + 8 * h) * tiles + tile] = {max[h], sum[h]};
        }
        return stored;
    }
};

/* ---- the rows of a chunk ---- */

struct chunk_rows {
    /* scaled: rows of x times their factor, for the gradient of weight; or absent */
    row_span x, scaled;
    const int64_t *target;
    row_state *state;
    const row_part *parts;
    float *factor; /* the gradient of a row's logits is E times this */
    int *again;    /* [pairs of tiles]: those whose tiles are made again */
    bf16 *e;       /* NULL: no gradients */
    int64_t pitch, first, ignore_index;
    int rows, classes, hidden, tiles;
    index_range range;
    const float *dloss;
    float *per_row;  /* what each row's loss is multiplied with; NULL: 1 */
    int64_t counted; /* rows from the first on that one more block counts; 0: there is none */
    float z, slope;  /* slope: what dloss is multiplied with, of the product's gradient */
    int each;        /* dloss has a number a row */
    float *loss, *z_loss, *lse; /* one a row; NULL: not asked for */
};

/* *per_row = 1 / the number of rows that count, of all chunks; 0 if none does. One block. */
__device__ __forceinline__ static void count_rows(const chunk_rows &a)
{
    double count = 0;
    for (int64_t r = threadIdx.x; r < a.counted; r += ROW_THREADS)
        count += a.target[r] != a.ignore_index && a.target[r] >= 0 && a.target[r] < a.classes;
    count = block_sum<ROW_THREADS>(count);
    if (threadIdx.x == 0)
        *a.per_row = count > 0 ? (float)(1 / count) : 0;
}

/* A thread a row. */
__global__ void __launch_bounds__(ROW_THREADS) begin_rows_kernel(const chunk_rows a)
{
    const int r = (int)(blockIdx.x * ROW_THREADS + threadIdx.x);
    if (a.counted && blockIdx.x == gridDim.x - 1)
        return count_rows(a);
    if (r >= a.rows)
        return;
    const int64_t y = a.target[r];
    const row_kind kind = y == a.ignore_index                   ? IGNORED
                          : a.range.holds(a.first + r, y, true) ? COUNTS
                                                                : OUT_OF_RANGE;
    a.state[r] = {kind, 0, kind == COUNTS ? 0 : CUDART_INF_F, 0, 0};
    a.factor[r] = 0;
    if (r % PAIR == 0)
        a.again[r / PAIR] = 0;
}

/* What all tiles say of the row, the target apart. */
__device__ __forceinline__ static row_part sums_of(const chunk_rows &a, int r, team &t)
{
    float max[1] = {-CUDART_INF_F};
    double sum = 0;
    for (int i = (int)threadIdx.x; i < a.tiles; i += ROW_THREADS) {
        const row_part part = a.parts[(int64_t)r * a.tiles + i];
        max[0] = fmaxf(max[0], part.max);
        sum += part.sum;
    }
    t.reduce(max, larger());
    return {max[0], (float)t.sum(sum)};
}

/* Loss and gradient of a row that counts: both are those of cross_entropy.cu, without its other
 * options. Returns the row's factor. */
__device__ __forceinline__ static float settle_row(const chunk_rows &a, int r, float sum,
                                                   row_state *s)
{
    target_sums t;
    t.x_y = s->logit;
    t.max = s->offset;
    t.sum = sum;
    const row_odds o = odds_of(t);
    const float per_row = a.per_row ? *a.per_row : 1;
    const float g = a.slope * per_row * (a.dloss ? a.dloss[a.each ? r : 0] : 1);
    const float both = 2 * a.z * o.lse; /* the slope of z lse^2 */
    const float factor = g * (1 + both) * (o.scale * expf(s->offset - o.max));
    s->z_loss = a.z != 0 ? a.z * o.lse * o.lse * per_row : 0;
    s->loss = o.minus_log_p * per_row + s->z_loss;
    if (a.lse)
        a.lse[r] = o.lse;
    if (a.e)
        put(a.e + r * a.pitch + a.target[r], factor != 0 ? g * (both * o.p - o.doubt) / factor : 0);
    return factor;
}

/* What one thread does for a row; sums: of one that counts. Returns the row's factor. */
__device__ __forceinline__ static float write_row(const chunk_rows &a, int r, const row_part &sums,
                                                  row_state s)
{
    if (s.kind == OUT_OF_RANGE)
        return 0;
    const float factor = s.kind == COUNTS ? settle_row(a, r, sums.sum, &s) : 0;
    if (s.kind == IGNORED && a.lse)
        a.lse[r] = 0;
    if (a.loss)
        a.loss[r] = s.loss;
    if (a.z_loss)
        a.z_loss[r] = s.z_loss;
    a.state[r] = s;
    return a.factor[r] = factor;
}

/* A block a row. again: only rows whose tiles have been made again; else those that need it ask for
 * that. */
__global__ void __launch_bounds__(ROW_THREADS) settle_rows_kernel(const chunk_rows a, int again)
{
    __shared__ team_memory memory;
    __shared__ float factor;
    const int r = (int)blockIdx.x;
    int *const pair = a.again + r / PAIR;
    if (again && !*pair)
        return;
    team t(&memory, ROW_THREADS);
    const row_state s = a.state[r];
    const row_part sums = s.kind == COUNTS ? sums_of(a, r, t) : row_part{0, 0};
    const float largest = fmaxf(sums.max, s.logit);
    if (!again && s.kind == COUNTS && !(largest >= LOWEST && largest <= HIGHEST)) {
        if (threadIdx.x == 0) {
            a.state[r].offset = copysignf(fminf(fabsf(largest), CUDART_MAX_NORMAL_F), largest);
            *pair = 1;
        }
        return;
    }
    if (threadIdx.x == 0)
        factor = write_row(a, r, sums, s);
    __syncthreads();
    for (int j = (int)threadIdx.x * V<bf16>; a.scaled.data && j < a.hidden;
         j += ROW_THREADS * V<bf16>) {
        float x[V<bf16>];
        widen<bf16>(*(const uint4 *)(a.x.row<bf16>(r) + j), x);
#pragma unroll
        for (int i = 0; i < V<bf16>; i++)
            x[i] *= factor;
        *(uint4 *)(a.scaled.row<bf16>(r) + j) = narrow<bf16>(x);
    }
}

/* ---- over all rows: one block, in a fixed order ---- */

__global__ void __launch_bounds__(COUNT_THREADS)
    sum_losses_kernel(const row_state *state, int64_t rows, float *loss, float *z_loss)
{
    double sums[2] = {0, 0};
    for (int64_t r = threadIdx.x; r < rows; r += COUNT_THREADS) {
        sums[0] += state[r].loss;
        sums[1] += state[r].z_loss;
    }
    block_sum<COUNT_THREADS>(sums);
    if (threadIdx.x != 0)
        return;
    *loss = (float)sums[0];
    if (z_loss)
        *z_loss = (float)sums[1];
}

#endif
