/* mhc_coeffs_beside.asc.h - the kernels of one type of x; see asc_each_type.h. */
#include "mhc_coeffs_body.asc.h"
#include "products/gemm_body.asc.h"

ASC_MIX_KERNEL ASC_NAME(gemm_beside_mhc_squares)(ASC_PARAMS(GEMM_BESIDE_MHC_SQUARES), uint64_t sync)
{
    (void)vector_blocks;
    asc_signals_begin(sync);
    if ASC_IS_AIC {
        ASC_NAME(gemm_body)(ASC_NAMES(GEMM));
    } else if (gemm_beside_first(vector_cores) < vector_cores) {
        ASC_NAME(mhc_squares_body)
        (gemm_beside_first(vector_cores), vector_cores, ASC_NAMES(MHC_SQUARES));
    }
}

ASC_MIX_KERNEL ASC_NAME(gemm_beside_mhc_coeffs_dx)(ASC_PARAMS(GEMM_BESIDE_MHC_DX), uint64_t sync)
{
    (void)vector_blocks;
    asc_signals_begin(sync);
    if ASC_IS_AIC {
        gemm_body_f32(ASC_NAMES(GEMM_F32));
    } else if (gemm_beside_first(vector_cores) < vector_cores) {
        ASC_NAME(mhc_coeffs_dx_body)
        (gemm_beside_first(vector_cores), vector_cores, ASC_NAMES(MHC_COEFFS_DX));
    }
}
