/* mhc_coeffs_finish.cuh - forward of mhc_coeffs of two to four streams: from the products
 * of 32 tokens, which a warp has in shared memory, to their coefficients; and that at the end of
 * the kernel of the products, where the blocks of a cluster have parts of their columns. */
#ifndef CUDA_MHC_COEFFS_FINISH_CUH
#define CUDA_MHC_COEFFS_FINISH_CUH

#include "mhc_coeffs_products.cuh"
#include "mhc_coeffs_thread.cuh"
#include "rows/cluster.cuh"

/* rows: of a token its products with phi and with itself. */
template <int S, int N>
__device__ __forceinline__ static void finish_tokens(const forward_args &a, warp_rows<N> &rows,
                                                     int64_t first, int count)
{
    constexpr int COLUMNS = S * (S + 2);
    static_assert(N == COLUMNS + 1, "as many numbers as a token has");
    const coeffs_args &c = a.c;
    const matrix_thread<S> m = {c.eps};
    const int lane = (int)threadIdx.x % WARP;
    float x[S][S], p[S][S], *const own = rows.of[lane];
    const float r = rsqrtf(own[COLUMNS] * a.share + a.rms_eps);
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        own[i] *= r;
    if (a.rstd && lane < count)
        a.rstd[first + lane] = r;
    __syncwarp();
    if (a.mix)
        rows.template write<COLUMNS>(0, count, a.mix + first * COLUMNS);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < S; i++) {
        own[i] = logistic_of(logit_of(c, i, own[i])).value + a.pre_eps;
        own[S + i] = logistic_of(logit_of(c, S + i, own[S + i])).value * a.post_multiplier;
#pragma unroll
        for (int j = 0; j < S; j++)
            x[i][j] = logit_of(c, (2 + i) * S + j, own[(2 + i) * S + j]);
    }
    m.iterate(c.iterations, x, p, [](int, const float(&)[S][S]) {});
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
        for (int j = 0; j < S; j++)
            own[(2 + i) * S + j] = x[i][j];
    __syncwarp();
    rows.template write<S>(0, count, a.pre + first * S);
    rows.template write<S>(S, count, a.post + first * S);
    rows.template write<S * S>(2 * S, count, a.res + first * S * S);
}

/* Groups of 32 tokens, of which each block of the cluster, blockIdx.z, has a part of the products;
 * the groups are dealt out among the blocks' warps. All threads come here, groups written. */
template <int S, int GROUPS, int N>
__device__ __forceinline__ static void
finish_in_cluster(const forward_args &a, warp_rows<N> (&parts)[GROUPS],
                  warp_rows<N> (&sums)[GROUPS], int64_t first)
{
    const int group = (int)blockIdx.z + (int)threadIdx.x / WARP * a.splits;
    const bool there = group < GROUPS && first + group * WARP < a.c.tokens;
    warp_rows<N> &rows = sums[there ? group : 0];
    __syncwarp();
    cluster_arrive();
    cluster_wait();
    if (there) {
        float sum[N] = {};
        for (int s = 0; s < a.splits; s++) {
            warp_rows<N> *const of = cluster_map(&parts[group], s);
            of->template for_each<N>(0, WARP, [&](int i, int, float v) { sum[i] += v; });
        }
        rows.template for_each<N>(0, WARP, [&](int i, int, float &to) { to = sum[i]; });
    }
    __syncwarp();
    cluster_arrive(); /* the parts have been read */
    if (there)
        finish_tokens<S>(a, rows, first + group * WARP,
                         (int)min((int64_t)WARP, a.c.tokens - first - group * WARP));
    __syncwarp();
    cluster_wait();
}

#endif
