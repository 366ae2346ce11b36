/* adamw.asc.h - the kernel of one type, that of the parameters; see asc_each_type.h. */
#include "as_f32.asc.h"

static inline __aicore__ void ASC_NAME(adamw_load)(asc_tile tile, int slot, ASC_PARAMS(ADAMW))
{
    if (ASC_16BIT && grad_f32)
        ASC_LOAD(float, grad_wide_at, slot, (__gm__ float *)grad, 0, tile);
    else
        ASC_LOAD(ASC_T, grad_at, slot, (__gm__ ASC_T *)grad, 0, tile);
    ASC_LOAD(float, m_at, slot, m, 0, tile);
    ASC_LOAD(float, v_at, slot, v, 0, tile);
    if (master)
        ASC_LOAD(float, master_at, slot, master, 0, tile);
    else
        ASC_LOAD(ASC_T, param_at, slot, param, 0, tile);
}

ASC_KERNEL ASC_NAME(adamw)(ASC_PARAMS(ADAMW))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t grad_at_all = ASC_16BIT && grad_f32 ? grad_wide_at : grad_at;
    adamw_numbers by;
    int slot = 0;
    if (!asc_clipping_of(&by.clip, grad_squares, asc_f32(scale), asc_f32(limit), asc_f32(max_norm)))
        return;
    by.beta1 = asc_f32(beta1);
    by.rest1 = asc_f32(rest1);
    by.beta2 = asc_f32(beta2);
    by.rest2 = asc_f32(rest2);
    by.keep = asc_f32(keep);
    by.step = asc_f32(step);
    by.root = asc_f32(root);
    by.eps = asc_f32(eps);
    asc_in_place_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        __ubuf__ ASC_T *narrow = ASC_UB(ASC_T, param_at, slot);
        ASC_MAY_FILL(slot);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        ASC_NAME(adamw_load)(tile, slot, ASC_NAMES(ADAMW));
        ASC_HAS_FILLED(slot);
        __ubuf__ float *g =
            ASC_NAME(as_f32)(asc_place(grad_at_all, slot), ASC_SCRATCH(grad32), grad_f32, n);
        __ubuf__ float *p = ASC_NAME(updated_as_f32)(narrow, ASC_UB(float, master_at, slot),
                                                     master != 0, ASC_SCRATCH(param32), n);
#if ASC_16BIT
        ASC_THEN();
#endif
        adamw_tile(p, ASC_UB(float, m_at, slot), ASC_UB(float, v_at, slot), g, ASC_SCRATCH(square),
                   &by, n);
        ASC_HAS_READ(slot);
        ASC_NAME(updated_out)(narrow, p, master != 0, n);
        ASC_HAS_WRITTEN(slot);
        ASC_STORE(ASC_T, param, 0, tile, param_at, slot);
        ASC_STORE(float, m, 0, tile, m_at, slot);
        ASC_STORE(float, v, 0, tile, v_at, slot);
        if (master)
            ASC_STORE(float, master, 0, tile, master_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    asc_in_place_end();
}
