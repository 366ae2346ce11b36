/* embedding_share.h - shares of a table's indices, sorted by owner, slot and row, and an owner that
 * merges what each of them has of its own. Of many indices that takes less time than when each
 * owner looks through them all. */
#ifndef EMBEDDING_SHARE_H
#define EMBEDDING_SHARE_H

#include "embedding_sort.h"

typedef struct embedding_share {
    embedding_order order;
    int64_t piece;
    int64_t indices_at;                /* a piece of the indices */
    __ubuf__ int32_t *key, *a, *b, *c; /* a piece's keys; scratch */
    __ubuf__ int32_t *step;            /* 0, 1, ... */
    __ubuf__ int32_t *list, *place;    /* keys and positions of the share */
    __ubuf__ float *other;             /* as much memory as both */
    __ubuf__ int32_t *starts;          /* of each owner's records, and behind the last one's */
} embedding_share;

/* `count` indices of the share, the first of which is number `at` of it and `position` of all. */
static inline __aicore__ void embedding_share_piece(const embedding_share *s,
                                                    __gm__ int64_t *indices, int64_t at,
                                                    int64_t position, uint32_t count)
{
    __ubuf__ int64_t *in = ASC_UB(int64_t, s->indices_at, 0);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    asc_copy_gm2ub_align((__ubuf__ uint32_t *)in, (__gm__ uint32_t *)(indices + position),
                         count * 8);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    asc_int642int32(s->key, in, count);
    asc_add_scalar(s->place + at, s->step, (int32_t)position, count);
    ASC_THEN();
    embedding_keys(s->order, s->key, s->a, s->b, s->c, count);
    asc_add_scalar(s->list + at, s->key, 0, count);
    ASC_THEN();
}

/* Sorts a share of `count` indices from `position` on. */
static inline __aicore__ void embedding_share_sort(const embedding_share *s,
                                                   __gm__ int64_t *indices, int64_t position,
                                                   int64_t count, __gm__ uint64_t *records,
                                                   __gm__ int32_t *starts)
{
    const int64_t owners = (int64_t)1 << s->order.owner_shift;
    const int64_t whole = count / EMBEDDING_SORTED * EMBEDDING_SORTED;
    if (whole < count) {
        asc_duplicate(s->list + whole, EMBEDDING_NONE, EMBEDDING_SORTED);
        asc_duplicate(s->place + whole, 0, EMBEDDING_SORTED);
        ASC_THEN();
    }
    for (int64_t at = 0; at < count; at += s->piece)
        embedding_share_piece(s, indices, at, position + at,
                              (uint32_t)asc_min_of(s->piece, count - at));
    const __ubuf__ uint64_t *sorted =
        embedding_records(s->list, (__ubuf__ uint32_t *)s->place, s->other, count);
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align((__gm__ uint32_t *)(records + position), (__ubuf__ uint32_t *)sorted,
                         (uint32_t)count * 8);
    ASC_FENCE(PIPE_V, PIPE_S);
    for (int64_t owner = 0, at = 0; owner <= owners; owner++) {
        at = embedding_first(s->order, sorted, at, count, owner * s->order.tiles_each);
        s->starts[owner] = (int32_t)at;
    }
    ASC_FENCE(PIPE_S, PIPE_MTE3);
    asc_copy_ub2gm_align(starts, s->starts, (uint32_t)(owners + 1) * 4);
    asc_sync(); /* all has left, or has been read */
}

/* ---- an owner that merges shares ---- */

/* What launches before have sorted: chunks of `chunk` positions, and of each of them where each
 * owner's records begin, `pitch` numbers a chunk. */
typedef struct embedding_shares {
    __gm__ uint64_t *records;
    __gm__ int32_t *starts;
    int64_t chunk, chunks, pitch;
} embedding_shares;

/* The owner's lists come in, and `to` is known. Returns 0 if the list does not hold them. */
static inline __aicore__ int embedding_lists_in(embedding_scan *s, const embedding_shares *from,
                                                __gm__ uint64_t *records, embedding_lists *l)
{
    int64_t used = 0, before = 0;
    int fits = 1;
    asc_copy_rows_in(s->ends_at, from->starts + s->owner, from->chunks, 8, from->pitch * 4, 32);
    ASC_FENCE(PIPE_MTE2, PIPE_S);
    l->count = s->count = 0;
    for (int64_t c = 0; c < from->chunks; c++) {
        const int64_t begin = s->ends[8 * c], count = s->ends[8 * c + 1] - begin;
        before += begin;
        s->count += count;
        fits &= used + count <= s->room;
        if (!count || !fits)
            continue;
        asc_copy_gm2ub_align((__ubuf__ uint32_t *)s->list + 2 * used,
                             (__gm__ uint32_t *)(from->records + c * from->chunk + begin),
                             (uint32_t)count * 8);
        l->at[l->count] = (int16_t)used;
        l->length[l->count++] = (int16_t)count;
        used = asc_round_up(used + count, 4);
    }
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    s->to = records + before;
    return fits;
}

/* All that is the owner's, to `records` and `bounds`. Returns 0 if its list does not hold them. */
static inline __aicore__ int embedding_merge_all(embedding_scan *s, const embedding_shares *from,
                                                 __gm__ uint64_t *records, __gm__ int32_t *bounds)
{
    embedding_lists l;
    int64_t at = 0;
    if (!embedding_lists_in(s, from, records, &l))
        return 0;
    const int64_t begin = s->to - records, count = s->count;
    const __ubuf__ uint64_t *sorted =
        (__ubuf__ uint64_t *)embedding_merge(&l, (__ubuf__ float *)s->list, s->other);
    embedding_records_out(s, sorted, count);
    for (int64_t tile = 0, tiles; tile < s->order.tiles_each; tile += tiles) {
        tiles = asc_min_of(EMBEDDING_ENDS, s->order.tiles_each - tile);
        embedding_bounds_out(s, bounds, sorted, count, &at, begin, begin + at, tile, tiles);
        asc_sync(); /* the bounds have left */
    }
    return 1;
}

#endif
