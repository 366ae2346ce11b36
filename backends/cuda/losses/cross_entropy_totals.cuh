/* cross_entropy_totals.cuh - kernels over all rows: what a mean divides by, and the reduced losses.
 * One block adds up, in a fixed order. */
#ifndef CUDA_CROSS_ENTROPY_TOTALS_CUH
#define CUDA_CROSS_ENTROPY_TOTALS_CUH

#include "cross_entropy_rows.cuh"
#include "rows/parts.cuh"

enum { ALL_ROWS_THREADS = 1024, COUNT_AHEAD = 8 /* targets that a thread loads at once */ };

struct count_args {
    const int64_t *target;
    const float *class_weight;
    int64_t rows, ignore_index, n;
    index_range range;
    int tell, mean, smoothing;
};

__global__ void __launch_bounds__(ALL_ROWS_THREADS)
    count_kernel(const count_args a, loss_counts *to)
{
    double sums[3] = {0, 0, 0}; /* rows, their weights, all weights */
    let_the_next_come();
    for (int64_t first = threadIdx.x; first < a.rows; first += COUNT_AHEAD * ALL_ROWS_THREADS) {
        int64_t y[COUNT_AHEAD];
#pragma unroll
        for (int u = 0; u < COUNT_AHEAD; u++) {
            const int64_t r = first + u * ALL_ROWS_THREADS;
            y[u] = r < a.rows ? a.target[r] : a.ignore_index;
        }
#pragma unroll
        for (int u = 0; u < COUNT_AHEAD; u++) {
            if (y[u] == a.ignore_index ||
                !a.range.holds(first + u * ALL_ROWS_THREADS, y[u], a.tell))
                continue;
            sums[0] += 1;
            sums[1] += a.class_weight ? a.class_weight[y[u]] : 1;
        }
    }
    for (int64_t i = threadIdx.x; a.class_weight && a.smoothing && i < a.n; i += ALL_ROWS_THREADS)
        sums[2] += a.class_weight[i];
    block_sum<ALL_ROWS_THREADS>(sums);
    if (threadIdx.x != 0)
        return;
    to->rows = sums[0];
    to->per_ce = !a.mean ? 1 : sums[1] != 0 ? (float)(1 / sums[1]) : 0;
    to->per_z = !a.mean ? 1 : sums[0] != 0 ? (float)(1 / sums[0]) : 0;
    to->class_weights = a.class_weight && a.smoothing ? (float)sums[2] : (float)a.n;
}

__global__ void __launch_bounds__(ALL_ROWS_THREADS)
    reduce_kernel(const loss_terms *terms, int64_t rows, const loss_counts *counts, float *loss,
                  float *z_loss, float *accuracy)
{
    double sums[3] = {0, 0, 0};
    wait_for_the_kernel_before();
#pragma unroll 8
    for (int64_t r = threadIdx.x; r < rows; r += ALL_ROWS_THREADS)
        sums[0] += terms[r].loss;
    for (int64_t r = threadIdx.x; r < rows && (z_loss || accuracy); r += ALL_ROWS_THREADS) {
        sums[1] += terms[r].z;
        sums[2] += terms[r].hit;
    }
    block_sum<ALL_ROWS_THREADS>(sums);
    if (threadIdx.x != 0)
        return;
    *loss = (float)sums[0];
    if (z_loss)
        *z_loss = (float)sums[1];
    if (accuracy)
        *accuracy = counts->rows > 0 ? (float)(sums[2] / counts->rows) : 0;
}

#endif
