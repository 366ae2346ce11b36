/* held.cuh - wide rows that stay in shared memory while they are worked on: of one block, or of a
 * cluster of blocks, each of which has a part.
 *
 * A thread copies its chunks of the row there and alone reads them again, so that all of a row is
 * under way at once and takes no registers. Several blocks share a multiprocessor: while one waits
 * for its row, others compute. */
#ifndef CUDA_HELD_CUH
#define CUDA_HELD_CUH

#include "hopper.cuh"
#include "rows.cuh"

enum {
    HELD_SUMS = 8,          /* of a reduction, at most */
    HELD_BYTES = 72 << 10,  /* of a block, so that three fit a multiprocessor of Hopper */
    HELD_LEAST = 16 << 10,  /* narrower rows stay in the cache */
    KEPT_BY_CARD = 8 << 10, /* of the shared memory of a multiprocessor that blocks cannot have */
};

/* ---- the team of a row ---- */

/* In shared memory, of teams of blocks of so many warps that reduce so many values at most. */
template <int WARPS, int SUMS> struct cluster_memory {
    alignas(16) float of_warps[2][SUMS][WARPS];
    alignas(16) float of_blocks[2][SUMS][MOST_RANKS]; /* each written by that block */
    uint64_t arrived[2];                              /* barriers: of_blocks is there */
};

/* All threads of a cluster of blocks of so many threads, or of a block that is in none. Values go
 * from block to block by stores that count on a barrier of the receiver. There are two places for
 * them: no block is two reductions ahead of another. */
template <int BLOCK, int SUMS = HELD_SUMS> struct cluster_team {
    static constexpr int THREADS = BLOCK;
    typedef cluster_memory<BLOCK / 32, SUMS> room;
    int lanes, lane;
    int64_t row;

    __device__ __forceinline__ explicit cluster_team(room *m)
        : lanes(THREADS), lane((int)threadIdx.x), row(0), memory(m), blocks(1), rank(0), count(0)
    {
#if __CUDA_ARCH__ >= 900
        asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
        rank = cluster_rank();
        lanes *= blocks;
        lane += rank * THREADS;
#endif
        row = (int)blockIdx.x / blocks;
    }

    /* Comes before all reductions. */
    __device__ __forceinline__ void begin() const
    {
#if __CUDA_ARCH__ >= 900
        if (blocks == 1)
            return;
        if (threadIdx.x == 0) {
            for (int p = 0; p < 2; p++)
                init_barrier(shared_address(&memory->arrived[p]), 1);
            fence_barriers();
        }
        /* relaxed: what the fence tells is enough, and copies under way are not waited for */
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
        cluster_wait();
#endif
    }

    __device__ __forceinline__ void barrier() const
    {
#if __CUDA_ARCH__ >= 900
        if (blocks > 1) {
            cluster_arrive();
            cluster_wait();
            return;
        }
#endif
        __syncthreads();
    }

    /* Each value becomes that of the whole team, the same bits in all its threads: join(a, b) is
     * join(b, a). meanwhile(): what else is to be done, before other blocks' values are waited
     * for. */
    template <int N, class JOIN, class MEANWHILE>
    __device__ __forceinline__ void reduce(float (&value)[N], const JOIN &join,
                                           const MEANWHILE &meanwhile)
    {
        const int place = count & 1;
        over_lanes(value, join, 32, 0xffffffffu);
        if (threadIdx.x % 32 == 0)
#pragma unroll
            for (int i = 0; i < N; i++)
                memory->of_warps[place][i][threadIdx.x / 32] = value[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = join_all<THREADS / 32>(memory->of_warps[place][i], THREADS / 32, join);
#if __CUDA_ARCH__ >= 900
        if (blocks > 1)
            send(value, place);
        meanwhile();
        if (blocks > 1) {
            wait_barrier(shared_address(&memory->arrived[place]), count >> 1 & 1);
#pragma unroll
            for (int i = 0; i < N; i++)
                value[i] = join_all<MOST_RANKS>(memory->of_blocks[place][i], blocks, join);
        }
#else
        meanwhile();
#endif
        count++;
    }

    template <int N, class JOIN>
    __device__ __forceinline__ void reduce(float (&value)[N], const JOIN &join)
    {
        reduce(value, join, [] {});
    }
    template <int N> __device__ __forceinline__ void sum(float (&value)[N])
    {
        reduce(value, plus());
    }

  private:
    /* count: 2, or a multiple of 4, at most MOST */
    template <int MOST, class JOIN>
    static __device__ __forceinline__ float join_all(const float *of, int count, const JOIN &join)
    {
        if (count == 2)
            return join(of[0], of[1]);
        float all = 0;
#pragma unroll
        for (int w = 0; w < MOST; w += 4) {
            if (w >= count)
                break;
            const float4 four = *(const float4 *)(of + w);
            const float part = join(join(four.x, four.y), join(four.z, four.w));
            all = w ? join(all, part) : part;
        }
        return all;
    }

#if __CUDA_ARCH__ >= 900
    /* This block's values go to all blocks. */
    template <int N> __device__ __forceinline__ void send(const float (&value)[N], int place) const
    {
        const uint32_t arrived = shared_address(&memory->arrived[place]);
        if (threadIdx.x == 0)
            arrive_and_expect(arrived, blocks * N * (int)sizeof(float));
        if ((int)threadIdx.x < blocks) {
            uint32_t at, there;
            asm("mapa.shared::cluster.u32 %0, %1, %2;"
                : "=r"(there)
                : "r"(arrived), "r"((int)threadIdx.x));
#pragma unroll
            for (int i = 0; i < N; i++) {
                asm("mapa.shared::cluster.u32 %0, %1, %2;"
                    : "=r"(at)
                    : "r"(shared_address(&memory->of_blocks[place][i][rank])),
                      "r"((int)threadIdx.x));
                asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 "
                             "[%0], %1, [%2];" ::"r"(at),
                             "r"(__float_as_int(value[i])), "r"(there)
                             : "memory");
            }
        }
    }
#endif

    room *memory;
    int blocks, rank, count;
};

/* Two sets of values: in one step where a team has room for that. */
template <int BLOCK>
__device__ __forceinline__ void sum_both(cluster_team<BLOCK> &t, float (&a)[4], float (&b)[4])
{
    float all[HELD_SUMS];
#pragma unroll
    for (int i = 0; i < HELD_SUMS; i++)
        all[i] = i < 4 ? a[i] : b[i - 4];
    t.sum(all);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        a[i] = all[i];
        b[i] = all[i + 4];
    }
}

template <class TEAM>
__device__ __forceinline__ void sum_both(TEAM &t, float (&a)[4], float (&b)[4])
{
    t.sum(a);
    t.sum(b);
}

/* ---- launching ---- */

struct held_shape {
    int threads; /* of a block */
    int cluster; /* blocks of a row; 0: rows cannot be held */
    int64_t blocks;
    size_t shared; /* bytes of a block */
    bool behind;   /* a kernel of the same call, which this one waits for where it needs to */
};

/* Rows of so many bytes, of as many tensors together, of each of which a thread has the same number
 * of chunks. */
static inline held_shape hold_rows(const cuda_call &call, int threads, int64_t rows, int64_t bytes,
                                   int tensors)
{
    held_shape s = {threads, 0, 0, 0, false};
    const int most = most_ranks(call);
    const int64_t chunks = ceil_div(bytes, 16), room = call.capability >= 90 ? 227 : 99;
    int cluster = 1;
    while (cluster < most && bytes > (int64_t)cluster * HELD_BYTES)
        cluster *= 2;
    const int64_t together = (int64_t)threads * tensors;
    s.shared = (size_t)(ceil_div(chunks, cluster * together) * together * 16);
    s.blocks = rows * cluster;
    if (bytes >= HELD_LEAST && (int64_t)s.shared <= (room << 10) - KEPT_BY_CARD &&
        s.blocks <= INT32_MAX)
        s.cluster = cluster;
    return s;
}

template <class... ARGS, class... GIVEN>
static void launch_held(const cuda_call &call, const held_shape &s, void (*kernel)(ARGS...),
                        const GIVEN &...given)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attributes[2];
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s.shared);
    config.gridDim = dim3((unsigned)s.blocks);
    config.blockDim = dim3(s.threads);
    config.dynamicSmemBytes = s.shared;
    config.stream = call.stream;
    int count = 0;
    if (s.behind && call.capability >= 90) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (s.cluster > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count].val.clusterDim.x = (unsigned)s.cluster;
        attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
        count++;
    }
    config.attrs = attributes;
    config.numAttrs = (unsigned)count;
    cudaLaunchKernelEx(&config, kernel, (ARGS)given...);
}

#endif
