/* cudnn.h - what is called of NVIDIA's cuDNN, declared here so that a build needs no package of it:
 * opened at run time. Source: the library's reference, docs.nvidia.com/deeplearning/cudnn, "cuDNN
 * Graph Library". tests/cuda compares it with the real header where that is installed. */
#ifndef CUDA_CUDNN_H
#define CUDA_CUDNN_H

#include <cuda_runtime_api.h>
#include <stdint.h>

/* X(ours, theirs, value) */
#define DNN_VALUES(X)                                                           \
    X(DNN_OK, CUDNN_STATUS_SUCCESS, 0)                                          \
    /* types of tensors' elements */                                            \
    X(DNN_F32, CUDNN_DATA_FLOAT, 0)                                             \
    X(DNN_F16, CUDNN_DATA_HALF, 2)                                              \
    X(DNN_I32, CUDNN_DATA_INT32, 4)                                             \
    X(DNN_BF16, CUDNN_DATA_BFLOAT16, 9)                                         \
    X(DNN_BOOL, CUDNN_DATA_BOOLEAN, 11)                                         \
    /* types of attributes */                                                   \
    X(DNN_OF_HANDLE, CUDNN_TYPE_HANDLE, 0)                                      \
    X(DNN_OF_TYPE, CUDNN_TYPE_DATA_TYPE, 1)                                     \
    X(DNN_OF_BOOL, CUDNN_TYPE_BOOLEAN, 2)                                       \
    X(DNN_OF_I64, CUDNN_TYPE_INT64, 3)                                          \
    X(DNN_OF_POINTER, CUDNN_TYPE_VOID_PTR, 6)                                   \
    X(DNN_OF_HEUR_MODE, CUDNN_TYPE_HEUR_MODE, 8)                                \
    X(DNN_OF_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 14)                     \
    X(DNN_OF_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                     \
    X(DNN_OF_REDUCTION, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 18)                 \
    /* descriptors */                                                           \
    X(DNN_POINTWISE, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0)                     \
    X(DNN_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                        \
    X(DNN_HEUR, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                         \
    X(DNN_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                     \
    X(DNN_OP_POINTWISE, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13)       \
    X(DNN_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                   \
    X(DNN_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                      \
    X(DNN_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                          \
    X(DNN_MATMUL, CUDNN_BACKEND_MATMUL_DESCRIPTOR, 18)                          \
    X(DNN_OP_MATMUL, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 19)             \
    X(DNN_REDUCTION, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 21)                    \
    X(DNN_OP_REDUCTION, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 22)       \
    /* their attributes */                                                      \
    X(DNN_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MODE, 0)                         \
    X(DNN_POINTWISE_PRECISION, CUDNN_ATTR_POINTWISE_MATH_PREC, 1)               \
    X(DNN_POINTWISE_AXIS, CUDNN_ATTR_POINTWISE_AXIS, 9)                         \
    X(DNN_HEUR_MODE, CUDNN_ATTR_ENGINEHEUR_MODE, 200)                           \
    X(DNN_HEUR_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)               \
    X(DNN_HEUR_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                     \
    X(DNN_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                   \
    X(DNN_PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)            \
    X(DNN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)        \
    X(DNN_OP_POINTWISE_DESC, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750) \
    X(DNN_OP_POINTWISE_X, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751)            \
    X(DNN_OP_POINTWISE_B, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752)            \
    X(DNN_OP_POINTWISE_Y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753)            \
    X(DNN_OP_POINTWISE_T, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 758)            \
    X(DNN_GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                  \
    X(DNN_GRAPH_OPS, CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                        \
    X(DNN_TENSOR_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)              \
    X(DNN_TENSOR_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                        \
    X(DNN_TENSOR_SHAPE, CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                      \
    X(DNN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES, 903)                       \
    X(DNN_TENSOR_ID, CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                          \
    X(DNN_TENSOR_VIRTUAL, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907)                    \
    X(DNN_TENSOR_BY_VALUE, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 908)                  \
    X(DNN_PACK_IDS, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                   \
    X(DNN_PACK_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)           \
    X(DNN_PACK_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)              \
    X(DNN_MATMUL_PRECISION, CUDNN_ATTR_MATMUL_COMP_TYPE, 1500)                  \
    X(DNN_OP_MATMUL_A, CUDNN_ATTR_OPERATION_MATMUL_ADESC, 1520)                 \
    X(DNN_OP_MATMUL_B, CUDNN_ATTR_OPERATION_MATMUL_BDESC, 1521)                 \
    X(DNN_OP_MATMUL_C, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 1522)                 \
    X(DNN_OP_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_DESC, 1523)               \
    X(DNN_REDUCTION_MODE, CUDNN_ATTR_REDUCTION_OPERATOR, 1600)                  \
    X(DNN_REDUCTION_PRECISION, CUDNN_ATTR_REDUCTION_COMP_TYPE, 1601)            \
    X(DNN_OP_REDUCTION_X, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 1610)           \
    X(DNN_OP_REDUCTION_Y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 1611)           \
    X(DNN_OP_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_DESC, 1612)         \
    /* modes */                                                                 \
    X(DNN_ADD, CUDNN_POINTWISE_ADD, 0)                                          \
    X(DNN_MUL, CUDNN_POINTWISE_MUL, 1)                                          \
    X(DNN_DIV, CUDNN_POINTWISE_DIV, 6)                                          \
    X(DNN_SUB, CUDNN_POINTWISE_SUB, 9)                                          \
    X(DNN_EXP, CUDNN_POINTWISE_EXP, 13)                                         \
    X(DNN_LOG, CUDNN_POINTWISE_LOG, 15)                                         \
    X(DNN_GE, CUDNN_POINTWISE_CMP_GE, 303)                                      \
    X(DNN_INDEX, CUDNN_POINTWISE_GEN_INDEX, 501)                                \
    X(DNN_SELECT, CUDNN_POINTWISE_BINARY_SELECT, 601)                           \
    X(DNN_SUM, CUDNN_REDUCE_TENSOR_ADD, 0)                                      \
    X(DNN_MAX, CUDNN_REDUCE_TENSOR_MAX, 3)                                      \
    X(DNN_HEUR_A, CUDNN_HEUR_MODE_A, 3)

enum {
#define X(ours, theirs, value) ours = value,
    DNN_VALUES(X)
#undef X
};

typedef struct dnn_context *dnn_handle;
typedef void *dnn_descriptor;

/* X(name, arguments): each returns 0 or an error. */
#define DNN_FUNCTIONS(X)                                                                        \
    X(cudnnCreate, (dnn_handle * handle))                                                       \
    X(cudnnSetStream, (dnn_handle handle, cudaStream_t stream))                                 \
    X(cudnnBackendCreateDescriptor, (int type, dnn_descriptor *descriptor))                     \
    X(cudnnBackendDestroyDescriptor, (dnn_descriptor descriptor))                               \
    X(cudnnBackendFinalize, (dnn_descriptor descriptor))                                        \
    X(cudnnBackendSetAttribute,                                                                 \
      (dnn_descriptor descriptor, int name, int type, int64_t count, const void *values))       \
    X(cudnnBackendGetAttribute, (dnn_descriptor descriptor, int name, int type, int64_t wanted, \
                                 int64_t *count, void *values))                                 \
    X(cudnnBackendExecute, (dnn_handle handle, dnn_descriptor plan, dnn_descriptor pack))

typedef struct dnn_library {
#define X(name, arguments) int(*name) arguments;
    DNN_FUNCTIONS(X)
#undef X
} dnn_library;

#endif
