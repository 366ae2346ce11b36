/* partials.asc.h - the kernel of one type, that of the result; see asc_each_type.h. */

/* result = the sum of `count` partial sums; accumulate: + result as it was. */
ASC_KERNEL ASC_NAME(sum_partials)(ASC_PARAMS(SUM_PARTIALS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *sum = ASC_UB(float, sum_at, 0);
    int slot = 0;
    asc_pipeline_begin();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID2); /* old has been read */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)tile.columns;
        const int64_t pitch = asc_pitch(tile, sizeof(ASC_T));
        ASC_MAY_WRITE(0); /* the last sum has left */
        if (accumulate) {
            asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID2);
            ASC_LOAD(ASC_T, old_at, 0, result, 0, tile);
            ASC_FENCE(PIPE_MTE2, PIPE_V);
#if ASC_16BIT
            ASC_WIDEN(sum, ASC_UB(ASC_T, old_at, 0), n);
#else
            asc_mul_scalar(sum, ASC_UB(float, old_at, 0), 1.0f, n);
#endif
            asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID2);
        } else {
            asc_duplicate(sum, 0.0f, n);
        }
        ASC_THEN();
        for (int64_t first = 0; first < count; first += PARTIALS_AT_ONCE, slot ^= 1) {
            const int64_t together = asc_min_of(PARTIALS_AT_ONCE, count - first);
            __ubuf__ float *part = ASC_UB(float, partials_at, slot);
            ASC_MAY_FILL(slot);
            asc_copy_rows_in(asc_place(partials_at, slot),
                             partials + first * partials_stride + tile.column, together,
                             tile.columns * 4, partials_stride * 4, pitch * 4);
            ASC_HAS_FILLED(slot);
            for (int64_t i = 0; i < together; i++) {
                asc_add(sum, sum, part + i * pitch, n);
                ASC_THEN();
            }
            ASC_HAS_READ(slot);
        }
#if ASC_16BIT
        ASC_NARROW(ASC_UB(ASC_T, out_at, 0), sum, n);
#endif
        ASC_HAS_WRITTEN(0);
#if ASC_16BIT
        ASC_STORE(ASC_T, result, 0, tile, out_at, 0);
#else
        ASC_STORE(ASC_T, result, 0, tile, sum_at, 0);
#endif
        ASC_HAS_LEFT(0);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID2);
    asc_pipeline_end();
}
