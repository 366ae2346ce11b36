/* aclnn.h - what the backend uses of CANN's library of operators: our own prototypes of its
 * documented functions. An operator is called in two phases: <name>GetWorkspaceSize() plans it,
 * <name>() puts it on a stream and spends the plan. CANN keeps the plans that it has made, so that
 * the first phase of a product of known shape costs little. */
#ifndef ASCEND_ACLNN_H
#define ASCEND_ACLNN_H

#include <stddef.h>
#include <stdint.h>

enum {
    ACLNN_SUCCESS = 0,
    ACLNN_F32 = 0, /* types of data */
    ACLNN_F16 = 1,
    ACLNN_BF16 = 27,
    ACLNN_ND = 2,       /* formats: strided */
    ACLNN_KEEP_TYPE = 0 /* cubeMathType: f32 is multiplied as f32 */
};

typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclOpExecutor aclOpExecutor;

/* X(result, name, arguments): of libnnopbase.so, and of libopapi.so, or of libopapi_nn.so in a CANN
 * whose operators are cut by field. */
#define ACLNN_BASE_FUNCTIONS(X)                                                               \
    X(aclTensor *, aclCreateTensor,                                                           \
      (const int64_t *shape, uint64_t ndim, int type, const int64_t *strides, int64_t offset, \
       int format, const int64_t *storage_shape, uint64_t storage_ndim, void *data))          \
    X(int, aclDestroyTensor, (const aclTensor *tensor))                                       \
    X(aclScalar *, aclCreateScalar, (void *value, int type))                                  \
    X(int, aclDestroyScalar, (const aclScalar *scalar))
#define ACLNN_OPERATOR_FUNCTIONS(X)                                                               \
    X(int, aclnnMatmulGetWorkspaceSize,                                                           \
      (const aclTensor *a, const aclTensor *b, aclTensor *out, int8_t cube_math, uint64_t *bytes, \
       aclOpExecutor **executor))                                                                 \
    X(int, aclnnMatmul, (void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream)) \
    X(int, aclnnInplaceAddmmGetWorkspaceSize,                                                     \
      (const aclTensor *c, const aclTensor *a, const aclTensor *b, const aclScalar *beta,         \
       const aclScalar *alpha, int8_t cube_math, uint64_t *bytes, aclOpExecutor **executor))      \
    X(int, aclnnInplaceAddmm,                                                                     \
      (void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream))

#endif
