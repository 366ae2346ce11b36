/* fused_linear_cross_entropy.h - what the backend's table needs. */
#ifndef CUDA_FUSED_LINEAR_CROSS_ENTROPY_H
#define CUDA_FUSED_LINEAR_CROSS_ENTROPY_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status
cuda_fused_linear_cross_entropy_forward(tg_ctx *ctx,
                                        const tg_fused_linear_cross_entropy_forward_args *args);
int cuda_fused_linear_cross_entropy_forward_accepts(
    const tg_fused_linear_cross_entropy_forward_args *args);
tg_status
cuda_fused_linear_cross_entropy_backward(tg_ctx *ctx,
                                         const tg_fused_linear_cross_entropy_backward_args *args);
int cuda_fused_linear_cross_entropy_backward_accepts(
    const tg_fused_linear_cross_entropy_backward_args *args);

tg_status cuda_fused_linear_logp_backward(tg_ctx *ctx,
                                          const tg_fused_linear_logp_backward_args *args);
int cuda_fused_linear_logp_backward_accepts(const tg_fused_linear_logp_backward_args *args);

tg_status cuda_fused_linear_logp_forward(tg_ctx *ctx,
                                         const tg_fused_linear_logp_forward_args *args);
int cuda_fused_linear_logp_forward_accepts(const tg_fused_linear_logp_forward_args *args);

#ifdef __cplusplus
}
#endif
#endif
