/* fused_neighborhood_attention.asc.h - its kernels of one type; see asc_each_type.h. */
#include "flash_products.asc.h"

#include "fused_neighborhood_attention_cube.asc.h"
#include "fused_neighborhood_attention_look.asc.h"
#include "fused_neighborhood_attention_vector.asc.h"

ASC_MIX_KERNEL ASC_NAME(fused_neighborhood_attention_forward)(ASC_PARAMS(NEIGHBORHOOD_FORWARD),
                                                              uint64_t sync)
{
    asc_signals_begin(sync);
    asc_init();
    flash_problem f;
    FLASH_PROBLEM(f, 1);
    const NEIGHBORHOOD_WORK w = ASC_NAME(neighborhood_work_of)(&f, 0, 0, work, work_block);
    if ASC_IS_AIC {
        const FLASH_TENSOR of_q = ASC_NAME(flash_tensor_of)(q, FLASH_STRIDES(q), d);
        const FLASH_TENSOR of_k = ASC_NAME(flash_tensor_of)(k, FLASH_STRIDES(k), d);
        const FLASH_TENSOR of_v = ASC_NAME(flash_tensor_of)(v, FLASH_STRIDES(v), d);
        const FLASH_TENSOR of_y = ASC_NAME(flash_tensor_of)(y, FLASH_STRIDES(y), d);
        ASC_NAME(neighborhood_multiply)(&f, &w, 0, &of_q, &of_k, &of_v, NULL, &of_y);
    } else {
        neighborhood_ub u = {s_at,      p_at,   0,        0,        folded_at, lse_at,
                             values_at, top_at, sum_at,   shift_at, total_at,  factor_at,
                             lanes_at,  odd_at, piece_at, wide_at,  0,         0};
        const FLASH_TENSOR of_v = ASC_NAME(flash_tensor_of)(v, FLASH_STRIDES(v), d);
        ASC_NAME(neighborhood_attend)(&f, &u, &w, 0, &of_v, 1, lse);
    }
}

ASC_MIX_KERNEL ASC_NAME(fused_neighborhood_attention_backward)(ASC_PARAMS(NEIGHBORHOOD_BACKWARD),
                                                               uint64_t sync)
{
    asc_signals_begin(sync);
    asc_init();
    flash_problem f;
    FLASH_PROBLEM(f, 1);
    const NEIGHBORHOOD_WORK w = ASC_NAME(neighborhood_work_of)(&f, hi - 1, 1, work, work_block);
    const FLASH_TENSOR of[] = {ASC_NAME(flash_tensor_of)(q, FLASH_STRIDES(q), d),
                               ASC_NAME(flash_tensor_of)(dy, FLASH_STRIDES(dy), d),
                               ASC_NAME(flash_tensor_of)(k, FLASH_STRIDES(k), d)};
    if ASC_IS_AIC {
        const FLASH_TENSOR of_v = ASC_NAME(flash_tensor_of)(v, FLASH_STRIDES(v), d);
        const FLASH_TENSOR to[] = {ASC_NAME(flash_tensor_of)(dq, FLASH_STRIDES(dq), d),
                                   ASC_NAME(flash_tensor_of)(dk, FLASH_STRIDES(dk), d),
                                   ASC_NAME(flash_tensor_of)(dv, FLASH_STRIDES(dv), d)};
        ASC_NAME(neighborhood_multiply)(&f, &w, hi - 1, &of[0], &of[2], &of_v, &of[1], to);
    } else {
        neighborhood_ub u = {s_at,      p_at,   ds_at,    dp_at,    folded_at, lse_at,
                             values_at, 0,      sum_at,   shift_at, total_at,  factor_at,
                             lanes_at,  odd_at, piece_at, wide_at,  0,         0};
        ASC_NAME(neighborhood_attend)(&f, &u, &w, hi - 1, of, 3, lse);
    }
}

#undef NEIGHBORHOOD_WORK
#undef FLASH_TENSOR
#undef ASC_DEPTH
