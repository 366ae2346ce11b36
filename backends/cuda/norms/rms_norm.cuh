/* rms_norm.cuh - what the files of rms_norm share. */
#ifndef CUDA_RMS_NORM_CUH
#define CUDA_RMS_NORM_CUH

#include "rows/backward.cuh"
#include "rows/logistic.cuh"

/* The backward with a gate, or with a scale. */
tg_status rms_norm_backward_with(tg_ctx *ctx, const tg_rms_norm_backward_args *args);

/* The forward of few wide rows: whether that is one, and it. */
bool rms_norm_is_wide(const tg_rms_norm_forward_args *args);
tg_status rms_norm_forward_wide(tg_ctx *ctx, const tg_rms_norm_forward_args *args);

#endif
