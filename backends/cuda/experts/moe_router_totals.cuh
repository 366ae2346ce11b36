/* moe_router_totals.cuh - sums of blocks of tokens, added up in the order of the blocks, and the
 * auxiliary losses that are made of them. */
#ifndef CUDA_MOE_ROUTER_TOTALS_CUH
#define CUDA_MOE_ROUTER_TOTALS_CUH

#include "moe_router.cuh"

enum { ADD_THREADS = 256, ADD_PARTS = ADD_THREADS / WARP };

struct router_totals {
    const float *sums;
    const int *counts;
    int blocks, experts;
    double *total; /* [2, experts + 2]: of sums, of counts */
    int64_t *counts_out;
    float *probs, *balance, *z_loss;
};

/* A lane for each sum, and ADD_PARTS warps that have a part of the blocks each. */
__global__ void __launch_bounds__(ADD_THREADS) router_add(const router_totals p)
{
    __shared__ double parts[2][ADD_PARTS][WARP];
    const int lane = (int)threadIdx.x % WARP, part = (int)threadIdx.x / WARP;
    const int width = p.experts + 2, e = (int)blockIdx.x * WARP + lane;
    double sum = 0, count = 0;
    for (int b = part; b < p.blocks && e < width; b += ADD_PARTS) {
        sum += p.sums[(int64_t)b * width + e];
        count += e < p.experts ? p.counts[(int64_t)b * p.experts + e] : 0;
    }
    parts[0][part][lane] = sum;
    parts[1][part][lane] = count;
    __syncthreads();
    if (part > 0 || e >= width)
        return;
    for (int i = 1; i < ADD_PARTS; i++) {
        sum += parts[0][i][lane];
        count += parts[1][i][lane];
    }
    p.total[e] = sum;
    p.total[width + e] = count;
    if (e < p.experts && p.probs)
        p.probs[e] = (float)sum;
    if (e < p.experts && p.counts_out)
        p.counts_out[e] = (int64_t)count;
}

__global__ void __launch_bounds__(WARP) router_losses(const router_totals p)
{
    const double *const sums = p.total, *const counts = p.total + p.experts + 2;
    const double n = fmax(1.0, sums[p.experts + 1]);
    double balance = 0;
    for (int e = (int)threadIdx.x; e < p.experts; e += WARP)
        balance += p.experts * (counts[e] / n) * (sums[e] / n);
    for (int i = 16; i > 0; i /= 2)
        balance += __shfl_xor_sync(~0u, balance, i);
    if (threadIdx.x > 0)
        return;
    if (p.balance)
        *p.balance = (float)balance;
    if (p.z_loss)
        *p.z_loss = (float)(sums[p.experts] / n);
}

#endif
