/* moe_spread.asc.h - rows of tokens in the order of their slots, plain and weighed; of one type,
 * see asc_each_type.h. */

/* No arithmetic: rows come in one by one, and leave together. Rows without a slot leave from
 * `zeros`. */
ASC_KERNEL ASC_NAME(moe_spread)(ASC_PARAMS(MOE_SPREAD))
{
    const asc_grid grid = asc_grid_of(count, columns, tile_rows, tile_columns);
    const int64_t first = asc_get_block_idx(), step = asc_get_block_num(), size = sizeof(ASC_T);
    int side = 0;
    asc_init();
    asc_set_copy_pad_val((uint16_t)0);
    asc_duplicate(ASC_UB(uint16_t, zeros_at, 0), (uint16_t)0,
                  (uint32_t)(asc_round_up(tile_columns * size, 32) / 2));
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_MTE2);
    ASC_WAIT(PIPE_S, PIPE_MTE2, side);
    moe_ask(slot + asc_tile_at(grid, first).row, asc_tile_at(grid, first).rows, index_at, side);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, side);
    for (int64_t task = first; task < grid.tasks; task += step, side ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t bytes = tile.columns * size, pitch = asc_pitch(tile, size) * size;
        const __ubuf__ int64_t *index = ASC_UB(int64_t, index_at, side);
        if (task + step < grid.tasks) {
            const asc_tile next = asc_tile_at(grid, task + step);
            ASC_WAIT(PIPE_S, PIPE_MTE2, side ^ 1);
            moe_ask(slot + next.row, next.rows, index_at, side ^ 1);
            ASC_NOTIFY(PIPE_MTE2, PIPE_S, side ^ 1);
        }
        ASC_WAIT(PIPE_MTE2, PIPE_S, side);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, side);
        for (int64_t i = 0; i < tile.rows; i++)
            if (index[i] >= 0)
                asc_copy_rows_in(asc_place(taken_at, side) + (uint64_t)(i * pitch),
                                 x + index[i] / top_k * x_stride + tile.column, 1, bytes, 0, pitch);
        ASC_NOTIFY(PIPE_MTE2, PIPE_MTE3, side);
        ASC_WAIT(PIPE_MTE2, PIPE_MTE3, side);
        for (int64_t i = 0, n; i < tile.rows; i += n) {
            const int none = index[i] < 0;
            n = none ? 1 : moe_run(index, i, tile.rows);
            asc_copy_rows_out(out + (tile.row + i) * out_stride + tile.column,
                              none ? asc_place(zeros_at, 0)
                                   : asc_place(taken_at, side) + (uint64_t)(i * pitch),
                              n, bytes, out_stride * size, pitch);
        }
        ASC_NOTIFY(PIPE_S, PIPE_MTE2, side);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, side);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_MTE2);
}

/* The rows of a tile, and their weights: each the first number of a block of 32 bytes. */
static inline __aicore__ void ASC_NAME(moe_weighed_in)(const __ubuf__ int64_t *index, asc_tile tile,
                                                       int64_t pitch, int side,
                                                       ASC_PARAMS(MOE_SPREAD_WEIGHED))
{
    const int64_t size = sizeof(ASC_T);
    for (int64_t i = 0; i < tile.rows; i++) {
        if (index[i] < 0)
            continue;
        asc_copy_rows_in(asc_place(weight_at, side) + (uint64_t)(i * 32), weights + index[i], 1, 4,
                         0, 32);
        asc_copy_rows_in(asc_place(taken_at, side) + (uint64_t)(i * pitch * size),
                         x + index[i] / top_k * x_stride + tile.column, 1, tile.columns * size, 0,
                         pitch * size);
    }
}

/* The results of a tile, in `out`. */
static inline __aicore__ void ASC_NAME(moe_weigh)(const __ubuf__ int64_t *index, asc_tile tile,
                                                  int64_t pitch, int side,
                                                  ASC_PARAMS(MOE_SPREAD_WEIGHED))
{
    __ubuf__ float *value = ASC_SCRATCH(value), *block = ASC_SCRATCH(block);
    const uint32_t n = (uint32_t)(tile.rows * pitch);
#if ASC_16BIT
    __ubuf__ float *from = ASC_SCRATCH(wide), *to = from;
    ASC_WIDEN(from, ASC_UB(ASC_T, taken_at, side), n);
#else
    __ubuf__ float *from = ASC_UB(float, taken_at, side), *to = ASC_UB(float, out_at, side);
    (void)n;
#endif
    asc_datablock_reduce_sum(value, ASC_UB(float, weight_at, side), (uint32_t)(tile.rows * 8));
    ASC_THEN();
#if ASC_16BIT
    ASC_HAS_READ(side);
#endif
    asc_spread(block, value, tile.rows);
    ASC_THEN();
    ASC_MAY_WRITE(side);
    ASC_BY_ROW(asc_mul, to, from, block, tile.rows, pitch);
    ASC_THEN();
#if !ASC_16BIT
    ASC_HAS_READ(side);
#endif
    for (int64_t i = 0; i < tile.rows; i++)
        if (index[i] < 0)
            asc_duplicate(to + i * pitch, 0.0f, (uint32_t)pitch);
    ASC_THEN();
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, out_at, side), to, n);
    ASC_THEN();
#endif
}

ASC_KERNEL ASC_NAME(moe_spread_weighed)(ASC_PARAMS(MOE_SPREAD_WEIGHED))
{
    const asc_grid grid = asc_grid_of(count, columns, tile_rows, tile_columns);
    const int64_t first = asc_get_block_idx(), step = asc_get_block_num();
    int side = 0;
    asc_clear_begin();
    MOE_CLEAR(taken, 2, asc_round_up(tile_columns, ASC_LANES), sizeof(ASC_T));
    MOE_CLEAR(weight, 2, 1, 32);
    asc_duplicate(ASC_SCRATCH(value), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    asc_sync();
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    ASC_WAIT(PIPE_S, PIPE_MTE2, side);
    moe_ask(slot + asc_tile_at(grid, first).row, asc_tile_at(grid, first).rows, index_at, side);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, side);
    for (int64_t task = first; task < grid.tasks; task += step, side ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        const __ubuf__ int64_t *index = ASC_UB(int64_t, index_at, side);
        if (task + step < grid.tasks) {
            const asc_tile next = asc_tile_at(grid, task + step);
            ASC_WAIT(PIPE_S, PIPE_MTE2, side ^ 1);
            moe_ask(slot + next.row, next.rows, index_at, side ^ 1);
            ASC_NOTIFY(PIPE_MTE2, PIPE_S, side ^ 1);
        }
        ASC_WAIT(PIPE_MTE2, PIPE_S, side);
        ASC_MAY_FILL(side);
        ASC_NAME(moe_weighed_in)(index, tile, pitch, side, ASC_NAMES(MOE_SPREAD_WEIGHED));
        ASC_HAS_FILLED(side);
        ASC_NAME(moe_weigh)(index, tile, pitch, side, ASC_NAMES(MOE_SPREAD_WEIGHED));
        ASC_NOTIFY(PIPE_S, PIPE_MTE2, side);
        ASC_HAS_WRITTEN(side);
        ASC_ROWS_OUT(ASC_T, out, out_stride, tile, out_at, side, pitch);
        ASC_HAS_LEFT(side);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    asc_pipeline_end();
}
