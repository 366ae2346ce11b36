/* mhc_coeffs_thread.cuh - a token's matrix of two to four streams in the registers of one
 * thread, whose iterations wait for no other lane; and the numbers of a warp's 32 tokens, which go
 * through shared memory, so that memory sees whole lines. */
#ifndef CUDA_MHC_COEFFS_THREAD_CUH
#define CUDA_MHC_COEFFS_THREAD_CUH

#include "mhc_coeffs.cuh"

enum { WARP = 32 };

template <int S> struct matrix_thread {
    typedef float matrix[S][S];
    float eps;

    /* The sums of the rows, or of the columns. */
    static __device__ __forceinline__ void sums(bool by_row, const matrix &x, float (&sum)[S])
    {
#pragma unroll
        for (int i = 0; i < S; i++) {
            sum[i] = by_row ? x[i][0] : x[0][i];
#pragma unroll
            for (int j = 1; j < S; j++)
                sum[i] += by_row ? x[i][j] : x[j][i];
        }
    }

    /* Logits become softmax + eps of each row; p: the softmax itself. */
    __device__ __forceinline__ void begin(matrix &x, matrix &p) const
    {
#pragma unroll
        for (int i = 0; i < S; i++) {
            float max = x[i][0], sum = 0;
#pragma unroll
            for (int j = 1; j < S; j++)
                max = fmaxf(max, x[i][j]);
#pragma unroll
            for (int j = 0; j < S; j++) {
                p[i][j] = expf(x[i][j] - max);
                sum += p[i][j];
            }
#pragma unroll
            for (int j = 0; j < S; j++) {
                p[i][j] /= sum;
                x[i][j] = p[i][j] + eps;
            }
        }
    }

    /* x = from / (sums + eps), of columns or of rows; per: what they are multiplied with. */
    __device__ __forceinline__ void step(bool by_row, const matrix &from, matrix &x,
                                         float (&per)[S]) const
    {
        float sum[S];
        sums(by_row, from, sum);
#pragma unroll
        for (int i = 0; i < S; i++)
            per[i] = per_sum(sum[i], eps);
#pragma unroll
        for (int i = 0; i < S; i++)
#pragma unroll
            for (int j = 0; j < S; j++)
                x[i][j] = from[i][j] * per[by_row ? i : j];
    }

    /* The gradient of `to`, which a step has made, becomes that of what it was made of. */
    static __device__ __forceinline__ void step_back(bool by_row, const float (&per)[S],
                                                     const matrix &to, matrix &d)
    {
        matrix product;
        float pulled[S];
#pragma unroll
        for (int i = 0; i < S; i++)
#pragma unroll
            for (int j = 0; j < S; j++)
                product[i][j] = d[i][j] * to[i][j];
        sums(by_row, product, pulled);
#pragma unroll
        for (int i = 0; i < S; i++)
#pragma unroll
            for (int j = 0; j < S; j++) {
                const int line = by_row ? i : j;
                d[i][j] = (d[i][j] - pulled[line]) * per[line];
            }
    }

    /* The gradient of the softmax, p, becomes that of the logits. */
    static __device__ __forceinline__ void begin_back(const matrix &p, matrix &d)
    {
#pragma unroll
        for (int i = 0; i < S; i++) {
            float pulled = 0;
#pragma unroll
            for (int j = 0; j < S; j++)
                pulled += p[i][j] * d[i][j];
#pragma unroll
            for (int j = 0; j < S; j++)
                d[i][j] = p[i][j] * (d[i][j] - pulled);
        }
    }

    /* x: logits, which become the last matrix: a step over columns, then pairs of one over rows and
     * one over columns. Before each pair put(pair, x). */
    template <class PUT>
    __device__ __forceinline__ void iterate(int iterations, matrix &x, matrix &p,
                                            const PUT &put) const
    {
        float per[S];
        begin(x, p);
        step(false, x, x, per);
        for (int pair = 1; pair < iterations; pair++) {
            put(pair - 1, x);
            step(true, x, x, per);
            step(false, x, x, per);
        }
    }

    /* d: the gradient of the last matrix, x, which becomes that of the logits. What a pair began
     * with was kept; what stood between its steps is made again, the same bits. */
    template <class GET>
    __device__ __forceinline__ void iterate_back(int iterations, matrix &x, const matrix &p,
                                                 const GET &get, matrix &d) const
    {
        matrix from, between;
        float of_rows[S], of_columns[S];
        for (int pair = iterations - 1; pair > 0; pair--) {
            get(pair - 1, from);
            step(true, from, between, of_rows);
            step(false, between, x, of_columns);
            step_back(false, of_columns, x, d);
            step_back(true, of_rows, between, d);
        }
#pragma unroll
        for (int i = 0; i < S; i++)
#pragma unroll
            for (int j = 0; j < S; j++)
                from[i][j] = p[i][j] + eps;
        step(false, from, x, of_columns);
        step_back(false, of_columns, x, d);
        begin_back(p, d);
    }
};

/* Numbers of 32 tokens, N each, in rows that are apart by an odd number of banks. */
template <int N> struct warp_rows {
    static constexpr int PITCH = N | 1;
    float of[WARP][PITCH];

    /* each(i, e, number) of the lane's numbers among OF of each token, from `first` on: number e of
     * those of `count` tokens, as they lie behind each other in memory. */
    template <int OF, class EACH>
    __device__ __forceinline__ void for_each(int first, int count, const EACH &each)
    {
#pragma unroll
        for (int i = 0; i < OF; i++) {
            const int e = i * WARP + (int)threadIdx.x % WARP;
            if (e < count * OF)
                each(i, e, of[e / OF][first + e % OF]);
        }
    }
    template <int OF> __device__ __forceinline__ void write(int first, int count, float *to)
    {
        for_each<OF>(first, count, [&](int, int e, float v) { to[e] = v; });
    }
    /* Zeros where nothing is there. */
    template <int OF> __device__ __forceinline__ void read(int first, int count, const float *from)
    {
        for_each<OF>(first, WARP,
                     [&](int, int e, float &v) { v = from && e < count * OF ? from[e] : 0; });
    }
};

#endif
