/* embedding.asc.c - rows of a table by index, and the gradient of the table.
 *
 * The gradient takes two launches, three of many positions. The first of three sorts shares of them
 * (embedding_share.h). The next one sorts all by their index (embedding_sort.h). The last sums tile
 * by tile of the table: each element of a row is added up by one block, in the order of the
 * indices. */
#include "embedding_share.h"

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

/* The bounds of a block's tiles in memory and, of EMBEDDING_BOUNDS tasks from `first` on, in UB. */
typedef struct embedding_bounds {
    __gm__ int32_t *of_tile;
    uint64_t place;
    const __ubuf__ int32_t *here;
    int64_t first;
} embedding_bounds;

/* The records of a block's tiles, a chunk after the other: those from `at` on, before `last`, are
 * of the tile of `task`. */
typedef struct embedding_chunk {
    int64_t task, at, last;
} embedding_chunk;

static inline __aicore__ void embedding_bounds_in(embedding_bounds *b, asc_grid grid, int64_t task)
{
    const int64_t step = asc_get_block_num();
    b->first = task;
    ASC_FENCE(PIPE_S, PIPE_MTE2);
    for (int64_t i = 0; i < EMBEDDING_BOUNDS && task < grid.tasks; i++, task += step)
        asc_copy_gm2ub_align((__ubuf__ uint32_t *)(b->place + (uint64_t)(i * 32)),
                             (__gm__ uint32_t *)b->of_tile + 2 * (task / grid.column_tiles), 8);
    ASC_FENCE(PIPE_MTE2, PIPE_S);
}

static inline __aicore__ embedding_chunk embedding_chunk_of(embedding_bounds *b, asc_grid grid,
                                                            int64_t task)
{
    embedding_chunk c;
    if (task >= b->first + EMBEDDING_BOUNDS * asc_get_block_num())
        embedding_bounds_in(b, grid, task);
    const __ubuf__ int32_t *bounds = b->here + (task - b->first) / asc_get_block_num() * 8;
    c.task = task;
    c.at = bounds[0];
    c.last = bounds[1];
    return c;
}

/* Leaves no chunk (at >= last) behind the last one. */
static inline __aicore__ void embedding_next(embedding_chunk *c, embedding_bounds *b, asc_grid grid)
{
    c->at += grid.tile_rows;
    while (c->at >= c->last && c->task + asc_get_block_num() < grid.tasks)
        *c = embedding_chunk_of(b, grid, c->task + asc_get_block_num());
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

#define EMBEDDING_LIST_AT                             \
    (list == EMBEDDING_LARGE_LIST    ? large_list_at  \
     : list == EMBEDDING_MIDDLE_LIST ? middle_list_at \
                                     : small_list_at)

ASC_KERNEL embedding_share_i64(ASC_PARAMS(EMBEDDING_SHARE))
{
    const int64_t list_at = EMBEDDING_LIST_AT;
    embedding_share s;
    s.order = embedding_order_of(tile_shift, owner_shift, tiles_each);
    s.piece = piece;
    s.indices_at = indices_at;
    s.key = ASC_UB(int32_t, index_at, 0);
    s.a = ASC_UB(int32_t, position_at, 0);
    s.b = ASC_UB(int32_t, owner_at, 0);
    s.c = ASC_UB(int32_t, value_at, 0);
    s.step = ASC_UB(int32_t, step_at, 0);
    s.list = ASC_UB(int32_t, list_at, 0);
    s.place = s.list + list;
    s.other = ASC_UB(float, list_at, 1);
    s.starts = ASC_UB(int32_t, start_at, 0);
    asc_init();
    embedding_steps(s.step, piece);
    for (int64_t c = asc_get_block_idx(); c * chunk < n; c += asc_get_block_num())
        embedding_share_sort(&s, indices, c * chunk, asc_min_of(chunk, n - c * chunk), records,
                             starts + c * pitch);
}

ASC_KERNEL embedding_sort_i64(ASC_PARAMS(EMBEDDING_SORT))
{
    const int64_t list_at = EMBEDDING_LIST_AT;
    const embedding_shares from = {shares, starts, chunk, chunks, pitch};
    embedding_scan s;
    s.indices = indices;
    s.n = n;
    s.piece = piece;
    s.order = embedding_order_of(tile_shift, owner_shift, tiles_each);
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
    s.ends_at = asc_place(ends_at, 0);
    s.room = list;
    s.list = ASC_UB(int32_t, list_at, 0);
    s.place = s.list + list;
    s.other = ASC_UB(float, list_at, 1);
    asc_init();
    asc_set_copy_pad_val((uint16_t)0);
    ASC_SLOTS(asc_sync_notify, PIPE_V, PIPE_MTE2);
    for (s.owner = asc_get_block_idx(); s.owner >> owner_shift == 0;
         s.owner += asc_get_block_num()) {
        s.to = 0;
        if (!chunks || !embedding_merge_all(&s, &from, records, bounds))
            embedding_look_all(&s, records, bounds);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_V, PIPE_MTE2);
}

#define ASC_TEMPLATE "tables/embedding.asc.h"
#include "shared/asc_each_type.h"
