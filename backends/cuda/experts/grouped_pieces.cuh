/* grouped_pieces.cuh - rows of experts as pieces of a sum along k: an expert with more than half
 * of all rows has several, whose sums are added up in f32 in their order, so that one expert alone
 * keeps the whole card busy. */
#ifndef CUDA_GROUPED_PIECES_CUH
#define CUDA_GROUPED_PIECES_CUH

#include "grouped_jobs.cuh"

enum {
    PIECES = 16,        /* of all rows, at the most */
    LEAST_PIECE = 1024, /* rows */
    TURN_ROWS = 32      /* of a block that rounds */
};

/* How many pieces there are and the expert that has several, or -1, in x and y of the first entry,
 * and behind that for each: expert, first row, end, and its turn, -1 if it is the only one. Experts
 * without rows have a piece, too. */
typedef const int4 *piece_list;

static inline int64_t piece_rows(int64_t rows)
{
    const int64_t piece = ceil_div(ceil_div(rows, PIECES), TILE_K) * TILE_K;
    return piece > LEAST_PIECE ? piece : LEAST_PIECE;
}

static inline int64_t bytes_of_pieces(int64_t experts)
{
    return (1 + experts + PIECES) * (int64_t)sizeof(int4);
}

/* One block. turns: counters that begin at 0. */
static __global__ void __launch_bounds__(JOB_THREADS)
    pieces_kernel(const int64_t *offset, int experts, int rows, int piece, int4 *list, int *turns,
                  int counters)
{
    int so_far = 0;
    if (threadIdx.x == 0)
        list[0].y = -1;
    for (int i = (int)threadIdx.x; i < counters; i += JOB_THREADS)
        turns[i] = 0;
    __syncthreads();
    for (int e0 = 0; e0 < experts; e0 += JOB_THREADS) {
        const int e = e0 + (int)threadIdx.x;
        int first = 0, count = 0, own = 0, all;
        if (e < experts) {
            own = 1;
            if (offset[e] >= 0 && offset[e] < offset[e + 1] && offset[e + 1] <= rows) {
                first = (int)offset[e];
                count = (int)offset[e + 1] - first;
            }
            if (count > rows / 2 && count > piece)
                own = (count + piece - 1) / piece;
        }
        const int at = 1 + so_far + sum_before(own, &all);
        for (int i = 0; i < own; i++)
            list[at + i] =
                make_int4(e, first + i * (own > 1 ? piece : 0),
                          own > 1 ? min(first + count, first + (i + 1) * piece) : first + count,
                          own > 1 ? i : -1);
        if (own > 1)
            list[0].y = e;
        so_far += all;
    }
    if (threadIdx.x == 0)
        list[0].x = so_far;
}

/* The matrix [rows, columns] of the expert that has several pieces: C of sums, with rows, columns
 * exchanged if TURNED. */
template <class C, int TURNED>
__global__ void __launch_bounds__(TURN_ROWS *TURN_ROWS)
    round_kernel(piece_list list, const float *sums, int rows, int columns, char *to,
                 int64_t stride, int64_t step, int accumulate)
{
    __shared__ float part[TURN_ROWS][TURN_ROWS + 1];
    const int expert = list[0].y, x = (int)threadIdx.x % TURN_ROWS,
              y = (int)threadIdx.x / TURN_ROWS;
    const int row = (int)blockIdx.y * TURN_ROWS, column = (int)blockIdx.x * TURN_ROWS;
    if (expert < 0)
        return;
    C *const matrix = (C *)to + expert * step;
    const auto write = [&](C *at, float sum) { put(at, sum + (accumulate ? get(at) : 0)); };
    if (row + y < rows && column + x < columns)
        part[y][x] = sums[(int64_t)(row + y) * columns + column + x];
    __syncthreads();
    if (TURNED && row + x < rows && column + y < columns)
        write(matrix + (column + y) * stride + row + x, part[x][y]);
    if (!TURNED && row + y < rows && column + x < columns)
        write(matrix + (row + y) * stride + column + x, part[y][x]);
}

#endif
