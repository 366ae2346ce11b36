/* streams_ring.cuh - gradients of tokens of up to GROUP streams, made of whole chunks: a block goes
 * from token to token, has the rows of the next ones on their way to shared memory, and sums up
 * over a token's columns. */
#ifndef CUDA_STREAMS_RING_CUH
#define CUDA_STREAMS_RING_CUH

#include "rows/token_ring.cuh"
#include "streams.cuh"

/* Rows of a token: its streams of x, a row of `one`, its streams of `others`. */
template <class T> struct streams_source {
    row_span x, one, others;
    int streams;

    __device__ __forceinline__ const T *row(int row, int64_t token) const
    {
        const int64_t first = token * streams;
        return row < streams    ? x.row<T>(first + row)
               : row == streams ? one.row<T>(token)
                                : others.row<T>(first + row - streams - 1);
    }
};

template <class T> using streams_ring = token_ring<T, streams_source<T>>;

/* What the threads of a block know of two tokens in turn: FACTORS numbers that all of them need,
 * and each warp's share of SUMS sums. */
template <int FACTORS, int SUMS> struct streams_board {
    alignas(16) float factor[2][FACTORS];
    float of_warps[2][SUMS][RING_THREADS / 32 + 1];

    /* COUNT sums of a thread are of the warp now, from `first` on. */
    template <int COUNT>
    __device__ __forceinline__ void put(int turn, int first, const float (&value)[COUNT])
    {
        const int lane = (int)threadIdx.x % 32, lanes = 32 / COUNT;
        const float one = warp_sums(value);
        if (lane % lanes == 0)
            of_warps[turn][first + lane / lanes][threadIdx.x / 32] = one;
    }
    __device__ __forceinline__ float total(int turn, int i) const
    {
        float sum = 0;
        for (int w = 0; w < (int)blockDim.x / 32; w++)
            sum += of_warps[turn][i][w];
        return sum;
    }
};

/* factor_of(i, token), in one thread each; work(token, turn), which puts the sums; leave(i, token,
 * sum), in one thread each. There is one barrier for each token: behind it the factors of that
 * token are there, and the sums of the one before. */
template <class T, int FACTORS, int SUMS, class FACTOR, class WORK, class LEAVE>
__device__ __forceinline__ static void
over_ring(streams_ring<T> &ring, streams_board<FACTORS, SUMS> &board, const FACTOR &factor_of,
          const WORK &work, const LEAVE &leave)
{
    static_assert(FACTORS <= 32 && SUMS <= 32, "a warp has all of them");
    const int i = (int)threadIdx.x;
    int64_t t = blockIdx.x;
    int turn = 0;
    float factor = i < FACTORS && t < ring.tokens ? factor_of(i, t) : 0;
    ring.begin();
    for (; t < ring.tokens; t += gridDim.x, turn ^= 1) {
        if (i < FACTORS)
            board.factor[turn][i] = factor;
        ring.wait();
        __syncthreads();
        if (i < FACTORS && t + gridDim.x < ring.tokens)
            factor = factor_of(i, t + gridDim.x);
        if (i < SUMS && t != blockIdx.x)
            leave(i, t - gridDim.x, board.total(turn ^ 1, i));
        work(t, turn);
        ring.next();
    }
    __syncthreads();
    if (i < SUMS && t != blockIdx.x)
        leave(i, t - gridDim.x, board.total(turn ^ 1, i));
}

/* ---- the host's side ---- */

/* A ring for the gradients of tokens of x, of which so many rows have to be read; stages 0: there
 * is none. */
template <class T, class BOARD>
static ring_shape streams_ring_of(const cuda_call &call, const tg_tensor *x, int rows)
{
    ring_shape s = {};
    if (element<T>::WHOLE && streams_of(x) <= GROUP)
        s = shape_of_ring(call, tokens_of(x), rows, width_of(x) * (int64_t)sizeof(T),
                          sizeof(BOARD));
    return s;
}

#endif
