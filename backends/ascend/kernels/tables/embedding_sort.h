/* embedding_sort.h - the positions of a table's indices, sorted by index.
 *
 * Tiles of the table belong to owners in turn, so that rows that are much used, which often lie
 * together, are many blocks' work. An owner is a block, which looks through all indices, keeps its
 * own in a list, sorts it and writes it as records. Where the list would not hold them all, it does
 * so for a part of its tiles after the other; of a single tile, list after list, in the order of
 * the positions. Owners, and the tiles of each, lie one behind the other in `records`: a tile's
 * place in that order is its slot. */
#ifndef EMBEDDING_SORT_H
#define EMBEDDING_SORT_H

#include "embedding.args.h"
#include "shared/asc_lanes.h"
#include "shared/asc_merge.h"

/* Powers of 2: rows of a tile, owners. */
typedef struct embedding_order {
    int64_t tile_shift, owner_shift;
    int64_t tiles_each; /* of an owner */
} embedding_order;

static inline __aicore__ embedding_order embedding_order_of(int64_t tile_shift, int64_t owner_shift,
                                                            int64_t tiles_each)
{
    embedding_order o;
    o.tile_shift = tile_shift;
    o.owner_shift = owner_shift;
    o.tiles_each = tiles_each;
    return o;
}

static inline __aicore__ int64_t embedding_slot(embedding_order o, int64_t tile)
{
    return (tile & (((int64_t)1 << o.owner_shift) - 1)) * o.tiles_each + (tile >> o.owner_shift);
}

/* A record: above the position, below the index, as a negative float, since sorting is
 * by falling scores. */
static inline __aicore__ int64_t embedding_position(uint64_t record)
{
    return (int64_t)(record >> 32);
}

static inline __aicore__ int64_t embedding_index(uint64_t record)
{
    return -(int32_t)asc_f32((uint32_t)record);
}

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
    __ubuf__ int32_t *ends;
    __gm__ uint64_t *to; /* where the next record goes; NULL: that is not known yet */
} embedding_scan;

enum { EMBEDDING_NONE = INT32_MAX };

static inline __aicore__ void embedding_begin(const embedding_scan *s)
{
    const int32_t owners = (int32_t)(((int64_t)1 << s->order.owner_shift) - 1);
    asc_duplicate(s->mask, (int32_t)(owners << s->order.tile_shift), ASC_LANES);
    for (int i = 0; i < 8; i++)
        s->step[i] = i;
    ASC_FENCE(PIPE_S, PIPE_V);
    for (int64_t have = 8; have < s->piece; have *= 2) {
        asc_add_scalar(s->step + have, s->step, (int32_t)have,
                       (uint32_t)asc_min_of(have, s->piece - have));
        ASC_THEN();
    }
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

/* ---- records ---- */

/* The list becomes records in the order of indices and positions; returns where they lie. */
static inline __aicore__ __ubuf__ float *embedding_sort(const embedding_scan *s)
{
    enum { SORTED = 32, MOST = 128 }; /* of a repeat; repeats at once */
    __ubuf__ float *keys = (__ubuf__ float *)s->list, *from = s->other, *to = keys;
    int64_t all = SORTED;
    while (all < s->used)
        all *= 4;
    if (all > s->used) {
        asc_duplicate(s->list + s->used, EMBEDDING_NONE, (uint32_t)(all - s->used));
        asc_duplicate(s->place + s->used, 0, (uint32_t)(all - s->used));
        ASC_THEN();
    }
    asc_int322float(keys, s->list, (uint32_t)all);
    ASC_THEN();
    asc_mul_scalar(keys, keys, -1.0f, (uint32_t)all);
    ASC_THEN();
    for (int64_t i = 0; i < all; i += MOST * SORTED)
        asc_bitsort(from + 2 * i, keys + i, (__ubuf__ uint32_t *)s->place + i,
                    (uint8_t)asc_min_of(MOST, (all - i) / SORTED));
    ASC_THEN();
    return asc_merge(from, to, all);
}

/* The list to memory, sorted, and if there is `ends`, where the records of `tiles` tiles of the
 * owner from `tile` on end, the first of which is record `begin`. The list is empty then. */
static inline __aicore__ void embedding_write(embedding_scan *s, __gm__ int32_t *ends,
                                              int64_t begin, int64_t tile, int64_t tiles)
{
    const int64_t shift = s->order.tile_shift + s->order.owner_shift;
    int64_t t = 0;
    if (s->count) {
        const __ubuf__ uint64_t *records = (__ubuf__ uint64_t *)embedding_sort(s);
        asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
        asc_copy_ub2gm_align((__gm__ uint32_t *)s->to, (__ubuf__ uint32_t *)records,
                             (uint32_t)s->count * 8);
        for (int64_t i = 0; ends && i < s->count; i++)
            for (const int64_t own = (embedding_index(records[i]) >> shift) - tile; t < own; t++)
                s->ends[t] = (int32_t)(begin + i);
    }
    if (ends) {
        for (; t < tiles; t++)
            s->ends[t] = (int32_t)(begin + s->count);
        ASC_FENCE(PIPE_S, PIPE_MTE3);
        asc_copy_ub2gm_align(ends, s->ends, (uint32_t)tiles * 4);
    }
    s->to += s->count;
    s->used = s->count = 0;
    asc_sync(); /* all has left, or has been read */
}

/* Looks through all indices for those of `tiles` tiles from `tile` on. Returns 0 if they may be
 * more than the list holds: nothing is kept then, but if it is one tile full lists are written,
 * where `to` is known. */
static inline __aicore__ int embedding_look(embedding_scan *s, int64_t tile, int64_t tiles)
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
                embedding_write(s, 0, 0, tile, tiles);
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

/* The kernel's body: `records` and `ends` of the owner. */
static inline __aicore__ void embedding_sort_owner(embedding_scan *s, __gm__ uint64_t *records,
                                                   __gm__ int32_t *ends)
{
    const int64_t share = s->n >> s->order.owner_shift, each = s->order.tiles_each;
    int64_t tiles = asc_min_of(each, EMBEDDING_ENDS);
    embedding_begin(s);
    s->to = 0;
    if (share > s->room / 2)
        tiles = tiles * s->room / (2 * share);
    for (int64_t tile = 0; tile < each;) {
        tiles = tiles > 0 ? asc_min_of(tiles, each - tile) : 1;
        const int fits = embedding_look(s, tile, tiles);
        if (!s->to) {
            s->to = records + embedding_before(s);
            if (!fits && tiles == 1)
                continue; /* again, and lists are written */
        }
        if (fits) {
            const int64_t begin = s->to - records;
            embedding_write(s, ends + s->owner * each + tile, begin, tile, tiles);
            tile += tiles;
        } else {
            tiles /= 2;
        }
    }
}

#endif
