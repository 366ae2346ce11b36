/* What backends/cuda/host/cublaslt.h declares of cuBLASLt is what the library's own header says:
 * this compiles. */
#include <cublasLt.h>

#include "cublaslt.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)
SAME(CUBLASLT_OK, CUBLAS_STATUS_SUCCESS);
SAME(CUBLASLT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(CUBLASLT_OP_N, CUBLAS_OP_N);
SAME(CUBLASLT_OP_T, CUBLAS_OP_T);
SAME(CUBLASLT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(CUBLASLT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(CUBLASLT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(CUBLASLT_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(CUBLASLT_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(CUBLASLT_CONFIG_SPLITS, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
SAME(CUBLASLT_CONFIG_REDUCTION_SCHEME, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
SAME(CUBLASLT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(CUBLASLT_REDUCTION_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);

SAME(sizeof(cublaslt_algo), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(cublaslt_found), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(cublaslt_found, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(cublaslt_found, status), offsetof(cublasLtMatmulHeuristicResult_t, state));

/* A call of ours through each of their functions: as many arguments, each pointer or number where
 * they have one. */
#define VOID(x) ((void *)(x))
int main(void)
{
    cublaslt_found found = {.status = CUBLASLT_OK};
    cublasLtHandle_t handle = NULL;
    int count = 0;
    (void)sizeof(cublasLtCreate(&handle));
    (void)sizeof(cublasLtMatmulDescCreate(VOID(0), (cublasComputeType_t)0, (cudaDataType_t)0));
    (void)sizeof(cublasLtMatmulDescDestroy(VOID(0)));
    (void)sizeof(cublasLtMatmulDescSetAttribute(VOID(0), (cublasLtMatmulDescAttributes_t)0, VOID(0),
                                                sizeof count));
    (void)sizeof(
        cublasLtMatrixLayoutCreate(VOID(0), (cudaDataType)0, (uint64_t)1, (uint64_t)1, (int64_t)1));
    (void)sizeof(cublasLtMatrixLayoutDestroy(VOID(0)));
    (void)sizeof(cublasLtMatrixLayoutSetAttribute(VOID(0), (cublasLtMatrixLayoutAttribute_t)0,
                                                  VOID(0), sizeof count));
    (void)sizeof(cublasLtMatmulPreferenceCreate(VOID(0)));
    (void)sizeof(cublasLtMatmulPreferenceDestroy(VOID(0)));
    (void)sizeof(cublasLtMatmulPreferenceSetAttribute(
        VOID(0), (cublasLtMatmulPreferenceAttributes_t)0, VOID(0), sizeof count));
    (void)sizeof(cublasLtMatmulAlgoGetHeuristic(handle, VOID(0), VOID(0), VOID(0), VOID(0), VOID(0),
                                                VOID(0), 1, VOID(&found), &count));
    (void)sizeof(cublasLtMatmulAlgoConfigGetAttribute(
        VOID(0), (cublasLtMatmulAlgoConfigAttributes_t)0, VOID(0), sizeof count, VOID(0)));
    (void)sizeof(cublasLtMatmul(handle, VOID(0), VOID(0), VOID(0), VOID(0), VOID(0), VOID(0),
                                VOID(0), VOID(0), VOID(0), VOID(0), VOID(0), VOID(&found.algo),
                                VOID(0), (size_t)0, (cudaStream_t)0));
    return 0;
}
