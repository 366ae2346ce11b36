/* flash_attention.asc.h - the forward kernel of one type; see asc_each_type.h. */
#include "flash_products.asc.h"

#include "flash_attention_cube.asc.h"
#include "flash_attention_weights.asc.h"

#include "flash_attention_ends.asc.h"
#include "flash_attention_vector.asc.h"

ASC_MIX_KERNEL ASC_NAME(flash_attention_forward)(ASC_PARAMS(FLASH_ATTENTION_FORWARD), uint64_t sync)
{
    asc_signals_begin(sync);
    asc_init();
    flash_problem f;
    FLASH_PROBLEM(f, together);
    FLASH_PROBLEM_OPTIONS(f);
    if (sinks)
        asc_dcci_entire_all(); /* the scalar unit reads them */
    const FLASH_WORK w = ASC_NAME(flash_work_of)(&f, work + asc_get_block_idx() * work_block);
    if ASC_IS_AIC {
        ASC_NAME(flash_multiply)
        (&f, &w, q, FLASH_STRIDES(q), k, FLASH_STRIDES(k), v, FLASH_STRIDES(v));
    } else {
        FLASH_UB u = {
            s_at,      p_at,     folded_at,
            piece_at,  sums_at,  lanes_at,
            fading_at, total_at, shift_at,
            factor_at, max_at,   top_at,
            fall_at,   down_at,  log_at,
            sink_at,   slope_at, spare_at,
            bias_at,   0,        0,
            0,         0,        {drawn_at, columns_at, rows_at, constants_at, 0, 0, 0, 0, 0, 0}};
        ASC_NAME(flash_attend)
        (&f, &u, &w, y, FLASH_STRIDES(y), lse, sinks);
    }
}

#undef FLASH_UB
#undef FLASH_WORK
#undef FLASH_TENSOR
#undef ASC_DEPTH
