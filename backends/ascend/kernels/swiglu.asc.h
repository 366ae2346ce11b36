/* swiglu.asc.h - the two kernels of one type; see asc_each_type.h. */

ASC_KERNEL ASC_NAME(swiglu_forward)(__gm__ ASC_T *gate, __gm__ ASC_T *up, __gm__ ASC_T *y,
                                    int64_t gate_stride, int64_t up_stride, int64_t y_stride,
                                    int64_t rows, int64_t columns, int64_t tile_rows,
                                    int64_t tile_columns, int64_t gate_multiplier,
                                    int64_t down_multiplier, int64_t gate_at, int64_t up_at,
                                    int64_t y_at, int64_t a_at, int64_t u_at, int64_t h_at,
                                    int64_t e_at)
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *h = ASC_UB(float, h_at, 0);
    __ubuf__ float *e = ASC_UB(float, e_at, 0);
    int slot = 0;
    asc_pipeline_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
        ASC_LOAD(ASC_T, gate_at, slot, gate, gate_stride, tile);
        ASC_LOAD(ASC_T, up_at, slot, up, up_stride, tile);
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
#if ASC_16BIT
        __ubuf__ float *a = ASC_UB(float, a_at, 0);
        __ubuf__ float *u = ASC_UB(float, u_at, 0);
        ASC_WIDEN(a, ASC_UB(ASC_T, gate_at, slot), n);
        ASC_WIDEN(u, ASC_UB(ASC_T, up_at, slot), n);
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
        ASC_THEN();
#else
        __ubuf__ float *a = ASC_UB(float, gate_at, slot);
        __ubuf__ float *u = ASC_UB(float, up_at, slot);
#endif
        ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
#if ASC_16BIT
        swiglu_forward_tile(a, a, u, h, e, asc_f32(gate_multiplier), asc_f32(down_multiplier), n);
        ASC_NARROW(out, a, n);
        ASC_THEN(); /* a is the next tile's */
#else
        swiglu_forward_tile(out, a, u, h, e, asc_f32(gate_multiplier), asc_f32(down_multiplier), n);
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
#endif
        ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
        ASC_STORE(ASC_T, y, y_stride, tile, y_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(swiglu_backward)(__gm__ ASC_T *dy, __gm__ ASC_T *gate, __gm__ ASC_T *up,
                                     __gm__ ASC_T *dgate, __gm__ ASC_T *dup, int64_t dy_stride,
                                     int64_t gate_stride, int64_t up_stride, int64_t dgate_stride,
                                     int64_t dup_stride, int64_t rows, int64_t columns,
                                     int64_t tile_rows, int64_t tile_columns,
                                     int64_t gate_multiplier, int64_t down_multiplier,
                                     int64_t dy_at, int64_t gate_at, int64_t up_at,
                                     int64_t dgate_at, int64_t dup_at, int64_t g_at, int64_t a_at,
                                     int64_t u_at, int64_t h_at, int64_t k_at, int64_t e_at)
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *h = ASC_UB(float, h_at, 0);
    __ubuf__ float *k = ASC_UB(float, k_at, 0);
    __ubuf__ float *e = ASC_UB(float, e_at, 0);
    int slot = 0;
    asc_pipeline_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        __ubuf__ ASC_T *dgate_out = ASC_UB(ASC_T, dgate_at, slot);
        __ubuf__ ASC_T *dup_out = ASC_UB(ASC_T, dup_at, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
        ASC_LOAD(ASC_T, dy_at, slot, dy, dy_stride, tile);
        ASC_LOAD(ASC_T, gate_at, slot, gate, gate_stride, tile);
        ASC_LOAD(ASC_T, up_at, slot, up, up_stride, tile);
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
#if ASC_16BIT
        __ubuf__ float *g = ASC_UB(float, g_at, 0);
        __ubuf__ float *a = ASC_UB(float, a_at, 0);
        __ubuf__ float *u = ASC_UB(float, u_at, 0);
        ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, slot), n);
        ASC_WIDEN(a, ASC_UB(ASC_T, gate_at, slot), n);
        ASC_WIDEN(u, ASC_UB(ASC_T, up_at, slot), n);
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
        ASC_THEN();
#else
        __ubuf__ float *g = ASC_UB(float, dy_at, slot);
        __ubuf__ float *a = ASC_UB(float, gate_at, slot);
        __ubuf__ float *u = ASC_UB(float, up_at, slot);
#endif
        ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
#if ASC_16BIT
        swiglu_backward_tile(g, a, g, a, u, h, k, e, asc_f32(gate_multiplier),
                             asc_f32(down_multiplier), n);
        ASC_NARROW(dup_out, a, n);
        ASC_NARROW(dgate_out, g, n);
        ASC_THEN();
#else
        swiglu_backward_tile(dgate_out, dup_out, g, a, u, h, k, e, asc_f32(gate_multiplier),
                             asc_f32(down_multiplier), n);
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
#endif
        ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
        ASC_STORE(ASC_T, dgate, dgate_stride, tile, dgate_at, slot);
        ASC_STORE(ASC_T, dup, dup_stride, tile, dup_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
    }
    asc_pipeline_end();
}
