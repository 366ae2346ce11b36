/* tensor_map.c - maps of tensors are made by the driver, whose function is asked for at run time:
 * nothing is linked with it. */
#include "tensor_map.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <tigon/backend.h>

enum { MOST = 4, ANY_STRIDE = 16 };

static __typeof__(&cuTensorMapEncodeTiled) encode;

static void find_encode(void)
{
    static const char name[] = "cuTensorMapEncodeTiled";
    enum cudaDriverEntryPointQueryResult result;
    void *found = NULL;
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess)
        encode = (__typeof__(encode))found;
}

int cuda_has_tensor_maps(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_encode);
    return encode != NULL;
}

static CUtensorMapDataType element_of(int type)
{
    return type == TG_F32      ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
           : type == TG_BF16   ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
           : type == TG_F8E4M3 ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                               : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

static int make(CUtensorMap *map, int type, int dimensions, void *data, const int64_t *sizes,
                const int64_t *strides, const int *box)
{
    cuuint64_t counts[MOST], distances[MOST - 1];
    cuuint32_t tile[MOST], steps[MOST];
    for (int i = 0; i < dimensions; i++) {
        counts[i] = (cuuint64_t)sizes[i];
        tile[i] = (cuuint32_t)box[i];
        steps[i] = 1;
        if (i > 0)
            distances[i - 1] = sizes[i] > 1 ? (cuuint64_t)strides[i - 1] : ANY_STRIDE;
    }
    return cuda_has_tensor_maps() &&
           encode(map, element_of(type), (cuuint32_t)dimensions, data, counts, distances, tile,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

int cuda_tensor_map(CUtensorMap *map, int type, const void *data, int64_t lines, int64_t width,
                    int64_t stride, int box_lines)
{
    return make(map, type, 2, (void *)data, (const int64_t[]){width, lines}, &stride,
                (const int[]){128 / (int)tg_type_size(type), box_lines});
}

int cuda_batch_tensor_map(CUtensorMap *map, int type, const void *data, int64_t matrices,
                          int64_t step, int64_t lines, int64_t width, int64_t stride, int box_lines)
{
    return make(map, type, 3, (void *)data, (const int64_t[]){width, lines, matrices},
                (const int64_t[]){stride, step},
                (const int[]){128 / (int)tg_type_size(type), box_lines, 1});
}

int cuda_make_tensor_map(CUtensorMap *map, int type, void *data, const int64_t *sizes,
                         const int64_t *strides, const int *box)
{
    return make(map, type, 4, data, sizes, strides, box);
}
