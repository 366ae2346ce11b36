/* embedding_order.h - the positions of a table's indices as records, sorted by slot and row.
 *
 * Tiles of the table belong to owners in turn, so that rows that are much used, which often lie
 * together, are many blocks' work. Owners, and the tiles of each, lie one behind the other: a
 * tile's place in that order is its slot, and a record's key is the slot with the row in it. */
#ifndef EMBEDDING_ORDER_H
#define EMBEDDING_ORDER_H

#include "embedding.args.h"
#include "shared/asc_lanes.h"
#include "shared/asc_rows.h"

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

/* A record: above the position, below the key, as a negative float, since sorting is by falling
 * scores. */
static inline __aicore__ int64_t embedding_position(uint64_t record)
{
    return (int64_t)(record >> 32);
}

static inline __aicore__ int64_t embedding_key(uint64_t record)
{
    return -(int32_t)asc_f32((uint32_t)record);
}

static inline __aicore__ int64_t embedding_row(embedding_order o, uint64_t record)
{
    return embedding_key(record) & (((int64_t)1 << o.tile_shift) - 1);
}

/* The first of `count` records from `at` on that is not of a slot before `slot`. */
static inline __aicore__ int64_t embedding_first(embedding_order o,
                                                 const __ubuf__ uint64_t *records, int64_t at,
                                                 int64_t count, int64_t slot)
{
    const int64_t key = slot << o.tile_shift;
    int64_t step = 8;
    for (; at + step <= count && embedding_key(records[at + step - 1]) < key; step *= 2)
        at += step;
    for (step /= 2; step > 0; step /= 2)
        if (at + step <= count && embedding_key(records[at + step - 1]) < key)
            at += step;
    return at;
}

/* steps[i] = i, of n. Ends with ASC_THEN(). */
static inline __aicore__ void embedding_steps(__ubuf__ int32_t *steps, int64_t n)
{
    for (int i = 0; i < 8; i++)
        steps[i] = i;
    ASC_FENCE(PIPE_S, PIPE_V);
    for (int64_t have = 8; have < n; have *= 2) {
        asc_add_scalar(steps + have, steps, (int32_t)have, (uint32_t)asc_min_of(have, n - have));
        ASC_THEN();
    }
}

/* n indices become keys. a, b, c: scratch of as many. Ends with ASC_THEN(). */
static inline __aicore__ void embedding_keys(embedding_order o, __ubuf__ int32_t *index,
                                             __ubuf__ int32_t *a, __ubuf__ int32_t *b,
                                             __ubuf__ int32_t *c, uint32_t n)
{
    const int32_t tile = (int32_t)o.tile_shift, owner = (int32_t)o.owner_shift;
    asc_shiftright(a, index, tile, n);
    asc_shiftright(b, index, tile + owner, n);
    ASC_THEN();
    asc_mul_scalar(c, a, -(1 << tile), n);
    ASC_THEN();
    asc_add(index, index, c, n); /* the row in the tile */
    ASC_THEN();
    asc_mul_scalar(c, b, -(1 << owner), n);
    ASC_THEN();
    asc_add(a, a, c, n); /* the owner */
    asc_mul_scalar(b, b, 1 << tile, n);
    ASC_THEN();
    asc_mul_scalar(a, a, (int32_t)(o.tiles_each << o.tile_shift), n);
    asc_add(index, index, b, n);
    ASC_THEN();
    asc_add(index, index, a, n);
    ASC_THEN();
}

/* ---- lists ---- */

enum { EMBEDDING_SORTED = 32 }; /* records of a repeat */
enum { EMBEDDING_LISTS = EMBEDDING_LARGE_LIST / EMBEDDING_SORTED };

/* Sorted lists of records, which begin in whole blocks of 32 B. */
typedef struct embedding_lists {
    int64_t count;
    int16_t at[EMBEDDING_LISTS], length[EMBEDDING_LISTS];
} embedding_lists;

/* Merges up to four lists at a time until one is left; equals keep the order of the lists. Returns
 * which of the two memories it is in. Ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *embedding_merge(embedding_lists *l, __ubuf__ float *from,
                                                         __ubuf__ float *to)
{
    while (l->count > 1) {
        const int64_t merges = (l->count + 3) / 4;
        int64_t next = 0, end = 0;
        for (int64_t j = 0; j < merges; j++) {
            const int64_t n = l->count / merges + (j < l->count % merges);
            __ubuf__ float *lists[4];
            uint16_t lengths[4];
            int64_t total = 0;
            for (int64_t i = 0; i < 4; i++) {
                lists[i] = from + 2 * l->at[next + (i < n ? i : 0)];
                lengths[i] = (uint16_t)(i < n ? l->length[next + i] : 0);
                total += lengths[i];
            }
            asc_mrgsort4(to + 2 * end, lists, 1, lengths[0], lengths[1], lengths[2], lengths[3], 0,
                         (uint8_t)((1 << n) - 1));
            next += n;
            l->at[j] = (int16_t)end;
            l->length[j] = (int16_t)total;
            end = asc_round_up(end + total, 4);
        }
        l->count = merges;
        ASC_THEN();
        __ubuf__ float *merged = to;
        to = from;
        from = merged;
    }
    return from;
}

/* `count` keys with their positions, both of whole repeats with EMBEDDING_NONE behind the last, as
 * sorted records. keys and positions lie one behind the other, and `other` is as large as both;
 * they are used up. Returns where the records are. */
static inline __aicore__ __ubuf__ uint64_t *embedding_records(__ubuf__ int32_t *keys,
                                                              __ubuf__ uint32_t *positions,
                                                              __ubuf__ float *other, int64_t count)
{
    enum { MOST = 128 }; /* repeats at once */
    __ubuf__ float *scores = (__ubuf__ float *)keys;
    const int64_t all = asc_round_up(count, EMBEDDING_SORTED);
    embedding_lists l;
    asc_int322float(scores, keys, (uint32_t)all);
    ASC_THEN();
    asc_mul_scalar(scores, scores, -1.0f, (uint32_t)all);
    ASC_THEN();
    for (int64_t i = 0; i < all; i += MOST * EMBEDDING_SORTED)
        asc_bitsort(other + 2 * i, scores + i, positions + i,
                    (uint8_t)asc_min_of(MOST, (all - i) / EMBEDDING_SORTED));
    ASC_THEN();
    l.count = all / EMBEDDING_SORTED;
    for (int64_t i = 0; i < l.count; i++) {
        l.at[i] = (int16_t)(i * EMBEDDING_SORTED);
        l.length[i] = (int16_t)asc_min_of(EMBEDDING_SORTED, count - i * EMBEDDING_SORTED);
    }
    return (__ubuf__ uint64_t *)embedding_merge(&l, other, scores);
}

#endif
