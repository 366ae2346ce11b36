/* flash_attention_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */
#include "flash_products.asc.h"

#include "flash_attention_backward_cube.asc.h"
#include "flash_attention_backward_vector.asc.h"

ASC_MIX_KERNEL ASC_NAME(flash_attention_backward)(ASC_PARAMS(FLASH_ATTENTION_BACKWARD),
                                                  uint64_t sync)
{
    asc_signals_begin(sync);
    asc_init();
    flash_problem f;
    FLASH_PROBLEM(f, 1);
    FLASH_PROBLEM_OPTIONS(f);
    const flash_units units = flash_units_begin(&f, asc_get_block_num());
    const FLASH_WORK w = ASC_NAME(flash_work_of)(&f, work + asc_get_block_idx() * work_block);
    if ASC_IS_AIC {
        const FLASH_TENSOR of_q = ASC_NAME(flash_tensor_of)(q, FLASH_STRIDES(q), d);
        const FLASH_TENSOR of_k = ASC_NAME(flash_tensor_of)(k, FLASH_STRIDES(k), d);
        const FLASH_TENSOR of_v = ASC_NAME(flash_tensor_of)(v, FLASH_STRIDES(v), e);
        const FLASH_TENSOR of_dy = ASC_NAME(flash_tensor_of)(dy, FLASH_STRIDES(dy), e);
        ASC_NAME(flash_multiply)(&f, &units, &w, &of_q, &of_k, &of_v, &of_dy, dq, dk, dv);
    } else {
        FLASH_UB u = {
            s_at,      ds_at,    p_at,
            dp_at,     lse_at,   delta_at,
            values_at, shift_at, less_at,
            factor_at, slope_at, spare_at,
            bias_at,   0,        {drawn_at, columns_at, rows_at, constants_at, 0, 0, 0, 0, 0, 0}};
        ASC_NAME(flash_weigh_all)(&f, &units, &u, &w, lse, delta);
    }
}

#undef FLASH_UB
#undef FLASH_WORK
#undef FLASH_HELD
#undef FLASH_HOLDS
#undef FLASH_TENSOR
#undef ASC_DEPTH
