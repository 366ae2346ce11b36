/* mhc_coeffs_tokens.cuh - backward of mhc_coeffs, token by token: the gradient of mix, and the sums
 * of it that are the gradients of bias and of the alphas. */
#ifndef CUDA_MHC_COEFFS_TOKENS_CUH
#define CUDA_MHC_COEFFS_TOKENS_CUH

#include "mhc_coeffs_gradients.cuh"
#include "rows/parts.cuh"

/* What the steps have made of a matrix: in shared memory, or in memory where it is too much. */
struct step_history {
    float *own; /* of this thread */
    int64_t apart;

    __device__ __forceinline__ step_history(const backward_args &a, float *shared)
        : own(shared + threadIdx.x), apart(COEFFS_THREADS)
    {
        if (a.history) {
            own = a.history + (int64_t)blockIdx.x * COEFFS_THREADS + threadIdx.x;
            apart = (int64_t)gridDim.x * COEFFS_THREADS;
        }
    }
    template <int EACH> __device__ __forceinline__ void put(int k, const float (&x)[EACH]) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            own[(k * EACH + e) * apart] = x[e];
    }
    template <int EACH> __device__ __forceinline__ void get(int k, float (&x)[EACH]) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            x[e] = own[(k * EACH + e) * apart];
    }
};

/* x: logits; d: the gradient of the last matrix, which becomes that of the logits. */
template <int P, int EACH>
__device__ __forceinline__ static void matrix_back(const matrix_lanes<P> &l, int iterations,
                                                   const step_history &history, float (&x)[EACH],
                                                   float (&d)[EACH])
{
    const int steps = 2 * iterations;
    float p[EACH];
    l.begin(x, p);
    for (int k = 1; k < steps; k++) {
        history.put(k - 1, x);
        l.step(k, x);
    }
    for (int k = steps - 1; k > 0; k--) {
        float from[EACH];
        history.get(k - 1, from);
        l.step_back(k, from, x, d);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            x[e] = from[e];
    }
    l.begin_back(p, d);
}

/* What a lane leaves of a column of a token: z, and in its sums d and d mix. */
struct column_sums {
    float of_d, of_mix;

    /* Returns alpha d mix. */
    __device__ __forceinline__ float add(const backward_args &a, int64_t token, bool there,
                                         int column, float d, float mix, float r)
    {
        const float alpha = alpha_of(a.c, column), z = alpha * d * r;
        if (there) {
            of_d += d;
            of_mix += d * mix;
        }
        if (there && a.split)
            put_split(a, token, column, z);
        else if (there)
            a.z[token * a.c.columns + column] = z;
        return alpha * (d * mix);
    }

    static __device__ __forceinline__ void put_split(const backward_args &a, int64_t token,
                                                     int column, float z)
    {
        bf16 *const to = a.split + token * Z_PARTS * a.padded + column;
#pragma unroll
        for (int part = 0; part < Z_PARTS; part++)
            put(to + part * a.padded, take_part(part, z));
    }
};

/* The sums of the lanes of a block that have the same columns, in their order: [2, columns]. */
template <int P>
__device__ __forceinline__ static void
put_sums(const backward_args &a, const matrix_lanes<P> &l, float *shared,
         const column_sums (&of_res)[matrix_lanes<P>::EACH], const column_sums (&of_sides)[2])
{
    constexpr int TEAMS = COEFFS_THREADS / matrix_lanes<P>::LANES;
    const coeffs_args &c = a.c;
    float *const own = shared + threadIdx.x / matrix_lanes<P>::LANES * 2 * c.columns;
    const auto leave = [&](int column, const column_sums &sums) {
        own[column] = sums.of_d;
        own[c.columns + column] = sums.of_mix;
    };
    __syncthreads(); /* the history has been read */
#pragma unroll
    for (int e = 0; e < matrix_lanes<P>::EACH; e++)
        if (l.inside(e))
            leave(2 * c.streams + l.place(e), of_res[e]);
    if (l.lane < c.streams) {
        leave(l.lane, of_sides[0]);
        leave(c.streams + l.lane, of_sides[1]);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 2 * c.columns; i += COEFFS_THREADS) {
        float sum = 0;
        for (int team = 0; team < TEAMS; team++)
            sum += shared[team * 2 * c.columns + i];
        a.sums[(int64_t)blockIdx.x * 2 * c.columns + i] = sum;
    }
}

/* Teams of lanes go from token to token; a lane sums up what its columns get. */
template <int P>
__global__ void __launch_bounds__(COEFFS_THREADS)
    coeffs_tokens_kernel(const __grid_constant__ backward_args a)
{
    extern __shared__ float shared[];
    typedef matrix_lanes<P> lanes;
    constexpr int EACH = lanes::EACH, TEAMS = COEFFS_THREADS / lanes::LANES;
    const coeffs_args &c = a.c;
    const lanes l(c);
    const step_history history(a, shared);
    const bool sides = l.lane < c.streams; /* the lane has an element of pre and of post */
    column_sums of_res[EACH] = {}, of_sides[2] = {};
    let_the_next_come();
    for (int64_t base = (int64_t)blockIdx.x * TEAMS; base < c.tokens;
         base += (int64_t)gridDim.x * TEAMS) {
        const int64_t t = base + threadIdx.x / lanes::LANES;
        const bool there = t < c.tokens; /* all lanes of a warp take part in its sums */
        const int64_t token = there ? t : c.tokens - 1;
        const float r = a.rstd[token], *const mix = a.mix + token * c.columns;
        float x[EACH], d[EACH] = {}, q = 0;
        if (a.dres) {
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int at = l.place(e), column = 2 * c.streams + at;
                x[e] = l.inside(e) ? logit_of(c, column, mix[column]) : 0;
                d[e] = l.inside(e) ? a.dres[token * c.streams * c.streams + at] : 0;
            }
            matrix_back(l, c.iterations, history, x, d);
        }
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (l.inside(e)) {
                const int column = 2 * c.streams + l.place(e);
                q += of_res[e].add(a, token, there, column, d[e], mix[column], r);
            }
        if (sides) {
            const int pre = l.lane, post = c.streams + l.lane;
            const int64_t at = token * c.streams + l.lane;
            const logistic s = logistic_of(logit_of(c, pre, mix[pre])),
                           p = logistic_of(logit_of(c, post, mix[post]));
            const float dpre = a.dpre ? a.dpre[at] * (s.value * s.rest) : 0,
                        dpost = a.dpost ? a.dpost[at] * a.post_multiplier * (p.value * p.rest) : 0;
            q += of_sides[0].add(a, token, there, pre, dpre, mix[pre], r);
            q += of_sides[1].add(a, token, there, post, dpost, mix[post], r);
        }
        for (int m = c.columns + l.lane; there && m < a.padded; m += lanes::LANES)
            column_sums::put_split(a, token, m, 0);
#pragma unroll
        for (int o = lanes::LANES / 2; o > 0; o /= 2)
            q += __shfl_xor_sync(0xffffffffu, q, o);
        if (there && l.lane == 0)
            a.back[token] = q * r * r * a.share;
    }
    if (a.sums)
        put_sums<P>(a, l, shared, of_res, of_sides);
}

/* ---- gradients of bias and of the alphas ---- */

struct small_args {
    const float *sums; /* [parts, 2, columns] */
    float *dbias, *dalpha[3];
    int parts, streams, columns, accumulate;
};

enum { SMALL_THREADS = 1024, MOST_COLUMNS = MOST_STREAMS * (MOST_STREAMS + 2) };

__device__ __forceinline__ static void put_small(float *to, double sum, int accumulate)
{
    if (to)
        *to = (float)(sum + (accumulate ? *to : 0));
}

/* A warp for each column, then one for each alpha. */
__global__ void __launch_bounds__(SMALL_THREADS)
    coeffs_small_kernel(const __grid_constant__ small_args a)
{
    __shared__ double of_mix[MOST_COLUMNS];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    wait_for_the_kernel_before();
    for (int i = warp; i < 2 * a.columns; i += SMALL_THREADS / 32) {
        double sum = 0;
#pragma unroll 4
        for (int part = lane; part < a.parts; part += 32)
            sum += a.sums[(int64_t)part * 2 * a.columns + i];
        sum = warp_sum(sum);
        if (lane == 0 && i >= a.columns)
            of_mix[i - a.columns] = sum;
        else if (lane == 0)
            put_small(a.dbias ? a.dbias + i : NULL, sum, a.accumulate);
    }
    __syncthreads();
    if (warp >= 3)
        return;
    const int count = warp < 2 ? a.streams : a.streams * a.streams;
    double sum = 0;
    for (int i = lane; i < count; i += 32)
        sum += of_mix[warp * a.streams + i];
    sum = warp_sum(sum);
    if (lane == 0)
        put_small(a.dalpha[warp], sum, a.accumulate);
}

#endif
