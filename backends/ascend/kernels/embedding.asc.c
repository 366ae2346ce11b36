/* embedding.asc.c - rows of a table by index, and the gradient of the table.
 *
 * The gradient takes two launches. The first sorts the positions by the tile of rows that their index falls into: a
 * block owns a range of tiles, looks through all indices, and writes the positions of its own, in their order. The
 * second sums tile by tile: each element of a row is added up by one block, in the order of the indices. */
#include "asc_common.h"
#include "embedding.args.h"

/* ---- positions by tile ---- */

/* Words of 64 bits that a comparison of a piece of the indices leaves. */
enum { SCAN_WORDS = EMBEDDING_SCAN / 64 };

/* What a block needs to look through the indices. */
typedef struct embedding_range {
    __gm__ int64_t *indices;
    int64_t n;
    int64_t tile_rows, row, end; /* rows of the table that are its own */
    __ubuf__ int64_t *index;     /* a piece of the indices */
    __ubuf__ float *value;       /* the same as numbers */
    __ubuf__ uint8_t *above;     /* bits: from `row` on */
    __ubuf__ uint8_t *below;     /* bits: before `end` */
    __ubuf__ int32_t *next;      /* a tile's count, later where its next position goes */
    __ubuf__ uint64_t *records;  /* a window of what is to be written */
    int64_t window;              /* records in it */
} embedding_range;

static inline __aicore__ void embedding_compare(const embedding_range *r, int64_t at, int64_t count)
{
    asc_copy_gm2ub_align((__ubuf__ uint32_t *)r->index, (__gm__ uint32_t *)(r->indices + at),
                         (uint32_t)count * 8);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_duplicate(r->value, 3e38f, EMBEDDING_SCAN); /* behind the last index: above and not below */
    ASC_THEN();
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_int642float_rn(r->value, r->index, (uint32_t)count);
    ASC_THEN();
    asc_ge_scalar(r->above, r->value, (float)r->row, SCAN_WORDS, 1, 1, 8, 8);
    asc_lt_scalar(r->below, r->value, (float)r->end, SCAN_WORDS, 1, 1, 8, 8);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
}

/* Index `i` of the piece, whose position is `at` + i. Counts it, or if `place`, writes its record if that is in the
 * window from `first` on. A record is the position and, above it, the row within the tile. */
static inline __aicore__ void embedding_note(const embedding_range *r, int64_t at, int64_t i,
                                             int place, int64_t first)
{
    const int64_t row = r->index[i] - r->row, tile = row / r->tile_rows;
    const int64_t to = r->next[tile];
    r->next[tile] = (int32_t)(to + 1);
    if (place && to >= first && to < first + r->window)
        r->records[to - first] = (uint64_t)(at + i) | (uint64_t)(row - tile * r->tile_rows) << 32;
}

/* Looks through all indices; returns how many lie before the range. */
static inline __aicore__ int64_t embedding_scan(const embedding_range *r, int place, int64_t first)
{
    const __ubuf__ uint64_t *above = (__ubuf__ uint64_t *)r->above;
    const __ubuf__ uint64_t *below = (__ubuf__ uint64_t *)r->below;
    int64_t before = 0;
    for (int64_t at = 0; at < r->n; at += EMBEDDING_SCAN) {
        const int64_t count = asc_min_of(EMBEDDING_SCAN, r->n - at);
        embedding_compare(r, at, count);
        for (int64_t word = 0; word * 64 < count; word++) {
            const uint64_t from = above[word];
            before += 64 - asc_popc(from);
            for (uint64_t own = from & below[word]; own; own &= own - 1)
                embedding_note(r, at, word * 64 + asc_ffs(own), place, first);
        }
        asc_sync_notify(PIPE_S, PIPE_MTE2, EVENT_ID0); /* it has all been read */
        asc_sync_wait(PIPE_S, PIPE_MTE2, EVENT_ID0);
        asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID0);
        asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID0);
    }
    return before;
}

ASC_KERNEL embedding_sort_i64(ASC_PARAMS(EMBEDDING_SORT))
{
    const asc_grid grid = asc_grid_of(rows, tiles, one, own_tiles);
    __ubuf__ int32_t *end_of = ASC_UB(int32_t, ends_at, 0);
    embedding_range r;
    r.indices = indices;
    r.n = n;
    r.tile_rows = tile_rows;
    r.index = ASC_UB(int64_t, indices_at, 0);
    r.value = ASC_UB(float, values_at, 0);
    r.above = ASC_UB(uint8_t, above_at, 0);
    r.below = ASC_UB(uint8_t, below_at, 0);
    r.next = ASC_UB(int32_t, next_at, 0);
    r.records =
        ASC_UB(uint64_t, window == EMBEDDING_LARGE_WINDOW ? large_window_at : small_window_at, 0);
    r.window = window;
    asc_init();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile own = asc_tile_at(grid, task);
        r.row = own.column * tile_rows;
        r.end = asc_min_of(r.row + own.columns * tile_rows, table_rows);
        for (int64_t t = 0; t < own.columns; t++)
            r.next[t] = 0;
        const int64_t begin = embedding_scan(&r, 0, 0);
        int64_t end = begin;
        for (int64_t t = 0; t < own.columns; t++) {
            end += r.next[t];
            end_of[t] = (int32_t)end;
        }
        asc_sync_notify(PIPE_S, PIPE_MTE3, EVENT_ID0);
        asc_sync_wait(PIPE_S, PIPE_MTE3, EVENT_ID0);
        asc_copy_ub2gm_align(ends + own.column, end_of, (uint32_t)own.columns * 4);
        for (int64_t first = 0; first < end - begin; first += window) {
            const int64_t count = asc_min_of(window, end - begin - first);
            for (int64_t t = 0; t < own.columns; t++)
                r.next[t] = t ? end_of[t - 1] - (int32_t)begin : 0;
            embedding_scan(&r, 1, first);
            asc_sync_notify(PIPE_S, PIPE_MTE3, EVENT_ID0);
            asc_sync_wait(PIPE_S, PIPE_MTE3, EVENT_ID0);
            asc_copy_ub2gm_align(records + begin + first, r.records, (uint32_t)count * 8);
            asc_sync_notify(PIPE_MTE3, PIPE_S, EVENT_ID1);
            asc_sync_wait(PIPE_MTE3, PIPE_S, EVENT_ID1);
        }
        asc_sync_notify(PIPE_MTE3, PIPE_S, EVENT_ID0);
        asc_sync_wait(PIPE_MTE3, PIPE_S, EVENT_ID0);
    }
}

/* ---- rows ---- */

/* The indices of a tile's rows, for S. */
static inline __aicore__ void embedding_ask(__gm__ int64_t *indices, asc_tile tile,
                                            int64_t index_at, int slot)
{
    ASC_WAIT(PIPE_S, PIPE_MTE2, slot);
    asc_copy_gm2ub_align(ASC_UB(uint32_t, index_at, slot), (__gm__ uint32_t *)(indices + tile.row),
                         (uint32_t)tile.rows * 8);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, slot);
}

/* Copies the rows of a tile whose bit is set in or out: of the table, `size` bytes an element, `pitch` bytes a row in UB. */
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

#define ASC_TEMPLATE "embedding.asc.h"
#include "asc_each_type.h"
