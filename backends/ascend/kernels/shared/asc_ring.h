/* asc_ring.h - rows in pieces, through a ring of eight buffers in UB that MTE2 fills ahead of V, or
 * of three where rows are read alone.
 *
 * A block goes through each of its rows twice, first to read the pieces, then to compute in place
 * and write. A row that leaves buffers of the ring free stays there between the two; one that does
 * not is copied in again:
 *
 *   reads  writes   copies in of a row: their buffers are free when V has read them, or when MTE3
 *                   has written them out
 *     0      1      one: the row stays, or is gone through only once, to write
 *     1      1      two: one to read, one to write
 *     1      0      one: it is read alone
 *
 *   asc_ring ring = asc_ring_of(...);
 *   asc_ring_begin();
 *   for (row...) {
 *       for (p = 0; p < ring.pieces; p++) {
 *           slot = asc_ring_read(&ring);                 copied in
 *           n = asc_ring_columns(&ring, p);
 *           read the piece
 *           asc_ring_has_read(&ring);
 *       }
 *       asc_ring_rewind(&ring);
 *       for (p = 0; p < ring.pieces; p++) {
 *           slot = asc_ring_reread(&ring);
 *           compute in place
 *           asc_ring_write(&ring, tensor + row * stride, p, size of an element, place);
 *       }
 *   }
 *   asc_ring_end(&ring);
 *
 * A row that is copied in twice finds itself in L2 the second time. All blocks would wait for
 * memory at one time and for L2 at another, so a ring may write a row while it reads the next,
 * piece by piece in turns: asc_ring_behind().
 *
 * Copies in are issued as far ahead as there are buffers, so that MTE2 never waits
 * for the scalar unit. */
#ifndef ASC_RING_H
#define ASC_RING_H

#include "asc_ring_turns.h"

static inline __aicore__ int64_t asc_ring_columns(const asc_ring *ring, int64_t p)
{
    return asc_min_of(ring->piece, ring->columns - p * ring->piece);
}

static inline __aicore__ __gm__ char *asc_ring_row(const asc_ring *ring, int tensor, int64_t row)
{
    return ring->from[tensor] + asc_row_at(ring->rows_at[tensor], row);
}

/* A column counted from the first that is there; -1: it is not. */
static inline __aicore__ int64_t asc_ring_column(const asc_ring *ring, int64_t column)
{
    const int64_t at = column - ring->start;
    return at >= 0 && at < ring->columns ? at : -1;
}

/* An element alone, to block `number`; padded with zeros. */
static inline __aicore__ void asc_ring_load_pick(const asc_ring *ring, int64_t row, int64_t column,
                                                 int64_t number, int slot)
{
    const int64_t at = asc_ring_column(ring, column);
    if (at >= 0)
        asc_copy_rows_in(asc_place(ring->pick_place, slot) + (uint64_t)(number * 32),
                         asc_ring_row(ring, 0, row) + at * ring->size[0], 1, ring->size[0],
                         ring->size[0], 32);
}

static inline __aicore__ void asc_ring_load(const asc_ring *ring, int64_t position)
{
    const asc_ring_turn turn = asc_ring_turn_of(ring, position);
    const int64_t p = turn.p, row = ring->first + turn.local * ring->step;
    const int slot = (int)(position % ring->slots);
    const int there = !ring->pick || asc_ring_column(ring, ring->pick[row]) >= 0 ||
                      (ring->sliced && ring->pick[row] != ring->left_out);
    if (ring->pick && there && p == 0) {
        for (int64_t i = 0; i < ring->npicks; i++)
            asc_ring_load_pick(ring, row, ring->picks[i], i, slot);
        asc_ring_load_pick(ring, row, ring->pick[row], ring->npicks, slot);
    }
    for (int i = 0; i < ASC_RING_TENSORS && ring->from[i] && there; i++) {
        const int64_t bytes = asc_ring_columns(ring, p) * ring->size[i];
        asc_copy_rows_in(asc_place(ring->place[i], slot),
                         asc_ring_row(ring, i, row) + p * ring->piece * ring->size[i], 1, bytes,
                         bytes, asc_round_up(bytes, 32));
    }
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_V, slot);
}

/* Waits until what a position had in its buffer is no longer needed there. */
static inline __aicore__ void asc_ring_wait_free(const asc_ring *ring, int64_t position)
{
    const int slot = (int)(position % ring->slots);
    if (ring->writes && asc_ring_turn_of(ring, position).writes)
        ASC_RING_FLAG(asc_sync_wait, PIPE_MTE3, PIPE_MTE2, slot);
    else
        ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE2, slot);
}

/* All copies in that the work issued so far leaves room for. */
static inline __aicore__ void asc_ring_fill(asc_ring *ring)
{
    const int64_t end = asc_min_of(ring->at + ring->slots, ring->total);
    for (; ring->loaded < end; ring->loaded++) {
        if (ring->loaded >= ring->slots)
            asc_ring_wait_free(ring, ring->loaded - ring->slots);
        asc_ring_load(ring, ring->loaded);
    }
}

/* One tensor, whose rows go to the blocks in turn. Before the first read a caller may give a
 * block other rows with asc_ring_rows(), add another tensor of the same columns with
 * asc_ring_add(), and tell with asc_ring_groups() that rows of the first come in groups, which
 * begin `group` elements apart. */
static inline __aicore__ void asc_ring_rows(asc_ring *ring, int64_t first, int64_t step,
                                            int64_t rows)
{
    ring->first = first;
    ring->step = step;
    ring->rows = rows > 0 ? rows : 0;
    ring->total = ring->rows * ring->pieces * (ring->reads + ring->writes);
}

static inline __aicore__ void asc_ring_add(asc_ring *ring, __gm__ void *from, int64_t stride,
                                           int64_t place, int64_t size)
{
    const int i = ring->from[0] != 0;
    ring->from[i] = (__gm__ char *)from;
    ring->rows_at[i] = asc_groups_of(INT64_MAX, 0, stride * size);
    ring->place[i] = place;
    ring->size[i] = size;
}

static inline __aicore__ void asc_ring_groups(asc_ring *ring, int64_t rows, int64_t group)
{
    ring->rows_at[0].rows = rows;
    ring->rows_at[0].group = group * ring->size[0];
}

static inline __aicore__ asc_ring asc_ring_of(__gm__ void *from, int64_t stride, int64_t place,
                                              int64_t size, int64_t rows, int64_t columns,
                                              int64_t piece, int64_t reads, int64_t writes)
{
    const int64_t index = asc_get_block_idx(), blocks = asc_get_block_num();
    asc_ring ring = {0};
    asc_ring_add(&ring, from, stride, place, size);
    ring.slots = writes ? ASC_RING : ASC_RING_READ;
    ring.columns = columns;
    ring.piece = piece;
    ring.pieces = (columns + piece - 1) / piece;
    ring.reads = reads;
    ring.writes = writes;
    asc_ring_rows(&ring, index, blocks, (rows - index + blocks - 1) / blocks);
    return ring;
}

/* Before the first read, for rows that are copied in twice, to be written or to be read again:
 *
 *   for (r = 0; r <= ring.rows; r++) {
 *       for (p = 0; p < ring.pieces; p++)
 *           for (turn = 0; turn < 2; turn++)
 *               if (!asc_ring_writes_at(&ring, turn) && r < ring.rows)
 *                   read piece p of row r, with asc_ring_read() and asc_ring_has_read()
 *               else if (asc_ring_writes_at(&ring, turn) && r > 0)
 *                   write piece p of row r - 1, with asc_ring_reread() and asc_ring_write()
 *   } */
static inline __aicore__ void asc_ring_behind(asc_ring *ring)
{
    ring->behind = 1;
}

/* The buffer of the next piece. */
static inline __aicore__ int asc_ring_read(asc_ring *ring)
{
    const int slot = (int)(ring->at % ring->slots);
    asc_ring_fill(ring);
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, slot);
    return slot;
}

static inline __aicore__ void asc_ring_has_read(asc_ring *ring)
{
    const int slot = (int)(ring->at % ring->slots);
    if (ring->reads)
        ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, slot);
    ring->at++;
}

/* Back to the row's first piece. */
static inline __aicore__ void asc_ring_rewind(asc_ring *ring)
{
    if (!ring->reads)
        ring->at -= ring->pieces;
}

/* A row, of a ring that reads alone, is gone through once more, now. What has been copied in ahead
 * will be copied in again. */
static inline __aicore__ void asc_ring_again(asc_ring *ring, int64_t local)
{
    for (int64_t position = ring->at; position < ring->loaded; position++) {
        const int slot = (int)(position % ring->slots);
        ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, slot);
    }
    asc_sync();
    for (int64_t position = ring->at; position < ring->loaded; position++) {
        const int slot = (int)(position % ring->slots);
        if (position >= ring->slots)
            ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, slot);
    }
    ring->loaded = ring->again_at = ring->at;
    ring->again_row = local;
    ring->again++;
    ring->total += ring->pieces;
}

static inline __aicore__ int asc_ring_reread(asc_ring *ring)
{
    const int slot = (int)(ring->at % ring->slots);
    asc_ring_fill(ring);
    if (ring->reads)
        ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, slot);
    return slot;
}

/* Piece p of the row, computed in its buffer, to a tensor of T; its buffer is free then. */
static inline __aicore__ void asc_ring_write(asc_ring *ring, __gm__ void *to, int64_t p,
                                             int64_t size, int64_t place)
{
    const int slot = (int)(ring->at % ring->slots);
    const int64_t bytes = asc_ring_columns(ring, p) * size;
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE3, slot);
    ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE3, slot);
    asc_copy_rows_out((__gm__ char *)to + p * ring->piece * size, asc_place(place, slot), 1, bytes,
                      bytes, bytes);
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE3, PIPE_MTE2, slot);
    ring->at++;
}

/* Modes as the kernel expects them. */
static inline __aicore__ void asc_ring_begin(void)
{
    asc_modes_set();
}

/* No flag and no mode stays set. */
static inline __aicore__ void asc_ring_end(const asc_ring *ring)
{
    const int64_t first = ring->total - ring->slots;
    for (int64_t position = first > 0 ? first : 0; position < ring->total; position++)
        asc_ring_wait_free(ring, position);
    asc_modes_clear();
}

#endif
