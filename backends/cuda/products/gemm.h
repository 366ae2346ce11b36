/* gemm.h - what the implementations of gemm share. */
#ifndef CUDA_GEMM_H
#define CUDA_GEMM_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_gemm_cublaslt(tg_ctx *ctx, const tg_gemm_args *args);
int cuda_gemm_cublaslt_accepts(const tg_gemm_args *args);
tg_status cuda_batched_gemm_cublaslt(tg_ctx *ctx, const tg_batched_gemm_args *args);
int cuda_batched_gemm_cublaslt_accepts(const tg_batched_gemm_args *args);
tg_status cuda_batched_gemm_symmetric(tg_ctx *ctx, const tg_batched_gemm_args *args);
int cuda_batched_gemm_symmetric_accepts(const tg_batched_gemm_args *args);
tg_status cuda_batched_gemm_wgmma(tg_ctx *ctx, const tg_batched_gemm_args *args);
int cuda_batched_gemm_wgmma_accepts(const tg_batched_gemm_args *args);
tg_status cuda_gemm_wgmma(tg_ctx *ctx, const tg_gemm_args *args);
int cuda_gemm_wgmma_accepts(const tg_gemm_args *args);
/* The same within a call that has begun; args are such as it accepts. */
tg_status cuda_gemm_wgmma_on(const cuda_call *call, const tg_gemm_args *args);

#ifdef __cplusplus
}
#endif

/* What beta belongs to, where it is not 0. */
static inline const tg_tensor *gemm_addend(const tg_gemm_args *args)
{
    return args->addend && args->beta != 0 ? args->addend : args->c;
}

/* K */
static inline int64_t gemm_inner(const tg_gemm_args *args)
{
    return args->a->shape[args->a->ndim - 1 - (args->trans_a != 0)];
}

#endif
