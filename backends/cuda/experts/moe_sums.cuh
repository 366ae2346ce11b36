/* moe_sums.cuh - y_t = addend_t + sum over k of weights_tk rows of place_tk, in the order of k. */
#ifndef CUDA_MOE_SUMS_CUH
#define CUDA_MOE_SUMS_CUH

#include "rows/indices.cuh"

enum { SUM_THREADS = 256, AT_ONCE = 8 /* rows whose chunks a thread asks for before it adds */ };

struct sum_problem {
    row_span rows, addend, y; /* addend absent: 0 */
    const int64_t *place;     /* -1: left out */
    vector_span weights;      /* absent: ones */
    int64_t tokens, top_k, width;
    const int64_t *end; /* rows from here on are left out as well; NULL: none */
};

/* A thread has the chunks of a token at distances of blockDim.x. */
template <class T>
__global__ void __launch_bounds__(SUM_THREADS)
    moe_sum_kernel(const sum_problem p, const index_range range)
{
    const int64_t t = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (t >= p.tokens)
        return;
    const int64_t *const place = p.place + t * p.top_k;
    const int64_t end = p.end ? *p.end : INT64_MAX;
    for (int64_t j = (int64_t)threadIdx.x * V<T>; j < p.width; j += (int64_t)blockDim.x * V<T>) {
        float sum[V<T>] = {};
        bool good = true;
        if (p.addend.data)
            widen<T>(load(p.addend.row<T>(t) + j, p.width - j), sum);
        for (int64_t k0 = 0; k0 < p.top_k; k0 += AT_ONCE) {
            uint4 raw[AT_ONCE];
            float weight[AT_ONCE];
            bool there[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const int64_t k = k0 + i, at = k < p.top_k ? place[k] : -1;
                const bool holds =
                    at == -1 || range.holds(t * p.top_k + k, at, threadIdx.x == 0 && j == 0);
                good &= holds;
                there[i] = at != -1 && holds && at < end;
                if (!there[i])
                    continue;
                raw[i] = load(p.rows.row<T>(at) + j, p.width - j);
                weight[i] = p.weights.data ? get<T>(p.weights, t * p.top_k + k) : 1;
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                float x[V<T>];
                if (!there[i])
                    continue;
                widen<T>(raw[i], x);
#pragma unroll
                for (int l = 0; l < V<T>; l++)
                    sum[l] += weight[i] * x[l];
            }
        }
        if (good)
            store(p.y.row<T>(t) + j, p.width - j, narrow<T>(sum));
    }
}

template <class T>
static void launch_sums(const cuda_call &call, const sum_problem &p, const index_range &range)
{
    const dim3 block = block_over(ceil_div(p.width, V<T>), SUM_THREADS);
    if (p.tokens > 0 && p.width > 0)
        moe_sum_kernel<T>
            <<<(unsigned)ceil_div(p.tokens, block.y), block, 0, call.stream>>>(p, range);
}

#endif
