/* flash_attention_backward.cuh - with p = exp(scores - lse) and ds = p (dy v^T - dy . y): dq =
 * scale ds k, dk = scale ds^T q, dv = p^T dy; with a soft cap ds is multiplied by its derivative.
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
#include "flash_attention_scores.cuh"
#include "flash_attention_sinks.cuh"

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
 * each of a group. */
template <class T, int D, bool OF_KEYS, bool FORMED> struct flash_block {
    using C = flash_backward<T, D, OF_KEYS>;
    flash_place at;
    uint32_t own_a, own_b, stages, rows_of_columns;
    int own, row,
        left;        /* the warp's first row in the block and of all, how many there are from it */
    int first, last; /* columns that some row sees */
    int from, steps, all_steps;
    flash_band band;

    __device__ __forceinline__ flash_block(const flash_problem &p, uint32_t memory)
        : at(flash_tile_of<C::ROWS, OF_KEYS>(p, blockIdx.x)), own_a(memory), own_b(own_a + C::OWN),
          stages(own_b + C::OWN), rows_of_columns(stages + 4 * C::TILE)
    {
        const flash_sequence &s = at.of;
        own = threadIdx.x / 32 * 16 * C::MT;
        row = at.row + own;
        left = rows() - row;
        /* key j is seen by the queries from j - end + 1 to j - begin */
        const int low = OF_KEYS ? 1 - s.end : s.begin, high = OF_KEYS ? 1 - s.begin : s.end;
        first = max(0, at.row + low);
        last = min(OF_KEYS ? s.queries : s.keys, at.row + C::ROWS - 1 + high);
        from = OF_KEYS ? first : flash_from<C::COLUMNS, FORMED>(p, first);
        steps = last > first ? (last - from + C::COLUMNS - 1) / C::COLUMNS : 0;
        all_steps = OF_KEYS ? steps * p.group : steps;
        band = {low, high, last - row};
    }

    __device__ __forceinline__ int rows() const
    {
        return OF_KEYS ? at.of.keys : at.of.queries;
    }

    __device__ __forceinline__ int column_of(int step) const
    {
        return from + step % steps * C::COLUMNS;
    }

    /* The head of queries or of keys whose columns a step has. */
    __device__ __forceinline__ int head_of(const flash_problem &p, int step) const
    {
        return OF_KEYS ? at.head * p.group + step / steps : at.head / p.group;
    }

    /* The block's rows of a tensor of queries or of keys, whichever it has. */
    __device__ __forceinline__ char *rows_at(const flash_view &x, int row_of_sequence) const
    {
        return x.at(at.of.batch, at.head, (OF_KEYS ? at.of.key : at.of.query) + row_of_sequence);
    }

    __device__ __forceinline__ void load_rows(const flash_problem &p, bool scores) const
    {
        const flash_view &x = OF_KEYS ? p.k : p.q, &y = OF_KEYS ? p.v : p.dy;
        const int all = rows() - at.row;
        load_tile<T, D, C::ROWS, C::THREADS>(own_a, rows_at(x, at.row), x.row, all, p.d);
        if (scores)
            load_tile<T, D, C::ROWS, C::THREADS>(own_b, rows_at(y, at.row), y.row, all, p.e);
    }

    __device__ __forceinline__ void load_columns(const flash_problem &p, int step) const
    {
        const uint32_t stage = stages + step % 2 * 2 * C::TILE;
        const int column = column_of(step), head = head_of(p, step), b = at.of.batch;
        const int place = (OF_KEYS ? at.of.query : at.of.key) + column;
        const int skip = OF_KEYS ? 0 : first - column;
        const flash_view &x = OF_KEYS ? p.q : p.k, &y = OF_KEYS ? p.dy : p.v;
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage, x.at(b, head, place), x.row, last - column,
                                                p.d, skip);
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage + C::TILE, y.at(b, head, place), y.row,
                                                last - column, p.e, skip);
        if (OF_KEYS && threadIdx.x < C::COLUMNS)
            copy_ahead<8>(rows_of_columns + step % 2 * C::OF_COLUMNS +
                              threadIdx.x * (int)sizeof(flash_row),
                          p.rows + ((int64_t)b * p.heads + head) * p.queries + place + threadIdx.x,
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
    const flash_sequence &s = o.at.of;
    flash_deltas<T, D>(delta, dy, o.own, o.rows_at(p.y, o.row), p.y.row, o.left, p.e);
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const int r = i * 8 + lane / 4;
        const int64_t at =
            ((int64_t)s.batch * p.heads + o.at.head) * p.queries + s.query + o.row + r;
        const float saved = r < o.left ? p.lse[at] : 0;
        lse[i / 2][i % 2] = saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2;
        if (s.sees_none(o.row + r))
            delta[i / 2][i % 2] = 0;
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

/* s becomes exp(scale s - lse), of the columns that rows see. */
template <class T, bool OF_KEYS, int MT, int NT>
__device__ __forceinline__ void flash_weigh(float (&s)[MT][NT][4], float factor,
                                            const float (&lse)[MT][2],
                                            const float4 (&of_columns)[NT])
{
    each_score<MT, NT>([&](int m, int n, int i, int, int) {
        const float shift = flash_lse(OF_KEYS, lse[m], of_columns[n], i);
        s[m][n][i] = power_of_2(fmaf(s[m][n][i], factor, P_EXPONENT<T> - shift));
    });
}

/* ds, which is dy v^T, becomes s (ds - delta). */
template <class T, bool OF_KEYS, int MT, int NT>
__device__ __forceinline__ void flash_differ(float (&ds)[MT][NT][4], const float (&s)[MT][NT][4],
                                             const float (&delta)[MT][2],
                                             const float4 (&of_columns)[NT])
{
    each_score<MT, NT>([&](int m, int n, int i, int, int) {
        const float mean = flash_delta(OF_KEYS, delta[m], of_columns[n], i);
        ds[m][n][i] = factor_of<T>(s[m][n][i], P_UNIT<T> * (ds[m][n][i] - mean));
    });
}

/* Both, where scores are more than products times a factor, or not all powers are kept. row,
 * column: the first of each. */
template <class T, bool OF_KEYS, bool SCORES, int MT, int NT>
__device__ __forceinline__ void
flash_weigh_and_differ(float (&s)[MT][NT][4], float (&ds)[MT][NT][4], const flash_scores<T> &scores,
                       const float (&lse)[MT][2], const float (&delta)[MT][2],
                       const float4 (&of_columns)[NT], const uint32_t (&kept)[MT][2], int row,
                       int column)
{
    each_score<MT, NT>([&](int m, int n, int i, int r, int c) {
        const float shift = flash_lse(OF_KEYS, lse[m], of_columns[n], i);
        const int query = OF_KEYS ? column + c : row + r, key = OF_KEYS ? row + r : column + c;
        float slope;
        const float score = scores.of_product(s[m][n][i], query, key, &slope);
        const bool keep = kept[m][i / 2] >> (2 * n + i % 2) & 1;
        const float power = power_of_2(score + (P_EXPONENT<T> - shift));
        s[m][n][i] = keep ? power : 0;
        if (SCORES) {
            const float mean = flash_delta(OF_KEYS, delta[m], of_columns[n], i);
            const float dp = keep ? ds[m][n][i] * (float)scores.p.dropout.factor : 0;
            ds[m][n][i] = factor_of<T>(power, P_UNIT<T> * slope * (dp - mean));
        }
    });
}

/* The warp's rows of a gradient of `width` elements, times a value. */
template <class T, int D, class BLOCK, int MT>
__device__ __forceinline__ void flash_store(const BLOCK &o, char *tile,
                                            const float (&sum)[MT][D / 8][4], const flash_view &to,
                                            float value, int width)
{
    float factor[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
        factor[m][0] = factor[m][1] = value;
    store_rows<T, D>(tile, o.own, sum, factor, o.rows_at(to, o.row), to.row, o.left, width);
}

/* FORMED: scores are more than products times p.factor, or not all of their powers count. */
template <class T, int D, int MAKES, bool FORMED>
__global__ void __launch_bounds__(flash_backward<T, D, MAKES != FLASH_DQ>::THREADS, 2)
    flash_backward_kernel(const __grid_constant__ flash_problem p)
{
    constexpr bool OF_KEYS = MAKES != FLASH_DQ, SCORES = MAKES & (FLASH_DQ | FLASH_DK);
    constexpr bool VALUES = MAKES & FLASH_DV;
    using C = flash_backward<T, D, OF_KEYS>;
    extern __shared__ __align__(1024) char memory[];
    const flash_block<T, D, OF_KEYS, FORMED> o(p, shared_address(memory));
    if (o.at.row >= o.rows())
        return;
    o.load_rows(p, SCORES);
    float lse[C::MT][2], delta[C::MT][2];
    if (!OF_KEYS) {
        copies_arrive();
        flash_rows_of_queries<T, D>(p, o, memory + C::OWN, lse, delta);
    }
    if (o.all_steps > 0)
        o.load_columns(p, 0);

    float ds_sum[SCORES ? C::MT : 1][D / 8][4] = {}, p_sum[VALUES ? C::MT : 1][D / 8][4] = {};
    for (int step = 0; step < o.all_steps; step++) {
        const uint32_t stage = o.stages + step % 2 * 2 * C::TILE;
        const int column = o.column_of(step), c = column - o.row;
        copies_arrive();
        if (step + 1 < o.all_steps)
            o.load_columns(p, step + 1);
        if (o.band.template has_none<C::MT, C::NT>(c))
            continue;
        const bool whole = o.band.template has_all<C::MT, C::NT>(c);
        float s[C::MT][C::NT][4], ds[C::MT][C::NT][4];
        multiply_rows<T, D>(s, o.own_a, o.own, stage);
        float4 of_columns[C::NT]; /* lse and delta of both columns of a thread */
#pragma unroll
        for (int n = 0; n < C::NT && OF_KEYS; n++)
            of_columns[n] = shared_float4(o.rows_of_columns + step % 2 * C::OF_COLUMNS +
                                          (n * 8 + lane_id() % 4 * 2) * (int)sizeof(flash_row));
        if constexpr (FORMED) {
            if constexpr (SCORES)
                multiply_rows<T, D>(ds, o.own_b, o.own, stage + C::TILE);
            const int head = OF_KEYS ? o.head_of(p, step) : o.at.head;
            const flash_scores<T> scores(p, o.at.of, head);
            uint32_t kept[C::MT][2];
            flash_draw<OF_KEYS, C::MT, C::NT>(kept, p.dropout, o.at.of.number * p.heads + head,
                                              o.row, column);
            flash_weigh_and_differ<T, OF_KEYS, SCORES>(s, ds, scores, lse, delta, of_columns, kept,
                                                       o.row, column);
        } else {
            flash_weigh<T, OF_KEYS>(s, p.factor, lse, of_columns);
        }
        if (!whole)
            flash_hide(s, o.band, c, 0);
        if constexpr (VALUES)
            add_product<T, D>(p_sum, s, stage + C::TILE);
        if constexpr (SCORES) {
            if constexpr (!FORMED) {
                multiply_rows<T, D>(ds, o.own_b, o.own, stage + C::TILE);
                flash_differ<T, OF_KEYS>(ds, s, delta, of_columns);
            }
            if (!whole)
                flash_hide(ds, o.band, c, 0);
            add_product<T, D>(ds_sum, ds, stage);
        }
    }
    copies_arrive();
    if constexpr (SCORES)
        flash_store<T, D>(o, memory, ds_sum, OF_KEYS ? p.dk : p.dq, p.scale, p.d);
    if constexpr (VALUES)
        flash_store<T, D>(o, memory + C::OWN, p_sum, p.dv, P_UNIT<T> * (float)p.dropout.factor,
                          p.e);
}

template <class T, int D, bool FORMED>
static void flash_launch_backward(const flash_problem &p, cudaStream_t stream)
{
    using C = flash_backward<T, D, true>;
    launch_flash<flash_backward<T, D, false>>(flash_backward_kernel<T, D, FLASH_DQ, FORMED>, p,
                                              stream, p.queries, p.heads);
    const auto launch = [&](auto kernel) {
        launch_flash<C>(kernel, p, stream, p.keys, p.key_heads);
    };
    if constexpr (C::TOGETHER) {
        launch(flash_backward_kernel<T, D, FLASH_DK | FLASH_DV, FORMED>);
    } else {
        launch(flash_backward_kernel<T, D, FLASH_DK, FORMED>);
        launch(flash_backward_kernel<T, D, FLASH_DV, FORMED>);
    }
}

template <class T> void flash_attention_backward(const flash_problem &p, cudaStream_t stream)
{
    by_width(p, [&](auto d) {
        constexpr int D = decltype(d)::value;
        if (flash_has_plain_scores(p))
            flash_launch_backward<T, D, false>(p, stream);
        else
            flash_launch_backward<T, D, true>(p, stream);
    });
    flash_launch_sinks<T>(p, stream);
}

#endif
