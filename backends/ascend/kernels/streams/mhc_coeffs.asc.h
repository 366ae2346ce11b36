/* mhc_coeffs.asc.h - the kernels of one type; see asc_each_type.h. */
#include "mhc_coeffs_body.asc.h"

ASC_KERNEL ASC_NAME(mhc_squares)(ASC_PARAMS(MHC_SQUARES))
{
    ASC_NAME(mhc_squares_body)(asc_get_block_idx(), asc_get_block_num(), ASC_NAMES(MHC_SQUARES));
}

ASC_KERNEL ASC_NAME(mhc_coeffs_dx)(ASC_PARAMS(MHC_COEFFS_DX))
{
    ASC_NAME(mhc_coeffs_dx_body)
    (asc_get_block_idx(), asc_get_block_num(), ASC_NAMES(MHC_COEFFS_DX));
}

/* Few numbers: nothing is gained by overlap, here and below. */
ASC_KERNEL ASC_NAME(mhc_turn)(ASC_PARAMS(MHC_TURN))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, columns);
    const int64_t size = (int64_t)sizeof(ASC_T), row = columns * size;
    __ubuf__ int32_t *table = ASC_UB(int32_t, table_at, 0);
    asc_modes_set();
    asc_short_steps(table, row, tile_rows);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t pitch = asc_round_up(tile.rows, 16);
        asc_copy_rows_in(asc_place(from_at, 0), from + tile.row * columns, 1, tile.rows * row,
                         tile.rows * row, asc_round_up(tile.rows * row, 32));
        asc_sync();
        for (int64_t c = 0; c < columns; c++) {
            asc_gather(ASC_UB(ASC_T, to_at, 0) + c * pitch, ASC_UB(ASC_T, from_at, 0),
                       (__ubuf__ uint32_t *)table, (uint32_t)tile.rows);
            ASC_THEN();
            asc_add_scalar(table, table, (int32_t)(c < columns - 1 ? size : size - row),
                           (uint32_t)tile_rows);
            ASC_THEN();
        }
        asc_sync();
        asc_copy_rows_out(to + tile.row, asc_place(to_at, 0), columns, tile.rows * size,
                          to_stride * size, pitch * size);
        asc_sync();
    }
    (void)from_stride, (void)tile_columns;
    asc_modes_clear();
}

ASC_KERNEL ASC_NAME(mhc_coeffs_dphi)(ASC_PARAMS(MHC_COEFFS_DPHI))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *sum = ASC_SCRATCH(sum), *part = ASC_SCRATCH(part);
    asc_modes_set();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t pitch = asc_round_up(columns, 16);
        const uint32_t n = (uint32_t)(tile.rows * pitch);
        asc_duplicate(sum, 0.0f, n);
        asc_duplicate(part, 0.0f, n); /* a row of it may end before one of dphi does */
        asc_sync();
        for (int64_t i = 0; i < parts; i++) {
            asc_copy_rows_in(asc_place(part_at, 0), sums + (tile.row * parts + i) * columns,
                             tile.rows, columns * 4, parts * columns * 4, pitch * 4);
            asc_sync();
            asc_add(sum, sum, part, n);
            asc_sync();
        }
        if (accumulate) {
            ASC_ROWS_IN(ASC_T, old_at, 0, dphi, dphi_stride, tile, pitch);
            asc_sync();
#if ASC_16BIT
            ASC_WIDEN(ASC_SCRATCH(old32), ASC_UB(ASC_T, old_at, 0), n);
            ASC_THEN();
            asc_add(sum, sum, ASC_SCRATCH(old32), n);
#else
            asc_add(sum, sum, ASC_SCRATCH(old), n);
#endif
            ASC_THEN();
        }
#if ASC_16BIT
        ASC_NARROW(ASC_UB(ASC_T, old_at, 0), sum, n);
#else
        asc_add_scalar(ASC_SCRATCH(old), sum, 0.0f, n);
#endif
        asc_sync();
        ASC_ROWS_OUT(ASC_T, dphi, dphi_stride, tile, old_at, 0, pitch);
        asc_sync();
    }
    asc_modes_clear();
}
