/* gemm_beside.asc.h - the kernels of one type of the product; see asc_each_type.h. */
#include "gemm_body.asc.h"

#if !ASC_16BIT /* logits are f32, whatever the product is of */
#include "cross_entropy_body.asc.h"
#include "softmax_jsd_body.asc.h"
#endif

ASC_MIX_KERNEL ASC_NAME(gemm_beside_cross_entropy)(ASC_PARAMS(GEMM_BESIDE_CROSS_ENTROPY),
                                                   uint64_t sync)
{
    asc_set_ffts_base_addr(sync);
    if ASC_IS_AIC {
        ASC_NAME(gemm_body)(ASC_NAMES(GEMM));
    } else {
        const int64_t block = 2 * asc_get_block_idx() + asc_get_sub_block_id();
        if (block < vector_blocks)
            cross_entropy_body_f32(block, ASC_NAMES(CROSS_ENTROPY));
    }
}

ASC_MIX_KERNEL ASC_NAME(gemm_beside_softmax_jsd)(ASC_PARAMS(GEMM_BESIDE_SOFTMAX_JSD), uint64_t sync)
{
    asc_set_ffts_base_addr(sync);
    if ASC_IS_AIC {
        ASC_NAME(gemm_body)(ASC_NAMES(GEMM));
    } else {
        const int64_t block = 2 * asc_get_block_idx() + asc_get_sub_block_id();
        if (block < vector_blocks)
            softmax_jsd_body_f32(block, vector_blocks, ASC_NAMES(SOFTMAX_JSD));
    }
}
