/* driver.h - the driver's own streams, graphs, cards and memory, as a program has them that uses
 * CUDA beside Tigon. */
#ifndef TIGON_CUDA_DRIVER_H
#define TIGON_CUDA_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>

static int (*stream_create)(void **stream, unsigned flags), (*stream_destroy)(void *stream),
    (*capture)(void *stream, int mode), (*capture_end)(void *stream, void **graph),
    (*instantiate)(void **ready, void *graph, unsigned long long flags),
    (*launch)(void *ready, void *stream), (*delete_graph)(void *graph),
    (*delete_ready)(void *ready), (*card_count)(int *count), (*card_at)(int *card, int number),
    (*retain)(void **card_context, int card), (*set_current)(void *card_context),
    (*alloc)(void **memory, size_t bytes), (*release)(void *memory),
    (*nodes)(void *graph, void **node, size_t *count),
    (*load_module)(void **module, const void *image),
    (*get_kernel)(void **kernel, void *module, const char *name),
    (*launch_kernel)(void *kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                     void *stream, void **arguments, void **extra);

static inline int load_driver(void)
{
    const struct {
        void *at;
        const char *name;
    } functions[] = {{&stream_create, "cuStreamCreate"},
                     {&stream_destroy, "cuStreamDestroy_v2"},
                     {&capture, "cuStreamBeginCapture_v2"},
                     {&capture_end, "cuStreamEndCapture"},
                     {&instantiate, "cuGraphInstantiateWithFlags"},
                     {&launch, "cuGraphLaunch"},
                     {&delete_graph, "cuGraphDestroy"},
                     {&delete_ready, "cuGraphExecDestroy"},
                     {&card_count, "cuDeviceGetCount"},
                     {&card_at, "cuDeviceGet"},
                     {&retain, "cuDevicePrimaryCtxRetain"},
                     {&set_current, "cuCtxSetCurrent"},
                     {&alloc, "cuMemAlloc_v2"},
                     {&release, "cuMemFree_v2"},
                     {&nodes, "cuGraphGetNodes"},
                     {&load_module, "cuModuleLoadData"},
                     {&get_kernel, "cuModuleGetFunction"},
                     {&launch_kernel, "cuLaunchKernel"}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (size_t i = 0; driver && i < sizeof functions / sizeof *functions; i++)
        if (!(*(void **)functions[i].at = dlsym(driver, functions[i].name)))
            return 0;
    return driver != NULL;
}

#endif
