/* team.cuh - the threads that a row belongs to, and what they add up: one thread, some lanes of a
 * warp, some warps, a block, or all blocks of a cluster. Sums go in a fixed order: over the lanes
 * of a warp, over the warps of a block, over the blocks. */
#ifndef CUDA_TEAM_CUH
#define CUDA_TEAM_CUH

#include "cluster.cuh"
#include "elements.cuh"

struct plus {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return a + b;
    }
};

struct larger {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};

/* Of the bits of ints of 0 and more. */
struct smaller_index {
    __device__ __forceinline__ float operator()(float a, float b) const
    {
        return __int_as_float(min(__float_as_int(a), __float_as_int(b)));
    }
};

/* One number of each warp of the block, and one of each block of the cluster, for MOST_SUMS values,
 * twice: two reductions in a row do not wait for each other. MOST_RANKS: blocks of a cluster that
 * every card has which has clusters. */
enum { MOST_SUMS = 4, MOST_RANKS = 8 };
template <class NUMBER, int N> struct team_numbers {
    alignas(16) NUMBER of_warp[N][32];
    alignas(16) NUMBER of_block[N][MOST_RANKS];
};
struct team_memory {
    union {
        team_numbers<float, MOST_SUMS> floats;
        team_numbers<double, 1> doubles;
    } half[2];
};

/* The values of `count` lanes, a power of two, that lie side by side; mask: those lanes. */
template <int N, class JOIN>
__device__ __forceinline__ void over_lanes(float (&value)[N], const JOIN &join, int count,
                                           unsigned mask)
{
    if (count == 32) { /* a mask that is no constant costs as much as the reduction */
#pragma unroll
        for (int o = 16; o > 0; o /= 2)
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = join(value[i], __shfl_xor_sync(0xffffffffu, value[i], o));
    } else {
        for (int o = count / 2; o > 0; o /= 2)
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = join(value[i], __shfl_xor_sync(mask, value[i], o));
    }
}

/* The lanes of a warp that have value i after over_warp() are those from i * LANES_OF<N> on, so
 * many of them. */
template <int N> constexpr int LANES_OF = N == 1 ? 32 : N == 2 ? 16 : 8;

/* The values of a warp's lanes: each is added up in a part of the lanes alone, which takes half as
 * many steps as one after the other. */
template <int N, class JOIN>
__device__ __forceinline__ float over_warp(const float (&value)[N], const JOIN &join)
{
    const unsigned all = 0xffffffffu;
    const bool upper = threadIdx.x & 16, odd = threadIdx.x & 8;
    float one = value[0];
    if (N == 2) {
        one = upper ? value[N - 1] : value[0];
        one = join(one, __shfl_xor_sync(all, upper ? value[0] : value[N - 1], 16));
    } else if (N > 2) {
        const float third = value[N > 2 ? 2 : 0], last = value[N - 1], second = value[N > 1];
        float a = upper ? third : value[0], b = upper ? last : second;
        a = join(a, __shfl_xor_sync(all, upper ? value[0] : third, 16));
        b = join(b, __shfl_xor_sync(all, upper ? second : last, 16));
        one = odd ? b : a;
        one = join(one, __shfl_xor_sync(all, odd ? a : b, 8));
    }
#pragma unroll
    for (int o = LANES_OF<N> / 2; o > 0; o /= 2)
        one = join(one, __shfl_xor_sync(all, one, o));
    return one;
}

/* The lanes of this thread's group of `count`, a power of two, in its warp. */
__device__ __forceinline__ unsigned mask_of_lanes(int count)
{
    return count >= 32 ? 0xffffffffu : ((1u << count) - 1) << ((threadIdx.x & 31) & ~(count - 1));
}

/* Beside the number of threads of a row: rows are taken alike, wherever they begin. */
enum { ROWS_ALIKE = 1 << 16 };

struct team {
    int lanes, lane, index; /* a power of two; 0 to lanes - 1; which team of the block */
    bool alike;
    int64_t first, step; /* its rows */
    /* elements by which the chunks of a row begin before it: see row_chunks.cuh */
    int shift;

    /* More threads than a block has are those of a cluster, which has no others. */
    __device__ __forceinline__ team(team_memory *m, int threads_of_a_row)
        : lanes(threads_of_a_row & (ROWS_ALIKE - 1)), alike(threads_of_a_row & ROWS_ALIKE),
          shift(0), memory(m), phase(0), ranks(1), rank(0)
    {
        const int block = (int)blockDim.x;
        if (lanes > block) {
            ranks = lanes / block;
            rank = cluster_rank();
            lane = rank * block + (int)threadIdx.x;
            index = 0;
            first = blockIdx.x / ranks;
            step = gridDim.x / ranks;
            cluster_arrive(); /* that all blocks are there, for the first reduction */
        } else {
            const int teams = block / lanes;
            lane = (int)threadIdx.x & (lanes - 1);
            index = (int)threadIdx.x / lanes;
            first = (int64_t)blockIdx.x * teams + index;
            step = (int64_t)gridDim.x * teams;
        }
        entered = ranks == 1;
        mask = mask_of_lanes(lanes);
    }

    /* For the team's threads of this block. */
    __device__ __forceinline__ void barrier() const
    {
        if (lanes >= (int)blockDim.x)
            __syncthreads();
        else if (lanes > 32)
            asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "r"(lanes) : "memory");
        else
            __syncwarp(mask);
    }

    /* Each value becomes that of the whole team, the same bits in all its threads: join(a, b) is
     * join(b, a). */
    template <int N, class JOIN>
    __device__ __forceinline__ void reduce(float (&value)[N], const JOIN &join)
    {
        if (lanes < 32) {
            over_lanes(value, join, lanes, mask);
            return;
        }
        const float one = over_warp(value, join);
        if (lanes == 32) {
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = N == 1 ? one : __shfl_sync(0xffffffffu, one, i * LANES_OF<N>);
            return;
        }
        team_numbers<float, MOST_SUMS> &numbers = memory->half[phase].floats;
        const int part = (int)threadIdx.x % 32 / LANES_OF<N>;
        if (threadIdx.x % LANES_OF<N> == 0 && (N != 3 || part < N))
            numbers.of_warp[part][threadIdx.x / 32] = one;
        barrier();
        over_numbers(value, numbers.of_warp, first_warp(), warps_of_block(), join);
        if (ranks > 1) {
            enter_cluster();
            if ((int)threadIdx.x < ranks)
#pragma unroll
                for (int i = 0; i < N; i++)
                    *cluster_map(&numbers.of_block[i][rank], (int)threadIdx.x) = value[i];
            cluster_arrive();
            cluster_wait();
            over_numbers(value, numbers.of_block, 0, ranks, join);
        }
        phase ^= 1;
    }

    template <int N> __device__ __forceinline__ void sum(float (&value)[N])
    {
        reduce(value, plus());
    }

    __device__ __forceinline__ double sum(double value)
    {
        for (int o = (lanes < 32 ? lanes : 32) / 2; o > 0; o /= 2)
            value += __shfl_xor_sync(mask, value, o);
        if (lanes <= 32)
            return value;
        team_numbers<double, 1> &numbers = memory->half[phase].doubles;
        if (threadIdx.x % 32 == 0)
            numbers.of_warp[0][threadIdx.x / 32] = value;
        barrier();
        value = 0;
        for (int w = 0; w < warps_of_block(); w++)
            value += numbers.of_warp[0][first_warp() + w];
        if (ranks > 1) {
            enter_cluster();
            if ((int)threadIdx.x < ranks)
                *cluster_map(&numbers.of_block[0][rank], (int)threadIdx.x) = value;
            cluster_arrive();
            cluster_wait();
            value = 0;
            for (int i = 0; i < ranks; i++)
                value += numbers.of_block[0][i];
        }
        phase ^= 1;
        return value;
    }

    /* Which block of the grid this is, or which cluster. */
    __device__ __forceinline__ int64_t unit() const
    {
        return blockIdx.x / ranks;
    }

  private:
    /* The team's warps in this block, and the first of them. */
    __device__ __forceinline__ int warps_of_block() const
    {
        return min(lanes, (int)blockDim.x) / 32;
    }
    __device__ __forceinline__ int first_warp() const
    {
        return index * (lanes / 32);
    }

    /* From here on all blocks of the cluster are there. */
    __device__ __forceinline__ void enter_cluster()
    {
        if (!entered)
            cluster_wait();
        entered = true;
    }

    /* Of `count` numbers from `from` on, 2 or a multiple of 4, one of each value. All threads read
     * all of them: what one reads, a warp gets. */
    template <int N, int WIDTH, class JOIN>
    static __device__ __forceinline__ void over_numbers(float (&value)[N],
                                                        const float (&of)[MOST_SUMS][WIDTH],
                                                        int from, int count, const JOIN &join)
    {
        if (count == 2) {
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = join(of[i][from], of[i][from + 1]);
            return;
        }
#pragma unroll 1
        for (int w = 0; w < count; w += 4)
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float4 four = *(const float4 *)&of[i][from + w];
                const float part = join(join(four.x, four.y), join(four.z, four.w));
                value[i] = w ? join(value[i], part) : part;
            }
    }

    team_memory *memory;
    int phase;
    unsigned mask;
    int ranks, rank; /* blocks of a row; which of them this one is */
    bool entered;    /* all blocks of the cluster are known to be there */
};

#endif
