/* cluster.cuh - blocks of a cluster, which reach each other's shared memory (compute capability
 * 9.0). Where there are no clusters a block is alone. */
#ifndef CUDA_CLUSTER_CUH
#define CUDA_CLUSTER_CUH

#include <stdint.h>

/* The place of this block among those of its cluster. */
__device__ __forceinline__ int cluster_rank()
{
    uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return (int)rank;
}

/* A barrier in two halves: what a thread has written before it arrives, all threads of the cluster
 * see after they have waited. */
__device__ __forceinline__ void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* Where what lies at p in the shared memory of this block lies in that of block `rank`. */
template <class T> __device__ __forceinline__ T *cluster_map(T *p, int rank)
{
#if __CUDA_ARCH__ >= 900
    uint64_t there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return (T *)there;
#else
    return p;
#endif
}

#endif
