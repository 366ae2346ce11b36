/* muon.asc.h - the kernels of one type, that of the update; see asc_each_type.h. */
#include "as_f32.asc.h"

static inline __aicore__ void ASC_NAME(muon_momentum_load)(asc_tile tile, int slot,
                                                           ASC_PARAMS(MUON_MOMENTUM))
{
    if (ASC_16BIT && grad_f32)
        ASC_LOAD(float, grad_wide_at, slot, (__gm__ float *)grad, 0, tile);
    else
        ASC_LOAD(ASC_T, grad_at, slot, (__gm__ ASC_T *)grad, 0, tile);
    if (ASC_16BIT && m_f32)
        ASC_LOAD(float, m_wide_at, slot, (__gm__ float *)m, 0, tile);
    else
        ASC_LOAD(ASC_T, m_at, slot, (__gm__ ASC_T *)m, 0, tile);
}

/* The tile's momentum, from f32, and its update. */
static inline __aicore__ void ASC_NAME(muon_momentum_store)(asc_tile tile, int slot, int64_t steps,
                                                            ASC_PARAMS(MUON_MOMENTUM))
{
    ASC_STORE(ASC_T, update, 0, tile, update_at, slot);
    if (!steps)
        return;
    if (ASC_16BIT && m_f32)
        ASC_STORE(float, (__gm__ float *)m, 0, tile, m_wide_at, slot);
    else
        ASC_STORE(ASC_T, (__gm__ ASC_T *)m, 0, tile, m_at, slot);
}

ASC_KERNEL ASC_NAME(muon_momentum)(ASC_PARAMS(MUON_MOMENTUM))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t grad_at_all = ASC_16BIT && grad_f32 ? grad_wide_at : grad_at;
    const int64_t m_at_all = ASC_16BIT && m_f32 ? m_wide_at : m_at;
    asc_clipping clip;
    int slot = 0;
    const int steps =
        asc_clipping_of(&clip, grad_squares, asc_f32(scale), asc_f32(limit), asc_f32(max_norm));
    asc_in_place_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        __ubuf__ ASC_T *narrow = ASC_UB(ASC_T, update_at, slot);
        ASC_MAY_FILL(slot);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        ASC_NAME(muon_momentum_load)(tile, slot, ASC_NAMES(MUON_MOMENTUM));
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
        __ubuf__ float *u = ASC_SCRATCH(update32);
#else
        __ubuf__ float *u = narrow;
#endif
        __ubuf__ float *g =
            ASC_NAME(as_f32)(asc_place(grad_at_all, slot), ASC_SCRATCH(grad32), grad_f32, n);
        __ubuf__ float *own =
            ASC_NAME(as_f32)(asc_place(m_at_all, slot), ASC_SCRATCH(m32), m_f32, n);
        ASC_THEN();
        if (steps)
            muon_momentum_tile(u, own, g, &clip, asc_f32(momentum), asc_f32(rest), plain, n);
        else
            asc_duplicate(u, 0.0f, n);
        ASC_THEN();
        ASC_HAS_READ(slot);
#if ASC_16BIT
        ASC_NARROW(narrow, u, n);
        if (!m_f32)
            ASC_NARROW(ASC_UB(ASC_T, m_at, slot), own, n);
        ASC_THEN();
#endif
        ASC_HAS_WRITTEN(slot);
        ASC_NAME(muon_momentum_store)(tile, slot, steps, ASC_NAMES(MUON_MOMENTUM));
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    asc_in_place_end();
}

ASC_KERNEL ASC_NAME(muon_update)(ASC_PARAMS(MUON_UPDATE))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    asc_clipping clip;
    int slot = 0;
    if (!asc_clipping_of(&clip, grad_squares, 1.0f, 0.0f, 1.0f))
        return;
    asc_in_place_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        __ubuf__ ASC_T *narrow = ASC_UB(ASC_T, param_at, slot);
        ASC_MAY_FILL(slot);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        ASC_LOAD(ASC_T, update_at, slot, update, 0, tile);
        if (master)
            ASC_LOAD(float, master_at, slot, master, 0, tile);
        else
            ASC_LOAD(ASC_T, param_at, slot, param, 0, tile);
        ASC_HAS_FILLED(slot);
        __ubuf__ float *u =
            ASC_NAME(as_f32)(asc_place(update_at, slot), ASC_SCRATCH(update32), !ASC_16BIT, n);
        __ubuf__ float *p = ASC_NAME(updated_as_f32)(narrow, ASC_UB(float, master_at, slot),
                                                     master != 0, ASC_SCRATCH(param32), n);
        ASC_THEN();
        muon_update_tile(p, u, asc_f32(keep), asc_f32(rate), n);
        ASC_HAS_READ(slot);
        ASC_NAME(updated_out)(narrow, p, master != 0, n);
        ASC_HAS_WRITTEN(slot);
        ASC_STORE(ASC_T, param, 0, tile, param_at, slot);
        if (master)
            ASC_STORE(float, master, 0, tile, master_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    asc_in_place_end();
}
