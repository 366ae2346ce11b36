/* tensor_map.c - a tensor as Hopper's copy engine is told of it, by a function of the driver. */
#include "tensor_map.h"

#include <dlfcn.h>
#include <pthread.h>
#include <tigon/backend.h>

#include "library.h"

static __typeof__(&cuTensorMapEncodeTiled) encode;

static void find_function(void)
{
    static const char *const files[] = {"libcuda.so.1", NULL};
    void *driver = cuda_open_library(files);
    *(void **)&encode = driver ? dlsym(driver, "cuTensorMapEncodeTiled") : NULL;
}

int cuda_has_tensor_maps(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_function);
    return encode != NULL;
}

int cuda_make_tensor_map(CUtensorMap *map, int type, void *data, const int64_t *sizes,
                         const int64_t *strides, const int *box)
{
    enum { DIMENSIONS = 4, ANY_STRIDE = 16 };
    cuuint64_t counts[DIMENSIONS], distances[DIMENSIONS - 1];
    cuuint32_t tile[DIMENSIONS], steps[DIMENSIONS];
    for (int i = 0; i < DIMENSIONS; i++) {
        counts[i] = (cuuint64_t)sizes[i];
        tile[i] = (cuuint32_t)box[i];
        steps[i] = 1;
        if (i > 0)
            distances[i - 1] = sizes[i] > 1 ? (cuuint64_t)strides[i - 1] : ANY_STRIDE;
    }
    return cuda_has_tensor_maps() &&
           encode(map,
                  type == TG_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                  : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                  DIMENSIONS, data, counts, distances, tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
