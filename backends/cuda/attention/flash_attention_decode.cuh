/* flash_attention_decode.cuh - attention of few queries to many keys, as fast as keys and values
 * are read.
 *
 * A block has a part of the keys of one head and the queries of all heads that read them, as rows
 * query x group + head. Each of its warps takes tiles of keys with copies of its own under way, K
 * and V one after the other through a ring of units, and waits for no other warp before the end.
 * What warps and then blocks have is added in their order; the cut depends on sizes and on the card
 * alone. */
#ifndef CUDA_FLASH_ATTENTION_DECODE_CUH
#define CUDA_FLASH_ATTENTION_DECODE_CUH

#include "flash_attention_decode_parts.cuh"
#include "flash_attention_launch.cuh"
#include "flash_attention_products.cuh"
#include "flash_attention_scores.cuh"

template <class T, int D> struct flash_decode_tiles {
    static constexpr int ROWS = 16, NT = sizeof(T) == 2 ? (D <= 64 ? 4 : 2) : (D <= 128 ? 2 : 1);
    static constexpr int COLUMNS = 8 * NT, UNIT = COLUMNS * PITCH<T, D>, UNITS = 5;
    static constexpr int WARPS = UNIT <= 4096 ? 4 : 2, THREADS = 32 * WARPS;
    static constexpr int OF_ROWS = ROWS * PITCH<T, D>, OF_WARP = UNITS * UNIT;
    static constexpr int BYTES = OF_ROWS + WARPS * OF_WARP;
    static constexpr int SUMS = D + 8; /* floats of a row of a warp's sums, once its ring is free */
    static_assert(BYTES <= FLASH_MOST_BYTES, "every card has so much shared memory");
    static_assert(ROWS * SUMS * 4 <= OF_WARP, "sums take the place of the ring");
};

/* ---- a part ---- */

template <class T, int D>
__device__ __forceinline__ void flash_decode_load_rows(const flash_problem &p, uint32_t q,
                                                       int batch, int key_head, int row)
{
    using C = flash_decode_tiles<T, D>;
    constexpr int CHUNKS = D / V<T>;
    for (int i = threadIdx.x; i < C::ROWS * CHUNKS; i += C::THREADS) {
        const int r = i / CHUNKS, c = i % CHUNKS;
        const flash_decode_row o = flash_decode_row_of(p, batch, key_head, row + r);
        copy_ahead<16>(q + r * PITCH<T, D> + ((c ^ r % 8) << 4),
                       p.q.at(batch, o.head, o.query) + c * 16,
                       o.query < p.queries && c * V<T> < p.d);
    }
}

/* A warp's scores of 16 rows, from `row` on, and the keys from `column` on, of which those below
 * `last` are there. */
template <class T, bool FORMED, int NT>
__device__ __forceinline__ void flash_decode_scores(float (&x)[1][NT][4], const flash_problem &p,
                                                    const flash_sequence &s, int key_head, int row,
                                                    int column, int last)
{
    if constexpr (FORMED) {
        const int r = row + lane_id() / 4;
        const flash_decode_row rows[] = {flash_decode_row_of(p, s.batch, key_head, r),
                                         flash_decode_row_of(p, s.batch, key_head, r + 8)};
        const flash_scores<T> scores[] = {{p, s, rows[0].head}, {p, s, rows[1].head}};
        float slope;
        each_score<1, NT>([&](int m, int n, int i, int, int c) {
            x[m][n][i] =
                scores[i / 2].of_product(x[m][n][i], rows[i / 2].query, column + c, &slope);
        });
    }
    const int first_query = row / p.group, last_query = (row + 15) / p.group;
    if (column >= last_query + s.begin && column + 8 * NT <= min(last, first_query + s.end))
        return;
    each_score<1, NT>([&](int m, int n, int i, int r, int c) {
        const int query = (row + r) / p.group, key = column + c;
        if (key < query + s.begin || key >= min(last, query + s.end))
            x[m][n][i] = -CUDART_INF_F;
    });
}

/* The warp's sums of 16 rows go to its place in shared memory, and what they are of to `stats`. */
template <class T, int D>
__device__ __forceinline__ void
flash_decode_leave(float *sums, float2 *stats, const float (&y)[1][D / 8][4],
                   const float (&most)[1][2], const float (&sum)[1][2], float factor)
{
    const int lane = lane_id();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float all = sum[0][h] + __shfl_xor_sync(0xffffffff, sum[0][h], 1);
        all += __shfl_xor_sync(0xffffffff, all, 2);
        const int r = h * 8 + lane / 4;
        if (lane % 4 == 0)
            stats[r] = make_float2(flash_top(most[0][h], factor), all);
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *(float2 *)(sums + r * flash_decode_tiles<T, D>::SUMS + n * 8 + lane % 4 * 2) =
                make_float2(y[0][n][2 * h], y[0][n][2 * h + 1]);
    }
}

/* FORMED: scores are more than products times p.factor > 0. */
template <class T, int D, bool FORMED>
__global__ void __launch_bounds__(flash_decode_tiles<T, D>::THREADS, 2)
    flash_decode_kernel(const __grid_constant__ flash_decode a)
{
    using C = flash_decode_tiles<T, D>;
    extern __shared__ __align__(1024) char memory[];
    __shared__ float2 stats[C::WARPS][C::ROWS];
    const flash_problem &p = a.p;
    const uint32_t q = shared_address(memory);
    const int key_head = blockIdx.x % p.key_heads, place = blockIdx.x / p.key_heads;
    const int row = place % a.row_tiles * C::ROWS, part = place / a.row_tiles;
    const int split = part % a.splits, warp = threadIdx.x / 32;
    const flash_sequence s = flash_sequence_at(p, part / a.splits);
    flash_decode_load_rows<T, D>(p, q, s.batch, key_head, row);
    copies_arrive();

    const int begin = a.first + split * a.tiles * C::COLUMNS + warp * C::COLUMNS;
    const int last = min(a.last, a.first + (split + 1) * a.tiles * C::COLUMNS);
    const uint32_t ring = q + C::OF_ROWS + warp * C::OF_WARP;
    const char *const k = p.k.at(s.batch, key_head, 0), *const v = p.v.at(s.batch, key_head, 0);
    const auto unit_at = [&](int unit) { return ring + unit % C::UNITS * C::UNIT; };
    const auto load = [&](int unit) { /* an even one has keys, the next one their values */
                                      const int column = begin + unit / 2 * C::WARPS * C::COLUMNS;
                                      const int64_t stride = unit % 2 ? p.v.row : p.k.row;
                                      if (column < last)
                                          load_tile<T, D, C::COLUMNS, 32>(
                                              unit_at(unit), (unit % 2 ? v : k) + column * stride,
                                              stride, last - column, unit % 2 ? p.e : p.d);
                                      end_batch();
    };
    const auto arrive = [&](int unit) { /* its place was that of the one before: it is free */
                                        wait_for_batches<C::UNITS - 2>();
                                        __syncwarp();
                                        load(unit + C::UNITS - 1);
    };
#pragma unroll 1
    for (int unit = 0; unit < C::UNITS - 1; unit++)
        load(unit);

    const float factor = FORMED ? 1 : p.factor;
    float y[1][D / 8][4] = {}, most[1][2] = {{-CUDART_INF_F, -CUDART_INF_F}}, sum[1][2] = {};
    int unit = 0;
    for (int column = begin; column < last; column += C::WARPS * C::COLUMNS, unit += 2) {
        float x[1][C::NT][4];
        arrive(unit);
        multiply_rows<T, D>(x, q, 0, unit_at(unit));
        flash_decode_scores<T, FORMED>(x, p, s, key_head, row, column, last);
        flash_softmax<T>(x, most, sum, y, factor);
        arrive(unit + 1);
        add_product<T, D>(y, x, unit_at(unit + 1));
    }
    wait_for_batches<0>();
    __syncwarp();
    let_the_next_come();
    float *const rings = (float *)(memory + C::OF_ROWS);
    flash_decode_leave<T, D>(rings + warp * (C::OF_WARP / 4), stats[warp], y, most, sum, factor);
    __syncthreads();

    for (int i = threadIdx.x; i < C::ROWS * (D / 4); i += C::THREADS) {
        const int r = i / (D / 4), c = i % (D / 4) * 4;
        const flash_decode_row o = flash_decode_row_of(p, s.batch, key_head, row + r);
        if (o.query >= p.queries || c >= a.width)
            continue;
        float4 all;
        const float2 sums = flash_add_parts(
            C::WARPS, [&](int w) { return stats[w][r]; },
            [&](int w) {
                return *(const float4 *)(rings + w * (C::OF_WARP / 4) + r * C::SUMS + c);
            },
            &all);
        const int64_t to = o.place(p) * a.splits + split;
        if (a.splits == 1) {
            flash_decode_end<T>(p, o, c, sums, all);
        } else {
            *(float4 *)(a.sums + to * a.width + c) = all;
            if (c == 0)
                a.stats[to] = sums;
        }
    }
}

/* ---- the host's side ---- */

/* Each split has a beginning and an end of its own, and what the last round of blocks leaves free
 * is lost. at_once: blocks that the card has at a time. */
template <class C> static void flash_cut_keys(flash_decode *a, int64_t blocks, int64_t at_once)
{
    const int64_t tiles = ceil_div(a->last - a->first, C::COLUMNS), ends = 2 * C::WARPS;
    int64_t least = INT64_MAX;
    a->splits = 1;
    for (int splits = 1; splits <= 256 && (splits - 1) * C::WARPS < tiles; splits++) {
        const int64_t own = ceil_div(ceil_div(tiles, splits), C::WARPS) * C::WARPS;
        const int64_t cost = ceil_div(blocks * splits, at_once) * (own + ends);
        if (cost < least) {
            least = cost;
            a->splits = (int)ceil_div(tiles, own);
            a->tiles = (int)own;
        }
    }
}

static inline int64_t flash_parts_of(const flash_decode &a)
{
    return (int64_t)a.p.batches * a.p.heads * a.p.queries * a.splits;
}

/* The kernel's work on a card. */
template <class C, class KERNEL>
static flash_decode flash_decode_of(const flash_problem &p, KERNEL kernel, int processors)
{
    flash_decode a = {};
    int at_once = 0;
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         C::BYTES);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&at_once, kernel, C::THREADS, C::BYTES);
    const int64_t first = (int64_t)p.keys - p.queries - p.left, last = p.keys + p.right;
    a.p = p;
    a.first = (int)(first > 0 ? first : 0);
    a.last = (int)min_of(p.keys, last);
    a.width = p.e > 0 ? (int)ceil_div(p.e, 4) * 4 : 4;
    a.row_tiles = (int)ceil_div((int64_t)p.queries * p.group, C::ROWS);
    flash_cut_keys<C>(&a, (int64_t)p.batches * p.key_heads * a.row_tiles,
                      (int64_t)processors * (at_once > 0 ? at_once : 1));
    return a;
}

/* run(tiles, kernel) for a call. */
template <class T, class F> static void by_decode(const flash_problem &p, F run)
{
    by_width(p, [&](auto d) {
        constexpr int D = decltype(d)::value;
        run(flash_decode_tiles<T, D>(), flash_has_plain_scores(p) && p.factor >= 0
                                            ? flash_decode_kernel<T, D, false>
                                            : flash_decode_kernel<T, D, true>);
    });
}

template <class T> int64_t flash_decode_bytes(const flash_problem &p, int processors)
{
    int64_t bytes = 0;
    by_decode<T>(p, [&](auto tiles, auto kernel) {
        const flash_decode a = flash_decode_of<decltype(tiles)>(p, kernel, processors);
        if (a.splits > 1)
            bytes = flash_parts_of(a) * (a.width * (int64_t)sizeof(float) + sizeof(float2));
    });
    return bytes;
}

template <class T>
void flash_attention_decode(const flash_problem &p, char *room, const cuda_call &call)
{
    by_decode<T>(p, [&](auto tiles, auto kernel) {
        using C = decltype(tiles);
        flash_decode a = flash_decode_of<C>(p, kernel, call.processors);
        const int64_t parts = flash_parts_of(a);
        a.sums = (float *)room;
        a.stats = (float2 *)(a.sums + parts * a.width);
        const int64_t blocks = (int64_t)p.batches * p.key_heads * a.row_tiles * a.splits;
        if (parts == 0)
            return;
        kernel<<<(unsigned)blocks, C::THREADS, C::BYTES, call.stream>>>(a);
        if (a.splits > 1)
            launch_behind(call, flash_decode_add_kernel<T>,
                          (unsigned)ceil_div(parts / a.splits * (a.width / 4), 128), 128, a);
    });
}

#endif
