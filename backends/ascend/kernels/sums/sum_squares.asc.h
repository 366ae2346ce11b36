/* sum_squares.asc.h - the two kernels of one type; see asc_each_type.h. */

/* What the pitch leaves free are zeros: a tile is summed as one row. */
ASC_KERNEL ASC_NAME(sum_squares_forward)(ASC_PARAMS(SUM_SQUARES_FORWARD))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *total = ASC_SCRATCH(total);
    __ubuf__ float *part = ASC_SCRATCH(part);
    int slot = 0;
    asc_pipeline_begin();
    asc_duplicate(total, 0.0f, ASC_LANES);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        ASC_MAY_FILL(slot);
        ASC_LOAD(ASC_T, x_at, slot, x, x_stride, tile);
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
        __ubuf__ float *x32 = ASC_SCRATCH(x32);
        ASC_WIDEN(x32, ASC_UB(ASC_T, x_at, slot), n);
        ASC_HAS_READ(slot);
        ASC_THEN();
#else
        __ubuf__ float *x32 = ASC_UB(float, x_at, slot);
#endif
        asc_mul(x32, x32, x32, n);
        asc_duplicate(lanes, 0.0f, ASC_LANES);
        ASC_THEN();
        ASC_FOLD(asc_add, lanes, x32, 1, n, 0);
        ASC_THEN();
        asc_add(total, total, lanes, ASC_LANES);
#if !ASC_16BIT
        ASC_HAS_READ(slot);
#endif
        ASC_THEN(); /* what was summed is the next tile's */
    }
    asc_repeat_reduce_sum(part, total, ASC_LANES);
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(sums + asc_get_block_idx() * sums_stride, part, 4);
    asc_pipeline_end();
}

#define ASC_FLAT ASC_NAME(sum_squares_backward)
#define ASC_FLAT_ARGS SUM_SQUARES_BACKWARD
#define ASC_FLAT_BEGIN asc_dcci_entire_all() /* the scalar unit reads dy */
#define ASC_FLAT_READS ASC_READ(x)
#define ASC_FLAT_WRITES ASC_WRITE(dx, x32)
#define ASC_FLAT_TILE sum_squares_backward_tile(dx32, x32, dy[0], n)
#include "shared/asc_flat.asc.h"
