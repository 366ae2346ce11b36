/* fused_moe.asc.h - the kernel of one type; see asc_each_type.h. */
#include "products/grouped_bring.asc.h"

#include "fused_moe_cube.asc.h"
#include "fused_moe_vector.asc.h"

ASC_MIX_KERNEL ASC_NAME(moe_project)(ASC_PARAMS(MOE_PROJECT), uint64_t sync)
{
    asc_signals_begin(sync);
    grouped_cut g = grouped_rows_of(rows, inner, k, MOE_TILE_ROWS, columns, packet, band, groups,
                                    GEMM_STEP, offset);
    asc_dcci_entire_all(); /* the scalar unit reads boundaries */
    work += asc_get_block_idx() * MOE_SLOTS * MOE_TILE_ROWS * 2 * side;
    panels += asc_get_block_idx() * MOE_PANELS * MOE_TILE_ROWS * panel_stride;
    if ASC_IS_AIC
        ASC_NAME(moe_multiply)(&g, ASC_NAMES(MOE_PROJECT));
    else
        ASC_NAME(moe_activate)(&g, ASC_NAMES(MOE_PROJECT));
}
