/* data_copy.c - a matrix of halves comes into UB in tiles, again and again: what copies alone
 * cost. */
#include "c_api/asc_simd.h"
#include "examples.h"

enum { ROOM = 192 * 1024 - 256 };

typedef struct tiles {
    __gm__ half *matrix;
    uint32_t columns, tile_rows, tile_columns;
    uint32_t filled; /* bytes of UB since the last barrier */
} tiles;

/* Rows of a tile lie one behind the other in UB. When UB is full it begins again, behind a
 * barrier. */
static __aicore__ void copy_tile(tiles *to, uint32_t row, uint32_t column, uint32_t end)
{
    const uint32_t columns = end - column < to->tile_columns ? end - column : to->tile_columns;
    const uint32_t bytes = to->tile_rows * ((columns * 2 + 31) / 32 * 32);
    if (to->filled + bytes > ROOM) {
        asc_sync_pipe(PIPE_MTE2);
        to->filled = 0;
    }
    asc_copy_gm2ub_align((__ubuf__ half *)(asc_get_phy_buf_addr(0) + to->filled),
                         to->matrix + (uint64_t)row * to->columns + column, (uint16_t)to->tile_rows,
                         columns * 2, 0, 0, (to->columns - columns) * 2, 0);
    to->filled += bytes;
}

static __aicore__ void copy_rows(tiles *to, uint32_t first, uint32_t rows, uint32_t column,
                                 uint32_t end)
{
    for (uint32_t row = first; row < first + rows; row += to->tile_rows) {
        for (uint32_t at = column; at < end; at += to->tile_columns) {
            copy_tile(to, row, at, end);
        }
    }
}

/* Each block its share of the rows, in `parts` bands of columns, `times` times each. */
EXAMPLE __global__ __vector__ void copy_shared(__gm__ half *matrix, uint32_t rows, uint32_t columns,
                                               uint32_t tile_rows, uint32_t tile_columns,
                                               uint32_t parts, uint32_t times)
{
    asc_init();
    tiles to = {matrix, columns, tile_rows, tile_columns, 0};
    const uint32_t share = rows / (uint32_t)asc_get_block_num();
    const uint32_t first = share * (uint32_t)asc_get_block_idx();
    for (uint32_t part = 0; part < parts; part++) {
        for (uint32_t i = 0; i < times; i++) {
            copy_rows(&to, first, share, columns / parts * part, columns / parts * (part + 1));
        }
    }
}

/* Every block the whole matrix: all in the same order, or each beginning at a band of rows of its
 * own. */
EXAMPLE __global__ __vector__ void copy_whole(__gm__ half *matrix, uint32_t rows, uint32_t columns,
                                              uint32_t tile_rows, uint32_t tile_columns,
                                              uint32_t rotate)
{
    asc_init();
    tiles to = {matrix, columns, tile_rows, tile_columns, 0};
    const uint32_t bands = rows / tile_rows;
    for (uint32_t i = 0; i < bands; i++) {
        const uint32_t band = rotate ? (i + (uint32_t)asc_get_block_idx()) % bands : i;
        copy_rows(&to, band * tile_rows, tile_rows, 0, columns);
    }
}
