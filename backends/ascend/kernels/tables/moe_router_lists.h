/* moe_router_lists.h - lists of records of each token, merged until one is left: of all experts, or
 * of those in the groups that are kept. */
#ifndef MOE_ROUTER_LISTS_H
#define MOE_ROUTER_LISTS_H

#include "moe_router.h"

/* ---- lists ---- */

/* Lists of each row: `count` for each of some sets, which begin `span` records apart. */
typedef struct router_lists {
    int64_t sets, span, count;
    int16_t at[ROUTER_LISTS], length[ROUTER_LISTS];
} router_lists;

/* Where they are: records of a row begin `row` records apart. */
typedef struct router_records {
    __ubuf__ float *at;
    int64_t row;
} router_records;

typedef struct router {
    int64_t experts, groups, each, room, pitch, kept, top_k, most; /* most: of a list, what is
                                                                       merged */
    int64_t tile_rows;
    __ubuf__ float *x, *s, *key;
    router_records first, second;
    __ubuf__ float *pads, *caps, *bias, *probs; /* of each position */
    __ubuf__ int32_t *four, *expert;            /* 4 times the position; the expert there */
    __ubuf__ float *folds, *block;
    __ubuf__ float *ones, *max, *sum, *lse, *squares, *kept_tokens, *square, *one, *group_caps;
    __ubuf__ int32_t *bits, *row_at, *keeps;
    __ubuf__ int32_t *from_records, *to_rows, *position, *offset, *line, *rows;
    __ubuf__ float *weight, *value, *weight_rows;
    __ubuf__ int64_t *index, *counted;
    __ubuf__ int32_t *group_at, *group_row, *group_number; /* 32 a token */
    __ubuf__ float *group_key, *group_a, *group_b, *group_records;
    int64_t wants;
} router;

/* How many of `count` lists merge j takes: up to four. */
static inline __aicore__ int64_t router_share(int64_t count, int64_t j)
{
    const int64_t merges = (count + 3) / 4;
    return count / merges + (j < count % merges);
}

/* What a level of merges makes of the lists of a set. */
static inline __aicore__ router_lists router_merged(const router_lists *from, int64_t most)
{
    router_lists to;
    to.sets = from->sets;
    to.span = to.count = 0;
    for (int64_t i = 0; i < from->count; to.count++) {
        int64_t total = 0;
        for (int64_t n = router_share(from->count, to.count); n > 0; n--)
            total += from->length[i++];
        to.at[to.count] = (int16_t)to.span;
        to.length[to.count] = (int16_t)asc_min_of(most, total);
        to.span += total;
    }
    return to;
}

/* Merges n lists of a row, which begin at these records. */
static inline __aicore__ void router_merge(__ubuf__ float *to, __ubuf__ float *from,
                                           const int16_t *at, const int16_t *length, int64_t n)
{
    __ubuf__ float *lists[4];
    uint16_t lengths[4];
    for (int64_t i = 0; i < 4; i++) {
        lists[i] = from + 2 * at[i < n ? i : 0];
        lengths[i] = (uint16_t)(i < n ? length[i] : 0);
    }
    if (n == 1)
        asc_copy_ub2ub(to, lists[0], (uint32_t)asc_round_up(lengths[0] * 8, 32));
    else
        asc_mrgsort4(to, lists, 1, lengths[0], lengths[1], lengths[2], lengths[3], 0,
                     (uint8_t)((1 << n) - 1));
}

/* A level: lists of all sets of `rows` rows. Ends with ASC_THEN(). */
static inline __aicore__ void router_level(router_lists *l, router_records from, router_records to,
                                           int64_t most, int64_t rows)
{
    const router_lists next = router_merged(l, most);
    for (int64_t j = 0, first = 0, n; j < next.count; j++, first += n) {
        n = router_share(l->count, j);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t set = 0; set < l->sets; set++)
                router_merge(to.at + 2 * (r * to.row + set * next.span + next.at[j]),
                             from.at + 2 * (r * from.row + set * l->span), l->at + first,
                             l->length + first, n);
    }
    *l = next;
    ASC_THEN();
}

/* Levels until a set has one list. *turned: an odd number, so that it is in `to`. */
static inline __aicore__ void router_levels(router_lists *l, router_records from, router_records to,
                                            int64_t most, int64_t rows, int *turned)
{
    while (l->count > 1) {
        router_level(l, *turned ? to : from, *turned ? from : to, most, rows);
        *turned ^= 1;
    }
}

/* The lists that bitsort leaves. */
static inline __aicore__ void router_begin_lists(const router *r, router_lists *l)
{
    l->sets = r->groups;
    l->span = r->room;
    l->count = r->room / ROUTER_LIST;
    for (int64_t i = 0; i < l->count; i++) {
        l->at[i] = (int16_t)(i * ROUTER_LIST);
        l->length[i] = (int16_t)asc_min_of(ROUTER_LIST, r->most);
    }
}

/* How many levels there are for so many lists. */
static inline __aicore__ int64_t router_depth(int64_t lists)
{
    int64_t depth = 0;
    for (; lists > 1; lists = (lists + 3) / 4)
        depth++;
    return depth;
}

/* ---- groups ---- */

static inline __aicore__ int router_limits(const router *r)
{
    return r->kept < r->groups;
}

/* Records of the best groups of each token, the best first. */
static inline __aicore__ void router_sort_groups(const router *r, router_records in, int64_t rows)
{
    const int64_t n = asc_round_up(rows * ROUTER_GROUPS, ASC_LANES);
    const uint32_t all = (uint32_t)n;
    __ubuf__ uint32_t *at = (__ubuf__ uint32_t *)r->group_at;
    __ubuf__ int32_t *ints = (__ubuf__ int32_t *)in.at, *a = (__ubuf__ int32_t *)r->group_a,
                     *b = (__ubuf__ int32_t *)r->group_b;
    if (r->each == 1 || r->wants & ROUTER_BEST_ONE) {
        asc_gather(r->group_key, in.at, at, all);
    } else if (r->bias) {
        asc_gather(r->group_a, in.at, at, all);
        asc_gather(r->group_b, in.at + 2, at, all);
    } else { /* where their scores are */
        asc_gather(a, ints + 1, at, all);
        asc_gather(b, ints + 3, at, all);
        ASC_THEN();
        asc_add(a, a, r->group_row, all);
        asc_add(b, b, r->group_row, all);
        ASC_THEN();
        asc_gather(r->group_key, r->s, (__ubuf__ uint32_t *)a, all);
        ASC_THEN();
        asc_gather(r->group_a, r->s, (__ubuf__ uint32_t *)b, all);
        ASC_THEN();
        asc_add_scalar(r->group_b, r->group_key, 0.0f, all);
    }
    ASC_THEN();
    if (r->each > 1 && !(r->wants & ROUTER_BEST_ONE)) {
        asc_add(r->group_key, r->group_b, r->group_a, all);
        ASC_THEN();
    }
    router_keys(r->group_key, r->group_key, r->bits, a, n);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_min(r->group_key, r->group_key, r->group_caps, (uint8_t)(n / ASC_LANES), 1, 1, 1, 8, 8, 0);
    ASC_THEN();
    asc_bitsort(r->group_records, r->group_key, (__ubuf__ uint32_t *)r->group_number,
                (int32_t)rows);
}

/* Merges the lists of kept groups, lower groups first. */
static inline __aicore__ void router_merge_groups(const router *r, router_lists *l,
                                                  router_records from, router_records to,
                                                  int64_t rows)
{
    const __ubuf__ int32_t *records = (__ubuf__ int32_t *)r->group_records;
    const int64_t span = l->span;
    int16_t at[ROUTER_GROUPS];
    l->sets = 1;
    l->count = r->kept;
    for (int64_t i = 1; i < r->kept; i++)
        l->length[i] = l->length[0];
    const router_lists next = router_merged(l, r->most);
    ASC_FENCE(PIPE_V, PIPE_S);
    for (int64_t row = 0; row < rows; row++) {
        uint64_t kept = 0;
        for (int64_t i = 0; i < r->kept; i++)
            kept |= (uint64_t)1 << records[(row * ROUTER_GROUPS + i) * 2 + 1];
        for (int64_t n = 0; kept; kept &= kept - 1)
            at[n++] = (int16_t)(asc_ffs(kept) * span);
        for (int64_t j = 0, first = 0, n; j < next.count; j++, first += n) {
            n = router_share(r->kept, j);
            router_merge(to.at + 2 * (row * to.row + next.at[j]), from.at + 2 * row * from.row,
                         at + first, l->length, n);
        }
    }
    ASC_FENCE(PIPE_S, PIPE_V);
    *l = next;
    ASC_THEN();
}

#endif
