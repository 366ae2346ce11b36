/* flash_attention_cudnn.h - the forward of flash_attention by cuDNN. */
#ifndef CUDA_FLASH_ATTENTION_CUDNN_H
#define CUDA_FLASH_ATTENTION_CUDNN_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_flash_attention_cudnn(tg_ctx *ctx, const tg_flash_attention_forward_args *args);
int cuda_flash_attention_cudnn_accepts(const tg_flash_attention_forward_args *args);

#ifdef __cplusplus
}
#endif

#endif
