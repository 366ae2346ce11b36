/* quantize_rms_norm.h - an implementation for rows of whole blocks. */
#ifndef CUDA_QUANTIZE_RMS_NORM_H
#define CUDA_QUANTIZE_RMS_NORM_H

#include "host/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

tg_status cuda_quantize_rms_norm(tg_ctx *ctx, const tg_quantize_rms_norm_args *args);
int cuda_quantize_rms_norm_accepts(const tg_quantize_rms_norm_args *args);

#ifdef __cplusplus
}
#endif
#endif
