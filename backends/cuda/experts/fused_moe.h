/* fused_moe.h - implementations of a mixture's products for some cards alone. */
#ifndef CUDA_FUSED_MOE_H
#define CUDA_FUSED_MOE_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_fused_moe_forward_sm90(tg_ctx *ctx, const tg_fused_moe_forward_args *args);
int cuda_fused_moe_forward_sm90_accepts(const tg_fused_moe_forward_args *args);
tg_status cuda_fused_moe_backward_sm90(tg_ctx *ctx, const tg_fused_moe_backward_args *args);
int cuda_fused_moe_backward_sm90_accepts(const tg_fused_moe_backward_args *args);
tg_status cuda_grouped_gemm_forward_sm90(tg_ctx *ctx, const tg_grouped_gemm_forward_args *args);
int cuda_grouped_gemm_forward_sm90_accepts(const tg_grouped_gemm_forward_args *args);
tg_status cuda_grouped_gemm_backward_sm90(tg_ctx *ctx, const tg_grouped_gemm_backward_args *args);
int cuda_grouped_gemm_backward_sm90_accepts(const tg_grouped_gemm_backward_args *args);

#ifdef __cplusplus
}
#endif
#endif
