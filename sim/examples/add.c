/* add.c - z = x + y of a matrix of halves, its rows spread over the blocks, in tiles of `tile`
 * elements: one buffer a matrix, or two that alternate. */
#include "c_api/asc_simd.h"
#include "examples.h"

enum {
    MOST = 16384,
    CLEAN = 16256
}; /* elements of a buffer; 256 B less move y to other bank groups */

typedef struct add_part {
    __gm__ half *x, *y, *z;
    uint32_t count, tile;
} add_part;

static __ubuf__ half *buffer(uint32_t offset)
{
    return (__ubuf__ half *)(asc_get_phy_buf_addr(0) + offset);
}

static uint32_t tile_at(const add_part *part, uint32_t at)
{
    return part->count - at < part->tile ? part->count - at : part->tile;
}

static __aicore__ void add_single(const add_part *part, int serial)
{
    __ubuf__ half *x = buffer(0), *y = buffer(MOST * 2), *z = buffer(MOST * 4);
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);    /* x and y are free */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);    /* z is free */
    asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0); /* the tile before is out */
    for (uint32_t at = 0; at < part->count; at += part->tile) {
        const uint32_t count = tile_at(part, at);
        asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
        if (serial) {
            asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        }
        asc_copy_gm2ub(x, part->x + at, count * 2);
        asc_copy_gm2ub(y, part->y + at, count * 2);
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
        asc_add(z, x, y, count);
        asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
        asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_copy_ub2gm(part->z + at, z, count * 2);
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
        if (serial) {
            asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        }
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
}

static __aicore__ void add_tile(const add_part *part, uint32_t at, __ubuf__ half *x,
                                __ubuf__ half *y, __ubuf__ half *z, event_t id)
{
    const uint32_t count = tile_at(part, at);
    asc_sync_wait(PIPE_V, PIPE_MTE2, id);
    asc_copy_gm2ub(x, part->x + at, count * 2);
    asc_copy_gm2ub(y, part->y + at, count * 2);
    asc_sync_notify(PIPE_MTE2, PIPE_V, id);
    asc_sync_wait(PIPE_MTE2, PIPE_V, id);
    asc_sync_wait(PIPE_MTE3, PIPE_V, id);
    asc_add(z, x, y, count);
    asc_sync_notify(PIPE_V, PIPE_MTE2, id);
    asc_sync_notify(PIPE_V, PIPE_MTE3, id);
    asc_sync_wait(PIPE_V, PIPE_MTE3, id);
    asc_copy_ub2gm(part->z + at, z, count * 2);
    asc_sync_notify(PIPE_MTE3, PIPE_V, id);
}

static __aicore__ void add_double(const add_part *part, int clean)
{
    const uint32_t size = MOST * 2, near = CLEAN * 2;
    const uint32_t x[2] = {0, clean ? 2 * size : 3 * size};
    const uint32_t y[2] = {clean ? near : size, clean ? 2 * size + near : 4 * size};
    const uint32_t z[2] = {clean ? 4 * size : 2 * size, clean ? 4 * size + near : 5 * size};
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID1);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID1);
    int set = 0;
    for (uint32_t at = 0; at < part->count; at += part->tile, set ^= 1) {
        add_tile(part, at, buffer(x[set]), buffer(y[set]), buffer(z[set]),
                 set ? EVENT_ID1 : EVENT_ID0);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID1);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID1);
}

EXAMPLE __global__ __vector__ void add_tiles(__gm__ half *x, __gm__ half *y, __gm__ half *z,
                                             uint32_t rows, uint32_t columns, uint32_t tile,
                                             uint32_t mode)
{
    asc_init();
    const uint32_t blocks = (uint32_t)asc_get_block_num(), block = (uint32_t)asc_get_block_idx();
    const uint32_t share = rows / blocks, more = rows % blocks;
    const uint32_t mine = share + (block < more ? 1 : 0);
    const uint32_t first = (block * share + (block < more ? block : more)) * columns;
    const add_part part = {x + first, y + first, z + first, mine * columns, tile};
    if (mode == ADD_OVERLAPPED || mode == ADD_SERIAL) {
        add_single(&part, mode == ADD_SERIAL);
    } else {
        add_double(&part, mode == ADD_DOUBLE_CLEAN);
    }
}
