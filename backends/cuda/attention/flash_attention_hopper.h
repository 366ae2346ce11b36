/* flash_attention_hopper.h - flash_attention by kernels for Hopper (compute capability 9.0). For C
 * and C++. */
#ifndef CUDA_FLASH_ATTENTION_HOPPER_H
#define CUDA_FLASH_ATTENTION_HOPPER_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_flash_attention_forward_sm90(tg_ctx *ctx,
                                            const tg_flash_attention_forward_args *args);
int cuda_flash_attention_forward_sm90_any_accepts(const tg_flash_attention_forward_args *args);
int cuda_flash_attention_forward_sm90_accepts(const tg_flash_attention_forward_args *args);
tg_status cuda_flash_attention_backward_sm90(tg_ctx *ctx,
                                             const tg_flash_attention_backward_args *args);
int cuda_flash_attention_backward_sm90_accepts(const tg_flash_attention_backward_args *args);

#ifdef __cplusplus
}
#endif

#endif
