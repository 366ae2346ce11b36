/* cublaslt.h - what is called of NVIDIA's cuBLASLt, declared here so that a build needs no package
 * of it: opened at run time. Source: the library's reference, docs.nvidia.com/cuda/cublas, "Using
 * the cuBLASLt API". tests/cuda compares it with the real header where that is installed. */
#ifndef CUDA_CUBLASLT_H
#define CUDA_CUBLASLT_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* Types of elements are CUDA's own (library_types.h): CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF. */
enum {
    CUBLASLT_OK = 0,
    CUBLASLT_COMPUTE_32F = 68,
    CUBLASLT_OP_N = 0,
    CUBLASLT_OP_T = 1,
    /* attributes of a product */
    CUBLASLT_DESC_TRANSA = 3,
    CUBLASLT_DESC_TRANSB = 4,
    /* attributes of a matrix, of which there may be several at even distances */
    CUBLASLT_LAYOUT_BATCH_COUNT = 5,          /* int32_t */
    CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET = 6, /* int64_t, in elements */
    /* what is asked of an algorithm */
    CUBLASLT_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES = 5, /* and of B, C and D: the next three */
    /* how an algorithm works */
    CUBLASLT_CONFIG_SPLITS = 2,
    CUBLASLT_CONFIG_REDUCTION_SCHEME = 3,
    /* how the parts of a product that is split along k are added up: bits of a mask */
    CUBLASLT_REDUCTION_COMPUTE_TYPE = 2,
    CUBLASLT_REDUCTION_OUTPUT_TYPE = 4
};

typedef struct cublaslt_algo {
    uint64_t data[8];
} cublaslt_algo;

typedef struct cublaslt_found {
    cublaslt_algo algo;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} cublaslt_found;

typedef struct cublaslt_library *cublaslt_handle;
typedef struct cublaslt_product *cublaslt_desc;
typedef struct cublaslt_matrix *cublaslt_layout;
typedef struct cublaslt_wishes *cublaslt_preference;

/* X(name, arguments): each returns 0 or an error. Matrices are stored by columns, `ld` elements
 * apart. */
#define CUBLASLT_FUNCTIONS(X)                                                                \
    X(cublasLtCreate, (cublaslt_handle * handle))                                            \
    X(cublasLtMatmulDescCreate, (cublaslt_desc * desc, int compute_type, int scale_type))    \
    X(cublasLtMatmulDescDestroy, (cublaslt_desc desc))                                       \
    X(cublasLtMatmulDescSetAttribute,                                                        \
      (cublaslt_desc desc, int attribute, const void *value, size_t size))                   \
    X(cublasLtMatrixLayoutCreate,                                                            \
      (cublaslt_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t ld))     \
    X(cublasLtMatrixLayoutDestroy, (cublaslt_layout layout))                                 \
    X(cublasLtMatrixLayoutSetAttribute,                                                      \
      (cublaslt_layout layout, int attribute, const void *value, size_t size))               \
    X(cublasLtMatmulPreferenceCreate, (cublaslt_preference * preference))                    \
    X(cublasLtMatmulPreferenceDestroy, (cublaslt_preference preference))                     \
    X(cublasLtMatmulPreferenceSetAttribute,                                                  \
      (cublaslt_preference preference, int attribute, const void *value, size_t size))       \
    X(cublasLtMatmulAlgoGetHeuristic,                                                        \
      (cublaslt_handle handle, cublaslt_desc desc, cublaslt_layout a, cublaslt_layout b,     \
       cublaslt_layout c, cublaslt_layout d, cublaslt_preference preference, int wanted,     \
       cublaslt_found *found, int *count))                                                   \
    X(cublasLtMatmulAlgoConfigGetAttribute,                                                  \
      (const cublaslt_algo *algo, int attribute, void *value, size_t size, size_t *written)) \
    X(cublasLtMatmul,                                                                        \
      (cublaslt_handle handle, cublaslt_desc desc, const void *alpha, const void *a,         \
       cublaslt_layout a_layout, const void *b, cublaslt_layout b_layout, const void *beta,  \
       const void *c, cublaslt_layout c_layout, void *d, cublaslt_layout d_layout,           \
       const cublaslt_algo *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream))

typedef struct cublaslt {
#define X(name, arguments) int(*name) arguments;
    CUBLASLT_FUNCTIONS(X)
#undef X
} cublaslt;

/* Finds the library and its functions. Returns 0, with a line in the log, if it is not there. */
int cuda_open_cublaslt(cublaslt *lt);

#endif
