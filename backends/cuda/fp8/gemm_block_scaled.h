/* gemm_block_scaled.h - an implementation of block-scaled products for some cards alone. */
#ifndef CUDA_GEMM_BLOCK_SCALED_H
#define CUDA_GEMM_BLOCK_SCALED_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_gemm_block_scaled_sm90(tg_ctx *ctx, const tg_gemm_block_scaled_args *args);
int cuda_gemm_block_scaled_sm90_accepts(const tg_gemm_block_scaled_args *args);

#ifdef __cplusplus
}
#endif
#endif
