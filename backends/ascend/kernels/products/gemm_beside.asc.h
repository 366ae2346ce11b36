/* gemm_beside.asc.h - the kernels of one type of the product; see asc_each_type.h. */
#include "gemm_body.asc.h"

#if !ASC_16BIT /* logits are f32, whatever the product is of */
#include "losses/cross_entropy_body.asc.h"
#include "losses/softmax_jsd_body.asc.h"
#endif

ASC_MIX_KERNEL ASC_NAME(gemm_beside_cross_entropy)(ASC_PARAMS(GEMM_BESIDE_CROSS_ENTROPY),
                                                   uint64_t sync)
{
    asc_signals_begin(sync);
    if ASC_IS_AIC {
        ASC_NAME(gemm_body)(ASC_NAMES(GEMM));
    } else {
        for (int64_t block = gemm_beside_first(vector_cores); block < vector_blocks;
             block += vector_cores) {
            cross_entropy_body_f32(block, ASC_NAMES(CROSS_ENTROPY));
            /* UB becomes the next block's; unnoticed: bodies end with pipes that have waited for
             * each other */
            asc_sync();
        }
    }
}

ASC_MIX_KERNEL ASC_NAME(gemm_beside_softmax_jsd)(ASC_PARAMS(GEMM_BESIDE_SOFTMAX_JSD), uint64_t sync)
{
    asc_signals_begin(sync);
    if ASC_IS_AIC {
        ASC_NAME(gemm_body)(ASC_NAMES(GEMM));
    } else {
        for (int64_t block = gemm_beside_first(vector_cores); block < vector_blocks;
             block += vector_cores) {
            softmax_jsd_body_f32(block, vector_blocks, ASC_NAMES(SOFTMAX_JSD));
            /* UB becomes the next block's; unnoticed: bodies end with pipes that have waited for
             * each other */
            asc_sync();
        }
    }
}
