/* attn_res.cuh - y = sum over blocks of depth of alpha v, alpha = softmax of query weight v rstd,
 * for each token: what the kernels for rows in shared memory and for others share. */
#ifndef CUDA_ATTN_RES_CUH
#define CUDA_ATTN_RES_CUH

#include "rows/many_sums.cuh"
#include "rows/parts.cuh"

struct depth_args {
    row_span v, dy, out; /* dy: backward; out: y or dv */
    vector_span query, weight;
    float *alpha, *rstd; /* [tokens, depth]; of forward each may be NULL */
    float *partial;      /* backward: [blocks of threads, 2, n], or NULL */
    int64_t tokens;
    int depth, n;
    float eps, share; /* share: 1 / n */

    /* Row `depth` is that of dy. */
    template <class T> __device__ __forceinline__ const T *row_at(int l, int64_t token) const
    {
        return l < depth ? v.row<T>(l * tokens + token) : dy.row<T>(token);
    }
};

/* What backward needs of a row of depth: dv = scale dy + pull key - back v. Forward has the row's
 * score as its scale. */
struct depth_numbers {
    float scale, pull, back, unused;
};

/* query weight */
template <class T>
__device__ __forceinline__ static void load_key(const depth_args &a, int j, float (&key)[V<T>])
{
    float weight[V<T>];
    load_vector<T>(a.query, j, a.n - j, key);
    load_vector<T>(a.weight, j, a.n - j, weight);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        key[i] *= weight[i];
}

__device__ __forceinline__ static float warp_max(float value)
{
    for (int o = 16; o > 0; o /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, o));
    return value;
}

__device__ __forceinline__ static float warp_total(float value)
{
    for (int o = 16; o > 0; o /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, o);
    return value;
}

/* A warp. sums_of(l): of a row, sum of v v and of v key. Scores become alpha, which is saved. */
template <class SUMS>
__device__ __forceinline__ static void softmax(const depth_args &a, int64_t token,
                                               depth_numbers *number, const SUMS &sums_of)
{
    const int64_t first = token * a.depth;
    float max = -CUDART_INF_F, sum = 0;
    for (int l = (int)threadIdx.x % 32; l < a.depth; l += 32) {
        const float2 sums = sums_of(l);
        const float r = rsqrtf(sums.x * a.share + a.eps), score = r * sums.y;
        number[l].scale = score;
        max = fmaxf(max, score);
        if (a.rstd)
            a.rstd[first + l] = r;
    }
    max = warp_max(max);
    for (int l = (int)threadIdx.x % 32; l < a.depth; l += 32)
        sum += number[l].scale = expf(number[l].scale - max);
    sum = warp_total(sum);
    for (int l = (int)threadIdx.x % 32; l < a.depth; l += 32) {
        number[l].scale /= sum;
        if (a.alpha)
            a.alpha[first + l] = number[l].scale;
    }
}

/* A warp. sums_of(l): of a row, da, the sum of v dy, and S, that of v key. scale = alpha, pull = ds
 * rstd, back = ds rstd^3 S / n. */
template <class SUMS>
__device__ __forceinline__ static void factors(const depth_args &a, int64_t token,
                                               depth_numbers *number, const SUMS &sums_of)
{
    const int64_t first = token * a.depth;
    float mean = 0;
    for (int l = (int)threadIdx.x % 32; l < a.depth; l += 32) {
        const float2 sums = sums_of(l);
        number[l] = {a.alpha[first + l], sums.x, sums.y, 0};
        mean += number[l].scale * sums.x;
    }
    mean = warp_total(mean);
    for (int l = (int)threadIdx.x % 32; l < a.depth; l += 32) {
        const depth_numbers of = number[l];
        const float r = a.rstd[first + l], pull = of.scale * (of.pull - mean) * r;
        number[l] = {of.scale, pull, of.back * (pull * r * r * a.share), 0};
    }
}

/* dv of a chunk; sum: of pull v. */
template <class T>
__device__ __forceinline__ static uint4 gradient(const depth_numbers &of, const float (&x)[V<T>],
                                                 const float (&dy)[V<T>], const float (&key)[V<T>],
                                                 float (&sum)[V<T>])
{
    float dv[V<T>];
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        dv[i] = of.scale * dy[i] + (of.pull * key[i] - of.back * x[i]);
        sum[i] += of.pull * x[i];
    }
    return narrow<T>(dv);
}

/* The block's part of dquery and of dweight, from its sum of ds rstd v. */
template <class T>
__device__ __forceinline__ static void put_parts(const depth_args &a, int j,
                                                 const float (&sum)[V<T>])
{
    float *const to = a.partial + (int64_t)blockIdx.x * 2 * a.n + j;
    float query[V<T>], weight[V<T>];
    load_vector<T>(a.query, j, a.n - j, query);
    load_vector<T>(a.weight, j, a.n - j, weight);
#pragma unroll
    for (int i = 0; i < V<T>; i++)
        if (j + i < a.n) {
            to[i] = sum[i] * weight[i];
            to[a.n + i] = sum[i] * query[i];
        }
}

#endif
