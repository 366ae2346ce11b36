/* mhc_coeffs_warps.cuh - backward of mhc_coeffs of two to four streams, 32 tokens a warp:
 * the gradient of mix, and the sums of it that are the gradients of bias and of the alphas. */
#ifndef CUDA_MHC_COEFFS_WARPS_CUH
#define CUDA_MHC_COEFFS_WARPS_CUH

#include "mhc_coeffs_gradients.cuh"
#include "mhc_coeffs_thread.cuh"

/* A token's z, in parts of whole chunks, zeros behind its columns. */
template <int COLUMNS>
__device__ __forceinline__ static void put_parts(bf16 *to, float (&z)[COLUMNS])
{
    constexpr int PADDED = COLUMNS <= UNIT ? UNIT : MOST_UNITS * UNIT;
#pragma unroll
    for (int part = 0; part < Z_PARTS; part++)
#pragma unroll
        for (int u = 0; u < PADDED; u += 8) {
            float chunk[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                chunk[i] = u + i < COLUMNS ? take_part(part, z[min(u + i, COLUMNS - 1)]) : 0;
            *(uint4 *)(to + part * PADDED + u) = narrow<bf16>(chunk);
        }
}

/* of d, of d mix: what a lane has summed up of the columns lane, lane + 32, ... of both. */
template <int COLUMNS> struct lane_sums {
    static constexpr int EACH = (2 * COLUMNS + WARP - 1) / WARP;
    float of[EACH];

    /* The tokens of the warp in their order. */
    __device__ __forceinline__ void add(const warp_rows<COLUMNS> &d, const warp_rows<COLUMNS> &mix)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int e = i * WARP + (int)threadIdx.x;
            if (e < 2 * COLUMNS)
#pragma unroll 8
                for (int t = 0; t < WARP; t++) {
                    const float v = d.of[t][e % COLUMNS];
                    of[i] += e < COLUMNS ? v : v * mix.of[t][e % COLUMNS];
                }
        }
    }
    __device__ __forceinline__ void put(float *to) const
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int e = i * WARP + (int)threadIdx.x;
            if (e < 2 * COLUMNS)
                to[e] = of[i];
        }
    }
};

/* The gradients of a token's logits, in place of those of its coefficients. */
template <int S>
__device__ __forceinline__ static void logits_back(const backward_args &a, const float *mix,
                                                   float *own, float *history, int64_t apart)
{
    const coeffs_args &c = a.c;
    const matrix_thread<S> m = {c.eps};
    float x[S][S], p[S][S], d[S][S];
    const auto kept = [&](int pair, int i, int j) -> float & {
        return history[((pair * S + i) * S + j) * apart];
    };
    const auto each = [&](const auto &run) {
#pragma unroll
        for (int i = 0; i < S; i++)
#pragma unroll
            for (int j = 0; j < S; j++)
                run(i, j, (2 + i) * S + j);
    };
#pragma unroll
    for (int i = 0; i < S; i++) {
        const logistic pre = logistic_of(logit_of(c, i, mix[i])),
                       post = logistic_of(logit_of(c, S + i, mix[S + i]));
        own[i] *= pre.value * pre.rest;
        own[S + i] *= a.post_multiplier * (post.value * post.rest);
    }
    if (!a.dres)
        return;
    each([&](int i, int j, int column) {
        x[i][j] = logit_of(c, column, mix[column]);
        d[i][j] = own[column];
    });
    m.iterate(c.iterations, x, p, [&](int pair, const float(&v)[S][S]) {
        each([&](int i, int j, int) { kept(pair, i, j) = v[i][j]; });
    });
    m.iterate_back(
        c.iterations, x, p,
        [&](int pair, float(&v)[S][S]) {
            each([&](int i, int j, int) { v[i][j] = kept(pair, i, j); });
        },
        d);
    each([&](int i, int j, int column) { own[column] = d[i][j]; });
}

template <int S>
__global__ void __launch_bounds__(WARP)
    coeffs_tokens_of_threads_kernel(const __grid_constant__ backward_args a)
{
    constexpr int COLUMNS = S * (S + 2);
    extern __shared__ float shared[];
    __shared__ warp_rows<COLUMNS> mixes, grads;
    const coeffs_args &c = a.c;
    const int lane = (int)threadIdx.x;
    float *const history =
        a.history ? a.history + (int64_t)blockIdx.x * WARP + lane : shared + lane;
    const int64_t apart = a.history ? (int64_t)gridDim.x * WARP : WARP;
    lane_sums<COLUMNS> sums = {};
    let_the_next_come();
    for (int64_t first = (int64_t)blockIdx.x * WARP; first < c.tokens;
         first += (int64_t)gridDim.x * WARP) {
        const int count = (int)min((int64_t)WARP, c.tokens - first);
        const bool there = lane < count;
        const float r = there ? a.rstd[first + lane] : 0;
        float *const own = grads.of[lane], *const mix = mixes.of[lane], z[COLUMNS], q = 0;
        mixes.template read<COLUMNS>(0, count, a.mix + first * COLUMNS);
        grads.template read<S>(0, count, a.dpre ? a.dpre + first * S : NULL);
        grads.template read<S>(S, count, a.dpost ? a.dpost + first * S : NULL);
        grads.template read<S * S>(2 * S, count, a.dres ? a.dres + first * S * S : NULL);
        __syncwarp();
        logits_back<S>(a, mix, own, history, apart);
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) {
            const float alpha = alpha_of(c, i);
            z[i] = alpha * own[i] * r;
            q += alpha * (own[i] * mix[i]);
        }
        __syncwarp();
        sums.add(grads, mixes);
        if (there)
            a.back[first + lane] = q * r * r * a.share;
        if (there && a.split)
            put_parts(a.split + (first + lane) * Z_PARTS * a.padded, z);
        __syncwarp();
        if (a.split)
            continue;
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            own[i] = z[i];
        __syncwarp();
        grads.template write<COLUMNS>(0, count, a.z + first * COLUMNS);
        __syncwarp();
    }
    if (a.sums)
        sums.put(a.sums + (int64_t)blockIdx.x * 2 * COLUMNS);
}

#endif
