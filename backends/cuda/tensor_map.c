/* tensor_map.c - maps of matrices are made by the driver, whose function is asked for at run time: nothing is linked with it. */
#include "tensor_map.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <tigon/backend.h>

typedef CUresult (*encode_fn)(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                              void *data, const cuuint64_t *sizes, const cuuint64_t *strides,
                              const cuuint32_t *box, const cuuint32_t *steps,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

static encode_fn encode;

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
        encode = (encode_fn)found;
}

int cuda_tensor_map(CUtensorMap *map, int type, const void *data, int64_t lines, int64_t width,
                    int64_t stride, int box_lines)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const cuuint64_t sizes[2] = {(cuuint64_t)width, (cuuint64_t)lines};
    const cuuint64_t strides[1] = {(cuuint64_t)stride};
    const cuuint32_t box[2] = {128 / (cuuint32_t)tg_type_size(type), (cuuint32_t)box_lines};
    const cuuint32_t steps[2] = {1, 1};
    const CUtensorMapDataType of = type == TG_F32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : type == TG_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                     : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    pthread_once(&once, find_encode);
    return encode && encode(map, of, 2, (void *)data, sizes, strides, box, steps,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
