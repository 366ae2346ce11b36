/* embedding_sort.h - an owner's records, sorted, and where those of each of its tiles begin and
 * end.
 *
 * An owner is a block, which looks through all indices, keeps its own in a list, sorts it and
 * writes it; if the list would not hold them all, for a part of its tiles after the other; of a
 * single tile, list after list, in the order of the positions. */
#ifndef EMBEDDING_SORT_H
#define EMBEDDING_SORT_H

#include "embedding_order.h"

/* ---- a list of an owner's indices ---- */

typedef struct embedding_scan {
    __gm__ int64_t *indices;
    int64_t n, piece;
    embedding_order order;
    int64_t owner;
    int64_t indices_at;              /* a piece of the indices, twice */
    __ubuf__ int32_t *index, *step;  /* the piece, and 0, 1, ... */
    __ubuf__ int32_t *position;      /* of each index */
    __ubuf__ float *owners, *value;  /* its bits that tell the owner, and the index, as numbers */
    __ubuf__ uint8_t *own;           /* bits: the owner's */
    __ubuf__ uint8_t *from, *to_row; /* bits: from the first row on, before the last */
    __ubuf__ int32_t *mask;          /* 64 times the bits that tell the owner */
    __ubuf__ float *before; /* 64 lanes: how many indices are other owners' that come before */
    __ubuf__ int32_t *list, *place; /* the indices that were found and their positions */
    __ubuf__ float *other;          /* as much memory as both, which lie one behind the other */
    int64_t room;                   /* of the list: more than a piece */
    int64_t used, count;            /* of it, in whole blocks of 32 B; indices in it */
    __ubuf__ int32_t *ends; /* where records of tiles begin and end, a block of 32 B a tile */
    uint64_t ends_at;
    __gm__ uint64_t *to; /* where the next record goes; NULL: that is not known yet */
} embedding_scan;

static inline __aicore__ void embedding_begin(const embedding_scan *s)
{
    const int32_t owners = (int32_t)(((int64_t)1 << s->order.owner_shift) - 1);
    asc_duplicate(s->mask, (int32_t)(owners << s->order.tile_shift), ASC_LANES);
    embedding_steps(s->step, s->piece);
}

static inline __aicore__ void embedding_piece_in(const embedding_scan *s, int64_t at, int slot)
{
    if (at >= s->n)
        return;
    ASC_MAY_FILL(slot);
    asc_copy_gm2ub_align(ASC_UB(uint32_t, s->indices_at, slot),
                         (__gm__ uint32_t *)(s->indices + at),
                         (uint32_t)asc_min_of(s->piece, s->n - at) * 8);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
}

/* Puts the piece's own indices of the rows [first, last) into the list, from `to` on; returns how
 * many. Those of owners before are counted. */
static inline __aicore__ int64_t embedding_take(const embedding_scan *s, int64_t at, int slot,
                                                int64_t first, int64_t last, int64_t to)
{
    const uint32_t all = (uint32_t)s->piece, count = (uint32_t)asc_min_of(all, s->n - at);
    const uint8_t repeats = (uint8_t)(all / ASC_LANES);
    const float owner = (float)(s->owner << s->order.tile_shift);
    __ubuf__ int32_t *bits = (__ubuf__ int32_t *)s->owners;
    if (count < all) { /* behind the last index: of no owner before any */
        asc_duplicate(s->index, -1, all);
        ASC_THEN();
    }
    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
    asc_int642int32(s->index, ASC_UB(int64_t, s->indices_at, slot), count);
    asc_add_scalar(s->position, s->step, (int32_t)at, all);
    ASC_THEN();
    ASC_HAS_READ(slot);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_and((__ubuf__ uint16_t *)bits, (__ubuf__ uint16_t *)s->index, (__ubuf__ uint16_t *)s->mask,
            repeats, 1, 1, 1, 8, 8, 0);
    asc_int322float(s->value, s->index, all);
    ASC_THEN();
    asc_int322float(s->owners, bits, all);
    asc_ge_scalar(s->from, s->value, (float)first, repeats, 1, 1, 8, 8);
    asc_lt_scalar(s->to_row, s->value, (float)last, repeats, 1, 1, 8, 8);
    ASC_THEN();
    asc_eq_scalar(s->own, s->owners, owner, repeats, 1, 1, 8, 8);
    asc_and((__ubuf__ uint16_t *)s->from, (__ubuf__ uint16_t *)s->from,
            (__ubuf__ uint16_t *)s->to_row, all / 16);
    ASC_THEN();
    asc_and((__ubuf__ uint16_t *)s->own, (__ubuf__ uint16_t *)s->own, (__ubuf__ uint16_t *)s->from,
            all / 16);
    asc_mul_scalar(s->owners, s->owners, -1.0f, all);
    ASC_THEN();
    asc_reduce((__ubuf__ uint32_t *)s->list + to, (__ubuf__ uint32_t *)s->index,
               (__ubuf__ uint32_t *)s->own, count);
    asc_add_scalar(s->owners, s->owners, owner, all);
    ASC_THEN();
    asc_reduce((__ubuf__ uint32_t *)s->place + to, (__ubuf__ uint32_t *)s->position,
               (__ubuf__ uint32_t *)s->own, count);
    asc_max_scalar(s->owners, s->owners, 0.0f, all);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    ASC_THEN();
    asc_min_scalar(s->owners, s->owners, 1.0f, all);
    ASC_THEN();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_add(s->before, s->owners, s->before, repeats, 1, 1, 1, 0, 8, 0);
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
    const int64_t kept = asc_get_rsvd_count();
    if (kept % 8) { /* the rest of the block */
        asc_set_vector_mask(0, 0xff & ~(uint64_t)0 << kept % 8);
        asc_duplicate(s->list + to + kept / 8 * 8, EMBEDDING_NONE, 1, 1, 8);
        asc_duplicate(s->place + to + kept / 8 * 8, 0, 1, 1, 8);
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    }
    ASC_THEN();
    return kept;
}

/* ---- what leaves ---- */

/* Where the records of `tiles` tiles of the owner from `tile` on begin and end, to memory: those
 * that `records` holds from *at on, of `count`, the first of which is record `begin`. The first
 * tile begins with record `first`. Of tiles without records both are 0. */
static inline __aicore__ void embedding_bounds_out(const embedding_scan *s, __gm__ int32_t *bounds,
                                                   const __ubuf__ uint64_t *records, int64_t count,
                                                   int64_t *at, int64_t begin, int64_t first,
                                                   int64_t tile, int64_t tiles)
{
    const int64_t owners = (int64_t)1 << s->order.owner_shift;
    const int64_t slot = s->owner * s->order.tiles_each + tile;
    __ubuf__ uint64_t *ends = (__ubuf__ uint64_t *)s->ends; /* both at once */
    ASC_FENCE(PIPE_S, PIPE_V);
    asc_duplicate(s->ends, 0, (uint32_t)(8 * tiles));
    ASC_FENCE(PIPE_V, PIPE_S);
    if (first < begin)
        ends[0] = (uint64_t)first | (uint64_t)begin << 32;
    while (*at < count) {
        const int64_t t = (embedding_key(records[*at]) >> s->order.tile_shift) - slot;
        if (t >= tiles)
            break;
        const int64_t from = t > 0 ? begin + *at : first;
        *at = embedding_first(s->order, records, *at + 1, count, slot + t + 1);
        ends[4 * t] = (uint64_t)from | (uint64_t)(begin + *at) << 32;
    }
    ASC_FENCE(PIPE_S, PIPE_MTE3);
    asc_copy_rows_out(bounds + 2 * (tile * owners + s->owner), s->ends_at, tiles, 8, owners * 8,
                      32);
}

/* `count` sorted records to memory, for S to read, too. */
static inline __aicore__ void embedding_records_out(embedding_scan *s,
                                                    const __ubuf__ uint64_t *records, int64_t count)
{
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
    if (count)
        asc_copy_ub2gm_align((__gm__ uint32_t *)s->to, (__ubuf__ uint32_t *)records,
                             (uint32_t)count * 8);
    s->to += count;
}

/* The list to memory, sorted, and if there are `bounds`, those of `tiles` tiles of the owner from
 * `tile` on, the first of which begins with record `first`. The list is empty then. */
static inline __aicore__ void embedding_write(embedding_scan *s, __gm__ uint64_t *records,
                                              __gm__ int32_t *bounds, int64_t first, int64_t tile,
                                              int64_t tiles)
{
    const int64_t begin = s->to - records, all = asc_round_up(s->used, EMBEDDING_SORTED);
    const __ubuf__ uint64_t *sorted = (__ubuf__ uint64_t *)s->other;
    int64_t at = 0;
    if (s->used) {
        if (all > s->used) {
            asc_duplicate(s->list + s->used, EMBEDDING_NONE, (uint32_t)(all - s->used));
            asc_duplicate(s->place + s->used, 0, (uint32_t)(all - s->used));
            ASC_THEN();
        }
        for (int64_t i = 0; i < all; i += s->piece)
            embedding_keys(s->order, s->list + i, s->index, (__ubuf__ int32_t *)s->owners,
                           (__ubuf__ int32_t *)s->value, (uint32_t)asc_min_of(s->piece, all - i));
        sorted = embedding_records(s->list, (__ubuf__ uint32_t *)s->place, s->other, s->used);
    }
    embedding_records_out(s, sorted, s->count);
    if (bounds)
        embedding_bounds_out(s, bounds, sorted, s->count, &at, begin, first, tile, tiles);
    s->used = s->count = 0;
    asc_sync(); /* all has left, or has been read */
}

/* ---- an owner that looks through all indices ---- */

/* Looks for those of `tiles` tiles from `tile` on. Returns 0 if they may be more than the list
 * holds: nothing is kept then, but if it is one tile full lists are written, where `to` is known.
 * */
static inline __aicore__ int embedding_look(embedding_scan *s, __gm__ uint64_t *records,
                                            int64_t tile, int64_t tiles)
{
    const int64_t shift = s->order.tile_shift + s->order.owner_shift;
    int fits = 1, slot = 0;
    s->used = s->count = 0;
    asc_duplicate(s->before, 0.0f, ASC_LANES);
    embedding_piece_in(s, 0, slot);
    for (int64_t at = 0; at < s->n; at += s->piece, slot ^= 1) {
        embedding_piece_in(s, at + s->piece, slot ^ 1);
        if (s->used + s->piece > s->room) {
            if (tiles == 1 && s->to)
                embedding_write(s, records, 0, 0, tile, tiles);
            else
                fits = 0;
        }
        if (!fits)
            s->used = s->count = 0;
        const int64_t kept =
            embedding_take(s, at, slot, tile << shift, (tile + tiles) << shift, s->used);
        s->used = asc_round_up(s->used + kept, 8);
        s->count += kept;
    }
    return fits;
}

/* Of owners before, as the last look counted them. */
static inline __aicore__ int64_t embedding_before(const embedding_scan *s)
{
    int64_t sum = 0;
    ASC_FENCE(PIPE_V, PIPE_S);
    for (int i = 0; i < ASC_LANES; i++)
        sum += (int32_t)s->before[i];
    ASC_FENCE(PIPE_S, PIPE_V);
    return sum;
}

/* All that is the owner's, to `records` and `bounds`. */
static inline __aicore__ void embedding_look_all(embedding_scan *s, __gm__ uint64_t *records,
                                                 __gm__ int32_t *bounds)
{
    const int64_t share = s->n >> s->order.owner_shift, each = s->order.tiles_each;
    int64_t tiles = asc_min_of(each, EMBEDDING_ENDS);
    embedding_begin(s);
    if (share > s->room / 2)
        tiles = tiles * s->room / (2 * share);
    for (int64_t tile = 0; tile < each;) {
        int64_t first = s->to ? s->to - records : 0;
        tiles = tiles > 0 ? asc_min_of(tiles, each - tile) : 1;
        const int knew = s->to != 0, fits = embedding_look(s, records, tile, tiles);
        if (!knew) {
            s->to = records + embedding_before(s);
            first = s->to - records;
            if (!fits && tiles == 1)
                continue; /* again, and lists are written */
        }
        if (fits) {
            embedding_write(s, records, bounds, first, tile, tiles);
            tile += tiles;
        } else {
            tiles /= 2;
        }
    }
}

#endif
