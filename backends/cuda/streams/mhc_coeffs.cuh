/* mhc_coeffs.cuh - what both directions of mhc_coeffs share: a token's matrix, in the lanes of a
 * warp, and its iterations. */
#ifndef CUDA_MHC_COEFFS_CUH
#define CUDA_MHC_COEFFS_CUH

#include "rows/logistic.cuh"
#include "streams.cuh"

enum { COEFFS_THREADS = 128 };

/* Columns of mix: `streams` of pre, as many of post, then res. */
struct coeffs_args {
    row_span x;
    const char *phi;              /* [streams n, columns] */
    const float *bias, *alpha[3]; /* of pre, post, res */
    int64_t tokens;
    int streams, n, columns, phi_f32;
    int iterations;
    float eps;
};

__device__ __forceinline__ static float alpha_of(const coeffs_args &a, int column)
{
    return __ldg(a.alpha[column < a.streams ? 0 : column < 2 * a.streams ? 1 : 2]);
}

__device__ __forceinline__ static float logit_of(const coeffs_args &a, int column, float mix)
{
    return alpha_of(a, column) * mix + __ldg(a.bias + column);
}

/* 1 / (sum + eps), to a rounding or two: a step rarely waits for anything else. Sums are of numbers
 * up to 1, so that only without an eps they may be too small for that. */
__device__ __forceinline__ static float per_sum(float sum, float eps)
{
    const float by = sum + eps, near = reciprocal(by);
    return eps >= 0x1p-100f ? fmaf(near, fmaf(-by, near, 1), near) : 1 / by;
}

/* The lanes that a token's matrix belongs to, of which P, a power of two and at least the number of
 * streams, is the size: lane l has column l % P of rows l / P, l / P + LANES / P, ... What lies
 * outside of the streams is 0. */
template <int P> struct matrix_lanes {
    static constexpr int LANES = P * P < 32 ? P * P : 32, EACH = P * P / LANES;
    int streams, lane;
    float eps;

    __device__ __forceinline__ matrix_lanes(const coeffs_args &a)
        : streams(a.streams), lane((int)threadIdx.x % LANES), eps(a.eps)
    {
    }

    __device__ __forceinline__ int row(int e) const
    {
        return lane / P + e * (LANES / P);
    }
    __device__ __forceinline__ int column() const
    {
        return lane % P;
    }
    __device__ __forceinline__ bool inside(int e) const
    {
        return row(e) < streams && column() < streams;
    }
    /* Its place in a compact matrix. */
    __device__ __forceinline__ int place(int e) const
    {
        return row(e) * streams + column();
    }

    /* The sum of an element's row. */
    __device__ __forceinline__ float of_row(float x) const
    {
#pragma unroll
        for (int o = P / 2; o > 0; o /= 2)
            x += __shfl_xor_sync(0xffffffffu, x, o);
        return x;
    }
    /* The sum of the lane's column. */
    __device__ __forceinline__ float of_column(const float (&x)[EACH]) const
    {
        float sum = x[0];
#pragma unroll
        for (int e = 1; e < EACH; e++)
            sum += x[e];
#pragma unroll
        for (int o = LANES / 2; o >= P; o /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        return sum;
    }
    /* The sums of the lines that the elements belong to. */
    __device__ __forceinline__ void sums(bool by_row, const float (&x)[EACH],
                                         float (&sum)[EACH]) const
    {
        const float column = by_row ? 0 : of_column(x);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            sum[e] = by_row ? of_row(x[e]) : column;
    }

    /* Logits become softmax + eps of each row; p: the softmax itself. */
    __device__ __forceinline__ void begin(float (&x)[EACH], float (&p)[EACH]) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            float max = inside(e) ? x[e] : -CUDART_INF_F;
#pragma unroll
            for (int o = P / 2; o > 0; o /= 2)
                max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, o));
            const float power = inside(e) ? expf(x[e] - max) : 0, sum = of_row(power);
            p[e] = inside(e) ? power / sum : 0;
            x[e] = inside(e) ? p[e] + eps : 0;
        }
    }

    /* Step k: columns by their sums + eps where k is odd, else rows. */
    __device__ __forceinline__ void step(int k, float (&x)[EACH]) const
    {
        float sum[EACH];
        sums(k % 2 == 0, x, sum);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            x[e] = inside(e) ? x[e] * per_sum(sum[e], eps) : 0;
    }

    /* The gradient of what a step has made becomes that of what it was made of. */
    __device__ __forceinline__ void step_back(int k, const float (&from)[EACH],
                                              const float (&to)[EACH], float (&d)[EACH]) const
    {
        float sum[EACH], pulled[EACH], product[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++)
            product[e] = d[e] * to[e];
        sums(k % 2 == 0, from, sum);
        sums(k % 2 == 0, product, pulled);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            d[e] = inside(e) ? (d[e] - pulled[e]) * per_sum(sum[e], eps) : 0;
    }

    /* The gradient of the softmax, p, becomes that of the logits. p is not taken from p + eps: of
     * one stream it is 1, and the gradient nothing. */
    __device__ __forceinline__ void begin_back(const float (&p)[EACH], float (&d)[EACH]) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            d[e] = p[e] * (d[e] - of_row(p[e] * d[e]));
    }
};

/* Chunk c of a token lies at place c ^ mix_of(token) in shared memory: eight tokens' chunks of one
 * column are in different banks, and so are four chunks of two tokens side by side. */
__device__ __forceinline__ static int mix_of(int token)
{
    return (token & 1) << 2 | (token >> 1 & 3);
}

/* ---- the host's side ---- */

static inline coeffs_args coeffs_of(const tg_tensor *x, const tg_tensor *phi, const tg_tensor *bias,
                                    const tg_tensor *const (&alpha)[3], int64_t iterations,
                                    double eps)
{
    coeffs_args a = {};
    a.x = span_of(x);
    a.phi = data_of(phi);
    a.phi_f32 = tg_type_of(phi) == TG_F32;
    a.bias = (const float *)data_of(bias);
    for (int part = 0; part < 3; part++)
        a.alpha[part] = (const float *)data_of(alpha[part]);
    a.streams = streams_of(x);
    a.n = (int)width_of(x);
    a.tokens = tokens_of(x);
    a.columns = a.streams * (a.streams + 2);
    a.iterations = (int)iterations;
    a.eps = (float)eps;
    return a;
}

/* Columns of all streams, and steps of the iteration, are ints. */
static inline tg_status check_coeffs(const char *op, const tg_tensor *x, int64_t iterations)
{
    if (iterations > INT32_MAX / 4)
        return cuda_host->fail(TG_EUNSUPPORTED, "%s: %lld iterations, expected %d at most", op,
                               (long long)iterations, INT32_MAX / 4);
    return width_of(x) <= INT32_MAX / 64
               ? check_streams(op, x)
               : cuda_host->fail(TG_EUNSUPPORTED, "%s: %lld columns, expected %d at most", op,
                                 (long long)width_of(x), INT32_MAX / 64);
}

/* run(P) as a constant: up to four the number of streams, else the smallest power of two from it
 * on. Backward a thread has a token's matrix of two to four; lanes need a power of two. */
template <int P> struct matrix_size {
    static constexpr int VALUE = P;
};
template <int P> constexpr bool OF_THREADS = P >= 2 && P <= 4;
template <int P> constexpr int LANES_SIDE = P == 3 ? 4 : P;
template <class F> static void by_streams(int streams, const F &run)
{
    if (streams <= 1)
        run(matrix_size<1>());
    else if (streams <= 2)
        run(matrix_size<2>());
    else if (streams <= 3)
        run(matrix_size<3>());
    else if (streams <= 4)
        run(matrix_size<4>());
    else if (streams <= 8)
        run(matrix_size<8>());
    else
        run(matrix_size<16>());
}

/* ---- tiles of products ---- */

/* A tile has so many tokens, or columns of x, and takes so many of what it sums over at once; a
 * thread has SIDE / 16 by SIDE / 16 of its sums. */
enum { SIDE = 64, DEEP = 32, TILE_THREADS = 256, OF_THREAD = SIDE / 16 };

struct tile_memory {
    float left[DEEP][SIDE + 4], right[DEEP][SIDE + 4];
};

/* sum[i][j] += left[k][i of the thread] right[k][j of the thread] */
__device__ __forceinline__ static void multiply_tile(const tile_memory &m,
                                                     float (&sum)[OF_THREAD][OF_THREAD])
{
    const int i = (int)threadIdx.x / 16 * OF_THREAD, j = (int)threadIdx.x % 16 * OF_THREAD;
#pragma unroll 8
    for (int k = 0; k < DEEP; k++) {
        const float4 a = *(const float4 *)&m.left[k][i], b = *(const float4 *)&m.right[k][j];
        const float of_a[4] = {a.x, a.y, a.z, a.w}, of_b[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int u = 0; u < OF_THREAD; u++)
#pragma unroll
            for (int w = 0; w < OF_THREAD; w++)
                sum[u][w] += of_a[u] * of_b[w];
    }
}

/* Element (row, column) of phi; 0 beyond its columns. */
template <class T>
__device__ __forceinline__ static float phi_at(const coeffs_args &a, int64_t row, int column)
{
    if (column >= a.columns)
        return 0;
    const int64_t at = row * a.columns + column;
    return a.phi_f32 ? ((const float *)a.phi)[at] : get((const T *)a.phi + at);
}

/* Element k of all of a token's streams. */
template <class T>
__device__ __forceinline__ static float x_at(const coeffs_args &a, int64_t token, int k)
{
    return get(a.x.row<T>(token * a.streams + k / a.n) + k % a.n);
}

#endif
