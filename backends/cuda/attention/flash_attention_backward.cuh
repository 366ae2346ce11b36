/* flash_attention_backward.cuh - with p = exp(scale q k^T - lse) and ds = p (dy v^T - dy . y): dq =
 * scale ds k, dk = scale ds^T q, dv = p^T dy.
 *
 * One kernel for all of them. Its blocks own rows, of queries (dq) or of keys (dk, dv), and go over
 * the columns, keys or the queries of all heads that read these keys, tile by tile. Both scores and
 * dy v^T are products of rows with columns, and each gradient is a product with the columns' own
 * tile. So every sum is one warp's, in a fixed order, at the price of scores that are computed more
 * than once. The kernel for dq runs first and leaves what the others need of each query. */
#ifndef CUDA_FLASH_ATTENTION_BACKWARD_CUH
#define CUDA_FLASH_ATTENTION_BACKWARD_CUH

#include "flash_attention_launch.cuh"
#include "flash_attention_products.cuh"

enum { FLASH_DQ = 1, FLASH_DK = 2, FLASH_DV = 4 };

/* Rows and columns of a block. Of 16-bit heads of 128 elements dk and dv fit into registers
 * together where a warp has 16 keys. */
template <class T, int D, bool OF_KEYS> struct flash_backward {
    static constexpr bool HALF = sizeof(T) == 2;
    static constexpr int MT = HALF && D <= (OF_KEYS ? 64 : 128) ? 2 : 1;
    static constexpr int NT = HALF ? (D > 128             ? 2
                                      : D > 64 && OF_KEYS ? 8
                                                          : 4)
                                   : (D <= 64    ? 4
                                      : D <= 128 ? 2
                                                 : 1);
    static constexpr int WARPS = sizeof(T) == 4 && D > 128 ? 2 : 4;
    static constexpr int ROWS = 16 * MT * WARPS, COLUMNS = 8 * NT, THREADS = 32 * WARPS;
    static constexpr int TILE = COLUMNS * PITCH<T, D>, OWN = ROWS * PITCH<T, D>;
    static constexpr int OF_COLUMNS = COLUMNS * (int)sizeof(flash_row);
    static constexpr int BYTES = 2 * OWN + 4 * TILE + 2 * OF_COLUMNS;
    static_assert(BYTES <= FLASH_MOST_BYTES, "every card has so much shared memory");
    static constexpr bool TOGETHER = MT * D <= 128; /* registers hold dk and dv at once */
};

/* dy . y of the warp's rows, whose dy is in a tile. */
template <class T, int D, int MT>
__device__ __forceinline__ void flash_deltas(float (&delta)[MT][2], const char *dy, int first,
                                             const char *y, int64_t stride, int left, int d)
{
    const int lane = lane_id();
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const int r = i * 8 + lane / 4;
        float sum = 0;
        for (int c = lane % 4; r < left && c * V<T> < d; c += 4) {
            float a[V<T>], b[V<T>];
            widen<T>(*(const uint4 *)(dy + (first + r) * PITCH<T, D> + ((c ^ r % 8) << 4)), a);
            widen<T>(*(const uint4 *)(y + r * stride + c * 16), b);
#pragma unroll
            for (int j = 0; j < V<T>; j++)
                sum = fmaf(a[j], b[j], sum);
        }
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        delta[i / 2][i % 2] = sum + __shfl_xor_sync(0xffffffff, sum, 2);
    }
}

/* Where a block's memory and its rows are, and the columns that some row sees: of one head, or of
 * each of a group. Key j is seen by the queries i > j - end. */
template <class T, int D, bool OF_KEYS> struct flash_block {
    using C = flash_backward<T, D, OF_KEYS>;
    uint32_t own_a, own_b, stages, rows_of_columns;
    int rows, row, h, b; /* all rows, and the block's first; its head and entry of the batch */
    int own, left;       /* the warp's first row, and how many are there from it on */
    int first, last, steps, all_steps;

    __device__ __forceinline__ flash_block(const flash_problem &p, uint32_t memory)
        : own_a(memory), own_b(own_a + C::OWN), stages(own_b + C::OWN),
          rows_of_columns(stages + 4 * C::TILE), rows(OF_KEYS ? p.keys : p.queries)
    {
        const int row_heads = OF_KEYS ? p.key_heads : p.heads;
        const int tiles = (rows + C::ROWS - 1) / C::ROWS;
        const int place = blockIdx.x % tiles; /* blocks that see most come first */
        row = (OF_KEYS ? place : tiles - 1 - place) * C::ROWS;
        h = blockIdx.x / tiles % row_heads;
        b = blockIdx.x / tiles / row_heads;
        own = threadIdx.x / 32 * 16 * C::MT;
        left = rows - row - own;
        first = OF_KEYS ? max(0, row + 1 - p.end) : 0;
        last = OF_KEYS ? p.queries : min(p.keys, row + C::ROWS - 1 + p.end);
        steps = last > first ? (last - first + C::COLUMNS - 1) / C::COLUMNS : 0;
        all_steps = OF_KEYS ? steps * p.group : steps;
    }

    __device__ __forceinline__ int column_of(int step) const
    {
        return first + step % steps * C::COLUMNS;
    }

    __device__ __forceinline__ void load_rows(const flash_problem &p, bool scores) const
    {
        const flash_view &x = OF_KEYS ? p.k : p.q, &y = OF_KEYS ? p.v : p.dy;
        load_tile<T, D, C::ROWS, C::THREADS>(own_a, x.at(b, h, row), x.row, rows - row, p.d);
        if (scores)
            load_tile<T, D, C::ROWS, C::THREADS>(own_b, y.at(b, h, row), y.row, rows - row, p.d);
    }

    __device__ __forceinline__ void load_columns(const flash_problem &p, int step) const
    {
        const uint32_t stage = stages + step % 2 * 2 * C::TILE;
        const int column = column_of(step);
        const int column_head = OF_KEYS ? h * p.group + step / steps : h / p.group;
        const flash_view &x = OF_KEYS ? p.q : p.k, &y = OF_KEYS ? p.dy : p.v;
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage, x.at(b, column_head, column), x.row,
                                                last - column, p.d);
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage + C::TILE, y.at(b, column_head, column),
                                                y.row, last - column, p.d);
        if (OF_KEYS && threadIdx.x < C::COLUMNS)
            copy_ahead<8>(
                rows_of_columns + step % 2 * C::OF_COLUMNS + threadIdx.x * (int)sizeof(flash_row),
                p.rows + ((int64_t)b * p.heads + column_head) * p.queries + column + threadIdx.x,
                (int)threadIdx.x < last - column);
    }
};

/* lse and delta of the warp's queries, which the kernels for dk and dv read. */
template <class T, int D, class BLOCK, int MT>
__device__ __forceinline__ void flash_rows_of_queries(const flash_problem &p, const BLOCK &o,
                                                      const char *dy, float (&lse)[MT][2],
                                                      float (&delta)[MT][2])
{
    const int lane = lane_id();
    flash_deltas<T, D>(delta, dy, o.own, p.y.at(o.b, o.h, o.row + o.own), p.y.row, o.left, p.d);
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const int r = i * 8 + lane / 4;
        const int64_t at = ((int64_t)o.b * p.heads + o.h) * p.queries + o.row + o.own + r;
        const float saved = r < o.left ? p.lse[at] : 0;
        lse[i / 2][i % 2] = saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2;
        if (lane % 4 == 0 && r < o.left)
            p.rows[at] = make_float2(lse[i / 2][i % 2], delta[i / 2][i % 2]);
    }
}

/* What two columns of a thread have, or the thread's rows: element i of a fragment's four. */
__device__ __forceinline__ float flash_lse(bool of_keys, const float (&rows)[2],
                                           const float4 &columns, int i)
{
    return !of_keys ? rows[i / 2] : i % 2 ? columns.z : columns.x;
}

__device__ __forceinline__ float flash_delta(bool of_keys, const float (&rows)[2],
                                             const float4 &columns, int i)
{
    return !of_keys ? rows[i / 2] : i % 2 ? columns.w : columns.y;
}

/* s becomes exp(scale s - lse), and 0 where a row does not see the column; whole: it sees all. */
template <class T, bool OF_KEYS, class BLOCK, int MT, int NT>
__device__ __forceinline__ void flash_weigh(float (&s)[MT][NT][4], const flash_problem &p,
                                            const BLOCK &o, const float (&lse)[MT][2],
                                            const float4 (&of_columns)[NT], int column, bool whole)
{
    const int lane = lane_id();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float shift = flash_lse(OF_KEYS, lse[m], of_columns[n], i);
                s[m][n][i] = power_of_2(fmaf(s[m][n][i], p.factor, P_EXPONENT<T> - shift));
                const int r = o.row + o.own + m * 16 + i / 2 * 8 + lane / 4;
                const int c = column + n * 8 + lane % 4 * 2 + i % 2;
                if (!whole && (c >= o.last || (OF_KEYS ? r >= c + p.end : c >= r + p.end)))
                    s[m][n][i] = 0;
            }
}

/* ds, which is dy v^T, becomes s (ds - delta). */
template <class T, bool OF_KEYS, int MT, int NT>
__device__ __forceinline__ void flash_differ(float (&ds)[MT][NT][4], const float (&s)[MT][NT][4],
                                             const float (&delta)[MT][2],
                                             const float4 (&of_columns)[NT])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float mean = flash_delta(OF_KEYS, delta[m], of_columns[n], i);
                ds[m][n][i] = factor_of<T>(s[m][n][i], P_UNIT<T> * (ds[m][n][i] - mean));
            }
}

/* The warp's rows of a gradient, times a value. */
template <class T, int D, class BLOCK, int MT>
__device__ __forceinline__ void flash_store(const flash_problem &p, const BLOCK &o, char *tile,
                                            const float (&sum)[MT][D / 8][4], const flash_view &to,
                                            float value)
{
    float factor[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
        factor[m][0] = factor[m][1] = value;
    store_rows<T, D>(tile, o.own, sum, factor, to.at(o.b, o.h, o.row + o.own), to.row, o.left, p.d);
}

template <class T, int D, int MAKES>
__global__ void __launch_bounds__(flash_backward<T, D, MAKES != FLASH_DQ>::THREADS, 2)
    flash_backward_kernel(const __grid_constant__ flash_problem p)
{
    constexpr bool OF_KEYS = MAKES != FLASH_DQ, SCORES = MAKES & (FLASH_DQ | FLASH_DK);
    constexpr bool VALUES = MAKES & FLASH_DV;
    using C = flash_backward<T, D, OF_KEYS>;
    extern __shared__ __align__(1024) char memory[];
    const flash_block<T, D, OF_KEYS> o(p, shared_address(memory));
    o.load_rows(p, SCORES);
    float lse[C::MT][2], delta[C::MT][2];
    if (!OF_KEYS) {
        copies_arrive();
        flash_rows_of_queries<T, D>(p, o, memory + C::OWN, lse, delta);
    }
    if (o.steps > 0 && o.all_steps > 0)
        o.load_columns(p, 0);

    float ds_sum[SCORES ? C::MT : 1][D / 8][4] = {}, p_sum[VALUES ? C::MT : 1][D / 8][4] = {};
    for (int step = 0; step < o.all_steps; step++) {
        const uint32_t stage = o.stages + step % 2 * 2 * C::TILE;
        const int column = o.column_of(step);
        copies_arrive();
        if (step + 1 < o.all_steps)
            o.load_columns(p, step + 1);
        /* of the warp's rows and these columns: column - row, from its least to its greatest */
        const int least = column - (o.row + o.own + 16 * C::MT - 1);
        const int greatest = column + C::COLUMNS - 1 - (o.row + o.own);
        if (OF_KEYS ? greatest <= -p.end : least >= p.end)
            continue;
        const bool whole =
            (OF_KEYS ? least > -p.end : greatest < p.end) && column + C::COLUMNS <= o.last;
        float s[C::MT][C::NT][4], ds[C::MT][C::NT][4];
        multiply_rows<T, D>(s, o.own_a, o.own, stage);
        float4 of_columns[C::NT]; /* lse and delta of both columns of a thread */
#pragma unroll
        for (int n = 0; n < C::NT && OF_KEYS; n++)
            of_columns[n] = shared_float4(o.rows_of_columns + step % 2 * C::OF_COLUMNS +
                                          (n * 8 + lane_id() % 4 * 2) * (int)sizeof(flash_row));
        flash_weigh<T, OF_KEYS>(s, p, o, lse, of_columns, column, whole);
        if constexpr (VALUES)
            add_product<T, D>(p_sum, s, stage + C::TILE);
        if constexpr (SCORES) {
            multiply_rows<T, D>(ds, o.own_b, o.own, stage + C::TILE);
            flash_differ<T, OF_KEYS>(ds, s, delta, of_columns);
            add_product<T, D>(ds_sum, ds, stage);
        }
    }
    copies_arrive();
    if constexpr (SCORES)
        flash_store<T, D>(p, o, memory, ds_sum, OF_KEYS ? p.dk : p.dq, p.scale);
    if constexpr (VALUES)
        flash_store<T, D>(p, o, memory + C::OWN, p_sum, p.dv, P_UNIT<T>);
}

template <class T> void flash_attention_backward(const flash_problem &p, cudaStream_t stream)
{
    by_width(p.d, [&](auto d) {
        constexpr int D = decltype(d)::value;
        using C = flash_backward<T, D, true>;
        launch_flash<flash_backward<T, D, false>>(flash_backward_kernel<T, D, FLASH_DQ>, p, stream,
                                                  p.queries, p.heads);
        const auto launch = [&](auto kernel) {
            launch_flash<C>(kernel, p, stream, p.keys, p.key_heads);
        };
        if constexpr (C::TOGETHER) {
            launch(flash_backward_kernel<T, D, FLASH_DK | FLASH_DV>);
        } else {
            launch(flash_backward_kernel<T, D, FLASH_DK>);
            launch(flash_backward_kernel<T, D, FLASH_DV>);
        }
    });
}

#endif
