/* grouped_results.cuh - sums of a tile of a product of groups of rows on their way out, on GPUs of
 * compute capability 9.0. */
#ifndef CUDA_GROUPED_RESULTS_CUH
#define CUDA_GROUPED_RESULTS_CUH

#include "grouped_tickets.cuh"

#if HAS_WGMMA

/* Where a line of 128 bytes of 64 rows goes. */
struct line_place {
    const out_rows &to;
    int column;
};

/* A part: 64 rows, of which `rows` are written, of two lines; v: the thread's pairs of elements of
 * 16 bits, or elements of 32. */
template <class V>
__device__ __forceinline__ void send_lines(const line_place (&lines)[2], const V *v, int row,
                                           int rows, uint32_t staged)
{
    enum { BYTES = std::is_same<V, float>::value ? 4 : 2 };
    if (rows == ROWS) {
        send_part([&] { stage_part(v, staged); },
                  [&] {
#pragma unroll
                      for (int i = 0; i < 2; i++)
                          if (lines[i].column < lines[i].to.width)
                              store_tile(&lines[i].to.map, lines[i].column, row,
                                         staged + i * BLOCK);
                  });
        return;
    }
    if (threadIdx.x % GROUP == 0)
        wait_for_stores_to_read();
    group_barrier();
    stage_part(v, staged);
    group_barrier();
    const int chunk = (int)threadIdx.x % 8, first = (int)threadIdx.x % GROUP / 8;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const out_rows &to = lines[n].to;
        const int at = lines[n].column + chunk * (16 / BYTES);
        for (int i = first; i < rows && at < to.width; i += GROUP / 8) {
            uint4 x;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                         : "r"(staged + n * BLOCK + i * LINE_BYTES + (chunk ^ i % 8) * 16));
            *(uint4 *)(to.data + (row + i) * to.stride + at * BYTES) = x;
        }
    }
}

/* The same of lines side by side. */
template <class V>
__device__ __forceinline__ void send_rows(const out_rows &to, const V *v, int row, int rows,
                                          int column, uint32_t staged)
{
    const int wide = std::is_same<V, float>::value ? LINE_BYTES / 4 : LINE_BYTES / 2;
    send_lines({{to, column}, {to, column + wide}}, v, row, rows, staged);
}

/* Two parts of 128 columns, which are written while the next tile is multiplied. */
struct waiting_parts {
    uint32_t pairs[64], staged;
    int row, rows;
    int waits;

    __device__ __forceinline__ void start(const product_memory &m, int group)
    {
        staged = m.results + group * STAGED;
        waits = 0;
    }

    __device__ __forceinline__ void send(const out_rows &a, int a_column, const out_rows &b,
                                         int b_column, int turn)
    {
        if (!waits)
            return;
        if (turn == 0)
            send_rows(a, pairs, row, rows, a_column, staged);
        if (turn == 1) {
            send_rows(b, pairs + 32, row, rows, b_column, staged);
            waits = 0;
        }
    }
};

/* start(): once. begin(): before a tile, whose first row of this group's and their number are
 * given. turn(k): beside step k of its products. finish(): with its sums. last(): at the end. */
template <class T, int KIND, int LAYOUT> struct results;

/* The thread's number of a column, from the first of its pair on. */
__device__ __forceinline__ int lane_column()
{
    return (int)threadIdx.x % 4 * 2;
}

/* Of an expert's column, which may lie behind the last one. */
template <class T>
__device__ __forceinline__ float bias_of(const grouped_rows &p, const job &j, int64_t column)
{
    return get<T>(p.bias, j.expert * p.bias_width + min(p.bias_first + column, p.bias_width - 1));
}

/* The sums as they are. */
template <class T, int LAYOUT> struct results<T, PLAIN, LAYOUT> {
    waiting_parts w;
    int column;

    __device__ __forceinline__ void start(const product_memory &m, int group)
    {
        w.start(m, group);
    }

    __device__ __forceinline__ void begin(const grouped_rows &, const job &, int, int)
    {
    }

    __device__ __forceinline__ void last(const grouped_rows &p)
    {
        turn(p, 0);
        turn(p, 1);
    }

    __device__ __forceinline__ void turn(const grouped_rows &p, int k)
    {
        w.send(p.c[0], column, p.c[0], column + 128, k);
    }

    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
        column = j.column * TILE_N;
#pragma unroll
        for (int i = 0; i < 64; i++)
            w.pairs[i] = narrow_pair<T>(d[2 * i], d[2 * i + 1]);
        w.row = row;
        w.rows = rows;
        w.waits = 1;
    }
};

/* The same with a bias. */
template <class T, int LAYOUT> struct results<T, BIASED, LAYOUT> : results<T, PLAIN, LAYOUT> {
    __device__ __forceinline__ void finish(const grouped_rows &p, const job &j, float (&d)[128],
                                           int row, int rows)
    {
#pragma unroll
        for (int i = 0; i < 128; i += 4) {
            const int at = j.column * TILE_N + i * 2 + lane_column();
            const float left = bias_of<T>(p, j, at), right = bias_of<T>(p, j, at + 1);
            d[i] += left, d[i + 2] += left;
            d[i + 1] += right, d[i + 3] += right;
        }
        results<T, PLAIN, LAYOUT>::finish(p, j, d, row, rows);
    }
};
#endif

#endif
