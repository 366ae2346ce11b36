/* attn_res_held.cuh - forward of attn_res where a token has few rows: a thread holds its chunks of
 * all of them in registers, and those of a later token are on their way meanwhile. */
#ifndef CUDA_ATTN_RES_HELD_CUH
#define CUDA_ATTN_RES_HELD_CUH

#include "attn_res_ring.cuh"

enum {
    HELD_LANES = 32 / DEPTH_AT_ONCE, /* of a row, where a warp has all scores */
    HELD_EACH = 2                    /* chunks of a row that a thread has at most */
};

/* The sums of all warps, of two tokens in turn: a warp may be a token ahead of others. */
struct held_board {
    float of_warps[2][2 * DEPTH_AT_ONCE][DEPTH_PITCH];
};

/* value: the thread's sums. Returns the alpha of row lane / HELD_LANES, after a barrier. */
__device__ __forceinline__ static float
held_alpha(const depth_args &a, int64_t token, float (&of_warps)[2 * DEPTH_AT_ONCE][DEPTH_PITCH],
           const float (&value)[2 * DEPTH_AT_ONCE])
{
    constexpr int LANES = HELD_LANES / 2; /* of a sum: of v v, then of v key */
    const int lane = (int)threadIdx.x % 32, row = lane / HELD_LANES, warps = (int)blockDim.x / 32;
    const float one = warp_sums(value);
    if (lane % LANES == 0)
        of_warps[lane / LANES][threadIdx.x / 32] = one;
    __syncthreads();
    float sum = 0;
    for (int w = lane % LANES; w < warps; w += LANES)
        sum += of_warps[lane / LANES][w];
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    const float other = __shfl_xor_sync(0xffffffffu, sum, LANES);
    const bool key = lane & LANES;
    const float r = rsqrtf((key ? other : sum) * a.share + a.eps),
                score = row < a.depth ? r * (key ? sum : other) : -CUDART_INF_F;
    float max = score;
#pragma unroll
    for (int o = HELD_LANES; o < 32; o *= 2)
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, o));
    const float power = row < a.depth ? expf(score - max) : 0;
    float total = power;
#pragma unroll
    for (int o = HELD_LANES; o < 32; o *= 2)
        total += __shfl_xor_sync(0xffffffffu, total, o);
    const float alpha = power / total;
    if (threadIdx.x < 32 && lane % HELD_LANES == 0 && row < a.depth) {
        if (a.rstd)
            a.rstd[token * a.depth + row] = r;
        if (a.alpha)
            a.alpha[token * a.depth + row] = alpha;
    }
    return alpha;
}

template <class T, int EACH>
__global__ void __launch_bounds__(RING_THREADS, 1)
    attn_res_held_kernel(const __grid_constant__ depth_args a, const ring_shape s)
{
    extern __shared__ uint4 memory[];
    held_board *const board = (held_board *)memory;
    const depth_source<T> source = {a};
    depth_ring<T> ring(source, s, memory + sizeof(held_board) / 16, a.depth, a.n, a.tokens);
    ring.begin();
    const depth_keys<T, EACH> keys(a);
    int turn = 0;
    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x, turn ^= 1) {
        uint4 raw[EACH][DEPTH_AT_ONCE];
        float value[2 * DEPTH_AT_ONCE] = {};
        ring.wait();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int j = ring.first() + k * ring.step();
#pragma unroll
            for (int l = 0; l < DEPTH_AT_ONCE; l++) {
                if (l >= a.depth || j >= a.n)
                    continue;
                raw[k][l] = ring.raw(l, k);
                ring.replace(l, k, j, t);
            }
        }
        ring.next();
#pragma unroll
        for (int k = 0; k < EACH; k++)
#pragma unroll
            for (int l = 0; l < DEPTH_AT_ONCE; l++) {
                float x[V<T>];
                if (l >= a.depth || ring.first() + k * ring.step() >= a.n)
                    continue;
                widen<T>(raw[k][l], x);
#pragma unroll
                for (int i = 0; i < V<T>; i++) {
                    value[2 * l] += x[i] * x[i];
                    value[2 * l + 1] += x[i] * keys.key[k][i];
                }
            }
        const float alpha = held_alpha(a, t, board->of_warps[turn], value);
        float y[EACH][V<T>] = {};
#pragma unroll
        for (int l = 0; l < DEPTH_AT_ONCE; l++) {
            const float of_row = __shfl_sync(0xffffffffu, alpha, l * HELD_LANES);
            if (l >= a.depth)
                continue;
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                float x[V<T>];
                if (ring.first() + k * ring.step() >= a.n)
                    continue;
                widen<T>(raw[k][l], x);
#pragma unroll
                for (int i = 0; i < V<T>; i++)
                    y[k][i] += of_row * x[i];
            }
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int j = ring.first() + k * ring.step();
            if (j < a.n)
                store(a.out.row<T>(t) + j, a.n - j, narrow<T>(y[k]));
        }
    }
}

/* ---- launching ---- */

/* stages 0: too many rows, or too wide ones. */
template <class T> static ring_shape held_shape_of(const cuda_call &call, const depth_args &a)
{
    ring_shape s = {};
    if (element<T>::WHOLE && a.depth <= DEPTH_AT_ONCE)
        s = shape_of_ring(call, a.tokens, a.depth, a.n * (int64_t)sizeof(T), sizeof(held_board),
                          HELD_EACH, 1);
    if (s.each > HELD_EACH)
        s.stages = 0;
    return s;
}

#endif
