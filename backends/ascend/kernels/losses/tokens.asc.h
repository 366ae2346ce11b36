/* tokens.asc.h - the kernel of one type; see asc_each_type.h. */

ASC_KERNEL ASC_NAME(zero_rows)(ASC_PARAMS(ZERO_ROWS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    asc_modes_set();
    asc_duplicate(ASC_UB(float, zeros_at, 0), 0.0f,
                  (uint32_t)((tile_columns * (int64_t)sizeof(ASC_T) + 3) / 4));
    asc_sync();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        ASC_STORE(ASC_T, x, x_stride, tile, zeros_at, 0);
    }
    asc_modes_clear();
}
