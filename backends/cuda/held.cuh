/* held.cuh - wide rows that stay in shared memory while they are worked on: of one block, or of a cluster of blocks, each of which has a part.
 *
 * A thread copies its chunks of the row there and alone reads them again, so that all of a row is under way at once and takes no registers. Several
 * blocks share a multiprocessor: while one waits for its row, the others compute. */
#ifndef CUDA_HELD_CUH
#define CUDA_HELD_CUH

#include <cooperative_groups.h>

#include "rows.cuh"

enum {
    HELD_THREADS = 512,
    MOST_CLUSTER = 8,       /* blocks */
    HELD_BYTES = 72 << 10,  /* of a block, so that three fit a multiprocessor of Hopper */
    HELD_LEAST = 16 << 10,  /* narrower rows stay in the cache */
    KEPT_BY_CARD = 8 << 10, /* of the shared memory of a multiprocessor that blocks cannot have */
};

struct cluster_memory {
    team_memory block;
    float value[2][MOST_SUMS][MOST_CLUSTER]; /* of each block, written by it */
};

/* All threads of a cluster, or of a block that is in none: the team of one row. */
struct cluster_team {
    int lanes, lane;
    int64_t row;

    __device__ __forceinline__ explicit cluster_team(cluster_memory *m)
        : lanes((int)blockDim.x), lane((int)threadIdx.x), row(blockIdx.x),
          block(&m->block, (int)blockDim.x), memory(m), blocks(1), rank(0), phase(0)
    {
#if __CUDA_ARCH__ >= 900
        const auto cluster = cooperative_groups::this_cluster();
        blocks = (int)cluster.num_blocks();
        rank = (int)cluster.block_rank();
        lanes *= blocks;
        lane += rank * (int)blockDim.x;
        row /= blocks;
#endif
    }

    __device__ __forceinline__ void barrier() const
    {
#if __CUDA_ARCH__ >= 900
        if (blocks > 1) {
            cooperative_groups::this_cluster().sync();
            return;
        }
#endif
        __syncthreads();
    }

    template <int N, class JOIN>
    __device__ __forceinline__ void reduce(float (&value)[N], const JOIN &join)
    {
        block.reduce(value, join);
        if (blocks == 1)
            return;
#if __CUDA_ARCH__ >= 900
        const auto cluster = cooperative_groups::this_cluster();
        if ((int)threadIdx.x < blocks) {
            cluster_memory *const of = cluster.map_shared_rank(memory, threadIdx.x);
#pragma unroll
            for (int i = 0; i < N; i++)
                of->value[phase][i][rank] = value[i];
        }
        cluster.sync();
#pragma unroll
        for (int i = 0; i < N; i++) {
            value[i] = memory->value[phase][i][0];
            for (int b = 1; b < blocks; b++)
                value[i] = join(value[i], memory->value[phase][i][b]);
        }
        phase ^= 1;
#endif
    }

    template <int N> __device__ __forceinline__ void sum(float (&value)[N])
    {
        reduce(value, plus());
    }

  private:
    team block;
    cluster_memory *memory;
    int blocks, rank, phase;
};

/* ---- launching ---- */

struct held_shape {
    int cluster;      /* blocks of a row; 0: rows cannot be held */
    int64_t blocks;
    size_t shared;    /* bytes of a block */
    bool behind;      /* a kernel of the same call, which this one waits for where it needs to */
};

/* Rows of so many bytes, of as many tensors together; a thread has the same number of chunks of each. */
static inline held_shape hold_rows(const cuda_call &call, int64_t rows, int64_t bytes, int tensors)
{
    held_shape s = {0, 0, 0, false};
    const int most = call.capability >= 90 ? MOST_CLUSTER : 1;
    const int64_t chunks = ceil_div(bytes, 16), room = call.capability >= 90 ? 227 : 99;
    int cluster = 1;
    while (cluster < most && bytes > (int64_t)cluster * HELD_BYTES)
        cluster *= 2;
    const int64_t threads = (int64_t)cluster * HELD_THREADS * tensors;
    s.shared = (size_t)(ceil_div(chunks, threads) * HELD_THREADS * tensors * 16);
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
    config.blockDim = dim3(HELD_THREADS);
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
