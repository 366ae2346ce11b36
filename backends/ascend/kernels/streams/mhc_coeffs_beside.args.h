/* mhc_coeffs_beside.args.h - what kernels are given that multiply while they read x; see
 * asc_args.h. */
#ifndef MHC_COEFFS_BESIDE_ARGS_H
#define MHC_COEFFS_BESIDE_ARGS_H

#include "mhc_coeffs.args.h"
#include "products/gemm.args.h"

/* Both lists, where dx is beside a product of f32; how many blocks the other has, and how many
 * vector cores share them. */
#define GEMM_BESIDE_MHC_SQUARES(X) GEMM(X) MHC_SQUARES(X) X(I64, vector_blocks) X(I64, vector_cores)
#define GEMM_BESIDE_MHC_DX(X) \
    GEMM_F32(X) MHC_COEFFS_DX(X) X(I64, vector_blocks) X(I64, vector_cores)

#endif
