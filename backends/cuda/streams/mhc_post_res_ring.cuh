/* mhc_post_res_ring.cuh - backward of mhc_post_res of GROUP streams at most, whose rows are read
 * once. */
#ifndef CUDA_MHC_POST_RES_RING_CUH
#define CUDA_MHC_POST_RES_RING_CUH

#include "streams_ring.cuh"

struct post_res_args {
    row_span x, f, dy, out, df; /* dy, df: backward; out: y or dx */
    const float *post, *res;    /* [tokens, streams], [tokens, streams, streams] */
    float *dpost, *dres;        /* backward */
    int streams, n;
};

enum { OF_RES = GROUP * GROUP, OF_TOKEN = GROUP + OF_RES };
typedef streams_board<OF_TOKEN, OF_TOKEN> post_res_board;

/* A word of each row, W elements, at a time. */
template <class T> struct post_res_chunk {
    uint32_t x[GROUP][4], f[4], dy[GROUP][4]; /* dx and df come in the places of x and f */

    /* Takes the chunks of a token, at column j, out of the ring. */
    __device__ __forceinline__ void take(const streams_ring<T> &ring, int streams, int k, int j,
                                         int64_t t)
    {
        const auto row = [&](int at, bool there, uint32_t(&to)[4]) {
            const uint4 raw = there ? ring.raw(at, k) : make_uint4(0, 0, 0, 0);
            to[0] = raw.x, to[1] = raw.y, to[2] = raw.z, to[3] = raw.w;
            if (there)
                ring.replace(at, k, j, t);
        };
        row(streams, true, f);
#pragma unroll
        for (int u = 0; u < GROUP; u++) {
            row(u, u < streams, x[u]);
            row(streams + 1 + u, u < streams, dy[u]);
        }
    }

    /* factor: post, res. of_post, of_res: what the chunk adds to their gradients. */
    __device__ __forceinline__ void gradients(const float (&factor)[OF_TOKEN],
                                              float (&of_post)[GROUP], float (&of_res)[OF_RES])
    {
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float d[GROUP][W<T>], value[W<T>];
#pragma unroll
            for (int o = 0; o < GROUP; o++)
                widen_word<T>(dy[o][w], d[o]);
            widen_word<T>(f[w], value);
            f[w] = combine(factor, 1, 0, d, value, of_post, 1, 0);
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                widen_word<T>(x[i][w], value);
                x[i][w] = combine(factor, GROUP, GROUP + i, d, value, of_res, GROUP, i);
            }
        }
    }

  private:
    /* The sum over o of factor o of d o; d o value is added to sum o. `apart`, `first`: which
     * factors, which sums. */
    template <int COUNT>
    static __device__ __forceinline__ uint32_t combine(const float (&factor)[OF_TOKEN], int apart,
                                                       int first, const float (&d)[GROUP][W<T>],
                                                       const float (&value)[W<T>],
                                                       float (&sum)[COUNT], int sums_apart,
                                                       int first_sum)
    {
        float mixed[W<T>] = {};
#pragma unroll
        for (int o = 0; o < GROUP; o++)
#pragma unroll
            for (int e = 0; e < W<T>; e++) {
                mixed[e] += factor[first + o * apart] * d[o][e];
                sum[first_sum + o * sums_apart] += d[o][e] * value[e];
            }
        return narrow_word<T>(mixed);
    }
};

__device__ __forceinline__ static uint4 chunk_of(const uint32_t (&word)[4])
{
    return make_uint4(word[0], word[1], word[2], word[3]);
}

template <class T>
__global__ void __launch_bounds__(RING_THREADS, 1)
    post_res_ring_kernel(const __grid_constant__ post_res_args a, const ring_shape s,
                         int64_t tokens)
{
    extern __shared__ uint4 memory[];
    const int streams = a.streams;
    const streams_source<T> source = {a.x, a.f, a.dy, streams};
    post_res_board &board = *(post_res_board *)memory;
    streams_ring<T> ring(source, s, memory + sizeof board / 16, 2 * streams + 1, a.n, tokens);
    const auto factor_of = [&](int e, int64_t t) -> float {
        const int o = e < GROUP ? e : e / GROUP - 1, i = e < GROUP ? 0 : e % GROUP;
        if (o >= streams || i >= streams)
            return 0;
        return e < GROUP ? a.post[t * streams + o] : a.res[(t * streams + o) * streams + i];
    };
    const auto work = [&](int64_t t, int turn) {
        float factor[OF_TOKEN], of_post[GROUP] = {}, of_res[OF_RES] = {};
#pragma unroll
        for (int e = 0; e < OF_TOKEN; e++)
            factor[e] = board.factor[turn][e];
        for (int k = 0, j = ring.first(); j < a.n; k++, j += ring.step()) {
            post_res_chunk<T> c;
            c.take(ring, streams, k, j, t);
            c.gradients(factor, of_post, of_res);
            store(a.df.row<T>(t) + j, a.n - j, chunk_of(c.f));
#pragma unroll
            for (int u = 0; u < GROUP; u++)
                if (u < streams)
                    store(a.out.row<T>(t * streams + u) + j, a.n - j, chunk_of(c.x[u]));
        }
        board.put(turn, 0, of_post);
        board.put(turn, GROUP, of_res);
    };
    over_ring(ring, board, factor_of, work, [&](int e, int64_t t, float sum) {
        const int o = e < GROUP ? e : e / GROUP - 1, i = e < GROUP ? 0 : e % GROUP;
        if (o >= streams || i >= streams)
            return;
        float *const to =
            e < GROUP ? a.dpost + t * streams + o : a.dres + (t * streams + o) * streams + i;
        *to = sum;
    });
}

#endif
