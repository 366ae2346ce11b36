/* kept.cuh - wide rows by clusters of blocks that stay (compute capability 9.0): a cluster goes
 * from row to row. A thread has its part of a row in registers, where what one pass makes of it
 * waits for the next one, while its parts of the rows to come are on their way to shared memory,
 * which it alone reads. Of a row all threads of a cluster learn once what the others have found. */
#ifndef CUDA_KEPT_CUH
#define CUDA_KEPT_CUH

#include <string.h>

#include "held.cuh"

enum {
    KEPT_THREADS = 512, /* of a block, one of a multiprocessor */
    KEPT_WARPS = KEPT_THREADS / 32,
    KEPT_EACH = 32,                      /* elements of a row that a thread has */
    KEPT_ROOM = (227 << 10) - (9 << 10), /* of shared memory for rows that are on their way */
    KEPT_LEAST = 8 << 10                 /* elements of a row, at least */
};

/* SUMS: numbers that have been found of a row, of 8 bytes a pair, with add(), which joins those of
 * two parts, and over_warp(), which joins those of a warp's lanes: the same bits in all of them. */
template <class SUMS> struct kept_memory {
    alignas(16) SUMS of_warps[2][MOST_RANKS * KEPT_WARPS];
    uint64_t arrived[2];
};

template <class SUMS> struct kept_team {
    int lanes, lane;
    int64_t row, step; /* the first row, and how far the next one is */

    __device__ __forceinline__ explicit kept_team(kept_memory<SUMS> *m)
        : memory(m), blocks(1), rank(cluster_rank()), count(0)
    {
#if __CUDA_ARCH__ >= 900
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
        lanes = blocks * KEPT_THREADS;
        lane = rank * KEPT_THREADS + (int)threadIdx.x;
        row = (int)blockIdx.x / blocks;
        step = (int)gridDim.x / blocks;
#if __CUDA_ARCH__ >= 900
        if (threadIdx.x == 0) {
            for (int p = 0; p < 2; p++)
                init_barrier(shared_address(&memory->arrived[p]), 1);
            fence_barriers();
        }
        cluster_arrive();
        cluster_wait();
#endif
    }

    /* What all threads together have found. Each warp sends what it has to all blocks; there are
     * two places for it: nobody is two exchanges ahead of another. */
    template <class... BY> __device__ __forceinline__ SUMS all(SUMS own, BY... by)
    {
        own.over_warp(by...);
#if __CUDA_ARCH__ >= 900
        const int place = count & 1, other = (int)threadIdx.x % 32;
        const uint32_t arrived = shared_address(&memory->arrived[place]);
        if (threadIdx.x == 0)
            arrive_and_expect(arrived, blocks * KEPT_WARPS * (int)sizeof(SUMS));
        if (other < blocks)
            send(own, &memory->of_warps[place][rank * KEPT_WARPS + threadIdx.x / 32], arrived,
                 other);
        wait_barrier(arrived, count >> 1 & 1);
        const SUMS *const from = memory->of_warps[place];
        const int warps = blocks * KEPT_WARPS;
        own = from[min(other, warps - 1)];
        if (other >= warps)
            own.clear();
#pragma unroll
        for (int i = 32; i < MOST_RANKS * KEPT_WARPS; i += 32)
            if (i < warps)
                own.add(from[other + i], by...);
        own.over_warp(by...);
#endif
        count++;
        return own;
    }

  private:
#if __CUDA_ARCH__ >= 900
    static __device__ __forceinline__ void send(const SUMS &own, const SUMS *to, uint32_t arrived,
                                                int block)
    {
        constexpr int WORDS = sizeof(SUMS) / 4;
        uint32_t at, there, word[WORDS];
        memcpy(word, &own, sizeof word);
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(arrived), "r"(block));
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(at)
            : "r"(shared_address(to)), "r"(block));
#pragma unroll
        for (int i = 0; i < WORDS; i += 2)
            asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 "
                         "[%0], {%1, %2}, [%3];" ::"r"(at + 4 * i),
                         "r"(word[i]), "r"(word[i + 1]), "r"(there)
                         : "memory");
    }
#endif

    kept_memory<SUMS> *memory;
    int blocks, rank, count;
};

/* The largest number of a warp's lanes; NaN is none. */
__device__ __forceinline__ float largest_of_warp(float x)
{
#if __CUDA_ARCH__ >= 800
    const int bits = __float_as_int(x),
              all = __reduce_max_sync(0xffffffffu, bits ^ (bits >> 31 & INT32_MAX));
    return __int_as_float(all ^ (all >> 31 & INT32_MAX));
#else
    return x;
#endif
}

__device__ __forceinline__ int smallest_of_warp(int x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(0xffffffffu, x);
#else
    return x;
#endif
}

/* N sums of a warp's lanes. */
template <int N> __device__ __forceinline__ void sums_of_warp(float (&x)[N])
{
    over_lanes(x, plus(), 32, 0xffffffffu);
}

/* ---- launching ---- */

/* Blocks of a row of n elements; 0: it is too narrow, or too wide. */
static inline int kept_ranks(const cuda_call &call, int64_t n)
{
    int ranks = 1;
    while (ranks < MOST_RANKS && n > (int64_t)ranks * KEPT_THREADS * KEPT_EACH)
        ranks *= 2;
    return call.capability >= 90 && n >= KEPT_LEAST &&
                   n <= (int64_t)ranks * KEPT_THREADS * KEPT_EACH
               ? ranks
               : 0;
}

/* As many clusters of `ranks` blocks as the card holds at once; false if that is none. */
template <class ARGS>
static bool launch_kept(const cuda_call &call, int ranks, int64_t rows, size_t shared,
                        kernel_room *known, void (*kernel)(ARGS), const ARGS &a)
{
    row_shape s = {};
    s.threads = KEPT_THREADS;
    s.ranks = ranks;
    const int room = room_for(call, s, shared, known, kernel);
    if (room < 0)
        return false;
    launch_rows(call, s, min_of(rows, room / ranks) * ranks, shared, kernel, a);
    return true;
}

#endif
