/* fused_moe.asc.h - the kernel of one type; see asc_each_type.h. */
#include "products/grouped_bring.asc.h"

#include "fused_moe_cube.asc.h"
#include "fused_moe_vector.asc.h"

ASC_MIX_KERNEL ASC_NAME(moe_project)(ASC_PARAMS(MOE_PROJECT), uint64_t sync)
{
    asc_signals_begin(sync);
    grouped_cut g;
    g.of.m = rows;
    g.of.n = inner;
    g.of.k = g.of.share = k;
    g.of.tile_m = MOE_TILE_ROWS;
    g.of.tile_n = columns;
    g.of.tiles_m = 0;
    g.of.tiles_n = (inner + columns - 1) / columns;
    g.of.splits = 1;
    g.of.packet = packet;
    g.of.band = band;
    g.of.units = 0;
    g.of.biased = 0;
    g.groups = groups;
    g.rows = rows;
    g.step = GEMM_STEP;
    g.offset = offset;
    asc_dcci_entire_all(); /* the scalar unit reads boundaries */
    work += asc_get_block_idx() * MOE_SLOTS * MOE_TILE_ROWS * 2 * side;
    panels += asc_get_block_idx() * MOE_PANELS * MOE_TILE_ROWS * panel_stride;
    if ASC_IS_AIC
        ASC_NAME(moe_multiply)(&g, ASC_NAMES(MOE_PROJECT));
    else
        ASC_NAME(moe_activate)(&g, ASC_NAMES(MOE_PROJECT));
}
