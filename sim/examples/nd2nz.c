/* nd2nz.c - a row-major matrix of 16-bit elements becomes columns of 32 B blocks, tile by tile in
 * UB: `stride` blocks lie between the columns of a tile, and if that is a multiple of 16 all eight
 * results of a repeat fall into one bank group. */
#include "c_api/asc_simd.h"
#include "examples.h"

enum { ROWS = 144, WIDTH = 128, BLOCK = 16, COLUMNS = WIDTH / BLOCK, ROOM = 145 * COLUMNS * 32 };

typedef struct matrix {
    __gm__ uint16_t *x, *z;
    uint32_t rows, columns, stride;
} matrix;

static __aicore__ void convert_tile(const matrix *of, uint32_t row, uint32_t column, uint32_t set,
                                    event_t id)
{
    __ubuf__ uint16_t *in = (__ubuf__ uint16_t *)asc_get_phy_buf_addr(0) + set * ROWS * WIDTH;
    __ubuf__ uint16_t *out =
        (__ubuf__ uint16_t *)(asc_get_phy_buf_addr(2 * ROWS * WIDTH * 2) + set * ROOM);
    const uint32_t rows = of->rows - row < ROWS ? of->rows - row : ROWS;
    asc_sync_wait(PIPE_V, PIPE_MTE2, id);
    asc_copy_gm2ub(in, of->x + row * of->columns + column, (uint16_t)rows, COLUMNS,
                   (uint16_t)((of->columns - WIDTH) / BLOCK), 0);
    asc_sync_notify(PIPE_MTE2, PIPE_V, id);
    asc_sync_wait(PIPE_MTE2, PIPE_V, id);
    asc_sync_wait(PIPE_MTE3, PIPE_V, id);
    asc_copy(out, in, (uint8_t)rows, (uint16_t)of->stride, 1, 1, COLUMNS);
    asc_sync_notify(PIPE_V, PIPE_MTE2, id);
    asc_sync_notify(PIPE_V, PIPE_MTE3, id);
    asc_sync_wait(PIPE_V, PIPE_MTE3, id);
    asc_copy_ub2gm(of->z + column * of->rows + row * BLOCK, out, COLUMNS, (uint16_t)rows,
                   (uint16_t)(of->stride - rows), (uint16_t)(of->rows - rows));
    asc_sync_notify(PIPE_MTE3, PIPE_V, id);
}

/* Six bands of rows by eight of columns. */
EXAMPLE __global__ __vector__ void nd2nz(__gm__ uint16_t *x, __gm__ uint16_t *z, uint32_t rows,
                                         uint32_t columns, uint32_t stride)
{
    asc_init();
    const matrix of = {x, z, rows, columns, stride};
    const uint32_t block = (uint32_t)asc_get_block_idx(), bands = (uint32_t)asc_get_block_num() / 8;
    const uint32_t tiles = (rows + ROWS - 1) / ROWS, band = block / 8, width = columns / 8;
    const uint32_t share = tiles / bands, more = tiles % bands;
    const uint32_t first = band * share + (band < more ? band : more);
    const uint32_t last = first + share + (band < more ? 1 : 0);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID1);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID1);
    uint32_t set = 0;
    for (uint32_t tile = first; tile < last; tile++) {
        for (uint32_t column = block % 8 * width; column < (block % 8 + 1) * width;
             column += WIDTH, set ^= 1) {
            convert_tile(&of, tile * ROWS, column, set, set ? EVENT_ID1 : EVENT_ID0);
        }
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID1);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID1);
}
