/* embedding.asc.c - rows of a table by index, and the gradient of the table.
 *
 * The gradient takes two launches. The first sorts the positions by their index (embedding_sort.h).
 * The second sums tile by tile of the table: each element of a row is added up by one block, in the
 * order of the indices. */
#include "embedding_sort.h"

/* ---- rows ---- */

/* `count` indices or records, of 8 bytes each, for S. */
static inline __aicore__ void embedding_ask(__gm__ void *from, int64_t count, int64_t place,
                                            int slot)
{
    ASC_WAIT(PIPE_S, PIPE_MTE2, slot);
    asc_copy_gm2ub_align(ASC_UB(uint32_t, place, slot), (__gm__ uint32_t *)from,
                         (uint32_t)count * 8);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, slot);
}

/* The records of a block's tiles, a chunk after the other: those from `at` on, before `last`, are
 * of the tile of `task`. */
typedef struct embedding_chunk {
    int64_t task, at, last;
} embedding_chunk;

static inline __aicore__ embedding_chunk embedding_chunk_of(embedding_order order, asc_grid grid,
                                                            __gm__ int32_t *ends, int64_t task)
{
    const int64_t tile = task / grid.column_tiles;
    const int64_t slot = embedding_slot(order, tile);
    embedding_chunk c;
    c.task = task;
    c.at = slot ? ends[slot - 1] : 0;
    c.last = ends[slot];
    return c;
}

/* Leaves no chunk (at >= last) behind the last one. */
static inline __aicore__ void embedding_next(embedding_chunk *c, embedding_order order,
                                             asc_grid grid, __gm__ int32_t *ends)
{
    c->at += grid.tile_rows;
    while (c->at >= c->last && c->task + asc_get_block_num() < grid.tasks)
        *c = embedding_chunk_of(order, grid, ends, c->task + asc_get_block_num());
}

/* Copies the rows of a tile whose bit is set in or out: of the table, `size` bytes an element,
 * `pitch` bytes a row in UB. */
static inline __aicore__ void embedding_rows(int out, __gm__ char *table, int64_t stride,
                                             int64_t size, uint64_t used, asc_tile tile,
                                             uint64_t place, int64_t pitch)
{
    const int64_t bytes = tile.columns * size;
    for (; used; used &= used - 1) {
        const int64_t row = asc_ffs(used);
        __gm__ char *at = table + ((tile.row + row) * stride + tile.column) * size;
        if (out)
            asc_copy_rows_out(at, place + (uint64_t)(row * pitch), 1, bytes, 0, pitch);
        else
            asc_copy_rows_in(place + (uint64_t)(row * pitch), at, 1, bytes, 0,
                             asc_round_up(bytes, 32));
    }
}

ASC_KERNEL embedding_sort_i64(ASC_PARAMS(EMBEDDING_SORT))
{
    const int64_t list_at = list == EMBEDDING_LARGE_LIST    ? large_list_at
                            : list == EMBEDDING_MIDDLE_LIST ? middle_list_at
                                                            : small_list_at;
    embedding_scan s;
    s.indices = indices;
    s.n = n;
    s.piece = piece;
    s.order = embedding_order_of(tile_shift, owner_shift, tiles_each);
    s.owner = asc_get_block_idx();
    s.indices_at = indices_at;
    s.index = ASC_UB(int32_t, index_at, 0);
    s.step = ASC_UB(int32_t, step_at, 0);
    s.position = ASC_UB(int32_t, position_at, 0);
    s.owners = ASC_SCRATCH(owner);
    s.value = ASC_SCRATCH(value);
    s.own = ASC_UB(uint8_t, own_at, 0);
    s.from = ASC_UB(uint8_t, from_at, 0);
    s.to_row = ASC_UB(uint8_t, to_at, 0);
    s.mask = ASC_UB(int32_t, mask_at, 0);
    s.before = ASC_SCRATCH(before);
    s.ends = ASC_UB(int32_t, ends_at, 0);
    s.room = list;
    s.list = ASC_UB(int32_t, list_at, 0);
    s.place = s.list + list;
    s.other = ASC_UB(float, list_at, 1);
    asc_init();
    ASC_SLOTS(asc_sync_notify, PIPE_V, PIPE_MTE2);
    embedding_sort_owner(&s, records, ends);
    ASC_SLOTS(asc_sync_wait, PIPE_V, PIPE_MTE2);
}

#define ASC_TEMPLATE "tables/embedding.asc.h"
#include "shared/asc_each_type.h"
