/* flash_attention_forward.cuh - y = softmax(scores) v, tile of keys by tile of keys, with a running
 * maximum and sum.
 *
 * A block has the queries of some warps, 16 MT each, and reads tiles of 8 NT keys and values while
 * it computes on the tile before. */
#ifndef CUDA_FLASH_ATTENTION_FORWARD_CUH
#define CUDA_FLASH_ATTENTION_FORWARD_CUH

#include "flash_attention_launch.cuh"
#include "flash_attention_products.cuh"
#include "flash_attention_scores.cuh"
#include "flash_attention_softmax.cuh"

template <class T, int D> struct flash_forward {
    static constexpr int MT = sizeof(T) == 2 && D <= 128 ? 2 : 1;
    static constexpr int NT = sizeof(T) == 2 ? (D <= 128 ? 8 : 4) : (D <= 64 ? 4 : 2);
    static constexpr int WARPS = sizeof(T) == 4 && D > 128 ? 2 : 4;
    static constexpr int ROWS = 16 * MT * WARPS, COLUMNS = 8 * NT, THREADS = 32 * WARPS;
    static constexpr int TILE = COLUMNS * PITCH<T, D>;
    static constexpr int BYTES = ROWS * PITCH<T, D> + 4 * TILE;
    static_assert(BYTES <= FLASH_MOST_BYTES, "every card has so much shared memory");
};

/* The end of 16 rows of a head, from the sequence's row `row` on: sums become the factors of y. */
template <class T>
__device__ __forceinline__ void flash_end(const flash_problem &p, const flash_place &o, int row,
                                          float (&sum)[2], float (&most)[2], float factor)
{
    const flash_sequence &s = o.of;
    const int64_t at = ((int64_t)s.batch * p.heads + o.head) * p.queries + s.query + row;
    float *const lse = p.lse ? p.lse + at : NULL;
    if (!p.sinks.data)
        return flash_end_rows<T>(sum, most, factor, lse, s.queries - row);
    const float sink = get<T>(p.sinks, o.head) / LN_2;
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; h++)
        shrink[h] = flash_add_sink<T>(sum[h], most[h], factor, sink, lane_id() % 4 == 0);
    flash_end_rows<T>(sum, most, 1, lse, s.queries - row);
#pragma unroll
    for (int h = 0; h < 2; h++)
        sum[h] = s.sees_none(row + h * 8 + lane_id() / 4) ? 0 : sum[h] * shrink[h];
}

/* FORMED: scores are more than products times p.factor > 0, or not all of their powers count. */
template <class T, int D, bool FORMED>
__global__ void __launch_bounds__(flash_forward<T, D>::THREADS, 2)
    flash_forward_kernel(const __grid_constant__ flash_problem p)
{
    using C = flash_forward<T, D>;
    constexpr int MT = C::MT, NT = C::NT;
    extern __shared__ __align__(1024) char memory[];
    const uint32_t q = shared_address(memory), stages = q + C::ROWS * PITCH<T, D>;
    /* where it lies is kept there too, for registers are dear */
    __shared__ flash_place o;
    const flash_sequence &s = o.of;
    if (threadIdx.x == 0)
        o = flash_tile_of<C::ROWS, false>(p, blockIdx.x);
    __syncthreads();
    if (o.row >= s.queries)
        return;
    const int own = threadIdx.x / 32 * 16 * MT, row = o.row + own; /* the warp's first row */
    /* keys that some row sees */
    const int first = max(0, o.row + s.begin), last = min(s.keys, o.row + C::ROWS - 1 + s.end);
    const int from = flash_from<C::COLUMNS, FORMED>(p, first);
    const flash_band band = {s.begin, s.end, last - row};
    const char *const k = p.k.at(s.batch, o.head / p.group, s.key);
    const char *const v = p.v.at(s.batch, o.head / p.group, s.key);

    const auto load = [&](int column) {
        const uint32_t stage = stages + (column - from) / C::COLUMNS % 2 * 2 * C::TILE;
        const int left = last - column, skip = first - column;
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage, k + column * p.k.row, p.k.row, left, p.d,
                                                skip);
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage + C::TILE, v + column * p.v.row, p.v.row,
                                                left, p.e, skip);
    };
    load_tile<T, D, C::ROWS, C::THREADS>(q, p.q.at(s.batch, o.head, s.query + o.row), p.q.row,
                                         s.queries - o.row, p.d);
    if (first < last)
        load(from);

    const float factor = FORMED ? 1 : p.factor;
    float y[MT][D / 8][4] = {}, most[MT][2], sum[MT][2] = {};
#pragma unroll
    for (int m = 0; m < MT; m++)
        most[m][0] = most[m][1] = -CUDART_INF_F;
    for (int column = from; column < last; column += C::COLUMNS) {
        const uint32_t stage = stages + (column - from) / C::COLUMNS % 2 * 2 * C::TILE;
        copies_arrive();
        if (column + C::COLUMNS < last)
            load(column + C::COLUMNS);
        if (band.has_none<MT, NT>(column - row))
            continue;
        float x[MT][NT][4];
        multiply_rows<T, D>(x, q, own, stage);
        if constexpr (FORMED) {
            const flash_scores<T> scores(p, s, o.head);
            float slope;
            each_score<MT, NT>([&](int m, int n, int i, int r, int c) {
                x[m][n][i] = scores.of_product(x[m][n][i], row + r, column + c, &slope);
            });
        }
        if (!band.has_all<MT, NT>(column - row))
            flash_hide(x, band, column - row, -CUDART_INF_F);
        flash_softmax<T>(x, most, sum, y, factor);
        if (FORMED) {
            uint32_t kept[MT][2];
            flash_draw<false, MT, NT>(kept, p.dropout, s.number * p.heads + o.head, row, column);
            each_score<MT, NT>([&](int m, int n, int i, int, int) {
                if (!(kept[m][i / 2] >> (2 * n + i % 2) & 1))
                    x[m][n][i] = 0;
            });
        }
        add_product<T, D>(y, x, stage + C::TILE);
    }
    copies_arrive();

#pragma unroll
    for (int m = 0; m < MT; m++)
        flash_end<T>(p, o, row + m * 16, sum[m], most[m], factor);
    if (FORMED) {
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            sum[i / 2][i % 2] *= (float)p.dropout.factor;
    }
    store_rows<T, D>(memory, own, y, sum, p.y.at(s.batch, o.head, s.query + row), p.y.row,
                     s.queries - row, p.e);
}

template <class T> void flash_attention_forward(const flash_problem &p, cudaStream_t stream)
{
    by_width(p, [&](auto d) {
        constexpr int D = decltype(d)::value;
        using C = flash_forward<T, D>;
        launch_flash<C>(flash_has_plain_scores(p) && p.factor >= 0
                            ? flash_forward_kernel<T, D, false>
                            : flash_forward_kernel<T, D, true>,
                        p, stream, p.queries, p.heads);
    });
}

#endif
