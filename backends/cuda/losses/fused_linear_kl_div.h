/* fused_linear_kl_div.h - what the backend's table needs. */
#ifndef CUDA_FUSED_LINEAR_KL_DIV_H
#define CUDA_FUSED_LINEAR_KL_DIV_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_fused_linear_kl_div_forward(tg_ctx *ctx,
                                           const tg_fused_linear_kl_div_forward_args *args);
int cuda_fused_linear_kl_div_forward_accepts(const tg_fused_linear_kl_div_forward_args *args);
tg_status cuda_fused_linear_kl_div_backward(tg_ctx *ctx,
                                            const tg_fused_linear_kl_div_backward_args *args);
int cuda_fused_linear_kl_div_backward_accepts(const tg_fused_linear_kl_div_backward_args *args);

#ifdef __cplusplus
}
#endif
#endif
