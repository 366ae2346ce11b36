/* launch_clusters.cuh - the host's side of persistent kernels whose blocks work in clusters, as
 * many as the card runs at once. */
#ifndef CUDA_LAUNCH_CLUSTERS_CUH
#define CUDA_LAUNCH_CLUSTERS_CUH

#include "elements.cuh"

/* Clusters that the card runs at once; *known keeps the answer, 0 before: the cards of a process
 * are taken to be of one kind. -1 if the kernel is not there, since the library was not built for
 * this card: it has no shared memory of its own then. */
template <class KERNEL>
static int clusters_at_once(int *known, KERNEL kernel, const cudaLaunchConfig_t &config)
{
    int clusters = __atomic_load_n(known, __ATOMIC_RELAXED);
    cudaFuncAttributes attributes;
    if (clusters != 0)
        return clusters;
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess ||
        attributes.sharedSizeBytes == 0 ||
        cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess || clusters == 0)
        clusters = -1;
    cudaGetLastError();
    __atomic_store_n(known, clusters, __ATOMIC_RELAXED);
    return clusters;
}

/* Of a kernel of clusters of `width` blocks; cluster: lives as long as it. */
static inline cudaLaunchConfig_t cluster_config(const cuda_call &call, int width, int64_t blocks,
                                                int threads, int shared,
                                                cudaLaunchAttribute *cluster)
{
    cudaLaunchConfig_t config = {};
    cluster->id = cudaLaunchAttributeClusterDimension;
    cluster->val.clusterDim = {(unsigned)width, 1, 1};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)shared;
    config.stream = call.stream;
    config.attrs = cluster;
    config.numAttrs = 1;
    return config;
}

/* Launches a kernel of clusters of `width` blocks, `most` of them at most. Returns false, with
 * nothing launched, where it is not there. */
template <class KERNEL, class... ARGS>
static bool launch_clusters(const cuda_call &call, int *known, KERNEL kernel, int width,
                            int threads, int shared, int64_t most, const ARGS &...args)
{
    cudaLaunchAttribute cluster;
    cudaLaunchConfig_t config =
        cluster_config(call, width, call.processors / width * width, threads, shared, &cluster);
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) !=
        cudaSuccess)
        return false;
    const int64_t clusters = clusters_at_once(known, kernel, config);
    if (clusters < 0)
        return false;
    config.gridDim = dim3((unsigned)(width * min_of(clusters, most)));
    return cudaLaunchKernelEx(&config, kernel, args...) == cudaSuccess;
}

#endif
