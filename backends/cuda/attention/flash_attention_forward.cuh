/* flash_attention_forward.cuh - y = softmax(scale q k^T) v, tile of keys by tile of keys, with a
 * running maximum and sum.
 *
 * A block has the queries of some warps, 16 MT each, and reads tiles of 8 NT keys and values while
 * it computes on the tile before. */
#ifndef CUDA_FLASH_ATTENTION_FORWARD_CUH
#define CUDA_FLASH_ATTENTION_FORWARD_CUH

#include "flash_attention_launch.cuh"
#include "flash_attention_products.cuh"

template <class T, int D> struct flash_forward {
    static constexpr int MT = sizeof(T) == 2 && D <= 128 ? 2 : 1;
    static constexpr int NT = sizeof(T) == 2 ? (D <= 128 ? 8 : 4) : (D <= 64 ? 4 : 2);
    static constexpr int WARPS = sizeof(T) == 4 && D > 128 ? 2 : 4;
    static constexpr int ROWS = 16 * MT * WARPS, COLUMNS = 8 * NT, THREADS = 32 * WARPS;
    static constexpr int TILE = COLUMNS * PITCH<T, D>;
    static constexpr int BYTES = ROWS * PITCH<T, D> + 4 * TILE;
    static_assert(BYTES <= FLASH_MOST_BYTES, "every card has so much shared memory");
};

/* Scores become powers of 2 of their differences from the row's maximum so far; what is in `y` and
 * `sum` is scaled to it. */
template <class T, int MT, int NT, int N>
__device__ __forceinline__ void flash_softmax(float (&s)[MT][NT][4], float (&most)[MT][2],
                                              float (&sum)[MT][2], float (&y)[MT][N][4],
                                              float factor)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = most[m][h];
#pragma unroll
            for (int n = 0; n < NT; n++)
                top = fmaxf(top, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
            const float shift = top == -CUDART_INF_F ? 0 : top * factor;
            /* rounded once, so that the power of the maximum itself is that of P_EXPONENT */
            const float from =
                top == -CUDART_INF_F ? P_EXPONENT<T> : fmaf(-top, factor, P_EXPONENT<T>);
            const float old = power_of_2(most[m][h] * factor - shift);
            most[m][h] = top;
            float part = 0;
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    s[m][n][e] = power_of_2(fmaf(s[m][n][e], factor, from));
                    part += s[m][n][e];
                }
            sum[m][h] = sum[m][h] * old + part;
            if (__any_sync(0xffffffff, old != 1)) {
#pragma unroll
                for (int n = 0; n < N; n++) {
                    y[m][n][2 * h] *= old;
                    y[m][n][2 * h + 1] *= old;
                }
            }
        }
}

/* Scores of keys that a query does not see become -inf. `sees`: the first of a warp's rows sees the
 * keys below. */
template <int MT, int NT>
__device__ __forceinline__ void flash_hide(float (&s)[MT][NT][4], int column, int keys, int sees)
{
    const int lane = lane_id();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = m * 16 + i / 2 * 8 + lane / 4;
                if (column + n * 8 + lane % 4 * 2 + i % 2 >= min(keys, sees + r))
                    s[m][n][i] = -CUDART_INF_F;
            }
}

template <class T, int D>
__global__ void __launch_bounds__(flash_forward<T, D>::THREADS, 2)
    flash_forward_kernel(const __grid_constant__ flash_problem p)
{
    using C = flash_forward<T, D>;
    extern __shared__ __align__(1024) char memory[];
    const uint32_t q = shared_address(memory), stages = q + C::ROWS * PITCH<T, D>;
    /* The blocks of a head follow one another, and those that see most keys come first. */
    const int tiles = (p.queries + C::ROWS - 1) / C::ROWS;
    const int row = (tiles - 1 - (int)blockIdx.x % tiles) * C::ROWS;
    const int h = blockIdx.x / tiles % p.heads, b = blockIdx.x / tiles / p.heads;
    const int own = threadIdx.x / 32 * 16 * C::MT;
    const int columns = max(0, min(p.keys, row + C::ROWS - 1 + p.end));
    const int sees = row + own + p.end; /* the warp's first row sees the keys below */

    const auto load = [&](int column) {
        const uint32_t stage = stages + column / C::COLUMNS % 2 * 2 * C::TILE;
        const int left = columns - column, from = column;
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage, p.k.at(b, h / p.group, from), p.k.row, left,
                                                p.d);
        load_tile<T, D, C::COLUMNS, C::THREADS>(stage + C::TILE, p.v.at(b, h / p.group, from),
                                                p.v.row, left, p.d);
    };
    load_tile<T, D, C::ROWS, C::THREADS>(q, p.q.at(b, h, row), p.q.row, p.queries - row, p.d);
    if (columns > 0)
        load(0);

    float y[C::MT][D / 8][4] = {}, most[C::MT][2], sum[C::MT][2] = {};
#pragma unroll
    for (int m = 0; m < C::MT; m++)
        most[m][0] = most[m][1] = -CUDART_INF_F;
    for (int column = 0; column < columns; column += C::COLUMNS) {
        const uint32_t stage = stages + column / C::COLUMNS % 2 * 2 * C::TILE;
        copies_arrive();
        if (column + C::COLUMNS < columns)
            load(column + C::COLUMNS);
        if (column >= sees + 16 * C::MT - 1)
            continue; /* the warp sees nothing of it */
        float s[C::MT][C::NT][4];
        multiply_rows<T, D>(s, q, own, stage);
        if (column + C::COLUMNS > min(columns, sees))
            flash_hide(s, column, p.keys, sees);
        flash_softmax<T>(s, most, sum, y, p.factor);
        add_product<T, D>(y, s, stage + C::TILE);
    }
    copies_arrive();

    const int left = p.queries - row - own;
    float *const lse = p.lse ? p.lse + ((int64_t)b * p.heads + h) * p.queries + row + own : NULL;
#pragma unroll
    for (int m = 0; m < C::MT; m++)
        flash_end_rows<T>(sum[m], most[m], p.factor, lse ? lse + m * 16 : NULL, left - m * 16);
    store_rows<T, D>(memory, own, y, sum, p.y.at(b, h, row + own), p.y.row, left, p.d);
}

template <class T> void flash_attention_forward(const flash_problem &p, cudaStream_t stream)
{
    by_width(p.d, [&](auto d) {
        using C = flash_forward<T, decltype(d)::value>;
        launch_flash<C>(flash_forward_kernel<T, decltype(d)::value>, p, stream, p.queries, p.heads);
    });
}

#endif
