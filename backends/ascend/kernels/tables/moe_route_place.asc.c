/* moe_route_place.asc.c - the third launch of moe_route (moe_route.asc.c): places of slots, and the
 * order of slots. */
#include "moe_sort.h"
#include "shared/asc_row_tile.h"

typedef struct moe_placing {
    int64_t slots, experts, marks, capacity, list, each, chunks;
    __ubuf__ int32_t *fours, *valid; /* 0, 4, ...; 1 for each expert, 0 behind them */
    __ubuf__ int32_t *offset, *shift, *limit;
    int64_t rows_at, rank_at, wide_at, result_at;
    __ubuf__ int32_t *parts, *strip, *joined;
    __ubuf__ uint8_t *mine;
} moe_placing;

/* offset of each expert: the sums of the totals before. x has `marks` zeros, and behind them the
 * totals; y the same zeros, and room. */
static inline __aicore__ void moe_offsets(const moe_placing *p, __ubuf__ int32_t *x,
                                          __ubuf__ int32_t *y)
{
    const int64_t marks = p->marks;
    const uint32_t n = (uint32_t)marks;
    __ubuf__ int32_t *table = p->parts, *moved = p->parts + marks;
    asc_add_scalar(p->offset, x + marks, 0, n);
    for (int64_t by = 1; by < marks; by *= 2) {
        __ubuf__ int32_t *from = x + marks - by;
        if (by < 8) { /* where no block of 32 bytes begins */
            asc_add_scalar(table, p->fours, (int32_t)((8 - by) * 4), n);
            ASC_THEN();
            asc_gather(moved, x + marks - 8, (__ubuf__ uint32_t *)table, n);
            from = moved;
            ASC_THEN();
        }
        asc_add(y + marks, x + marks, from, n);
        ASC_THEN();
        __ubuf__ int32_t *sums = y;
        y = x;
        x = sums;
    }
    asc_sub(p->offset, x + marks, p->offset, n);
    ASC_THEN();
}

/* Tables, and where each expert begins. */
static inline __aicore__ void moe_place_begin(const moe_placing *p, __gm__ int32_t *totals,
                                              int64_t x_at, int64_t y_at)
{
    __ubuf__ int32_t *x = ASC_UB(int32_t, x_at, 0), *y = ASC_UB(int32_t, y_at, 0);
    const uint32_t marks = (uint32_t)p->marks;
    moe_steps(p->fours, 4, 0, p->marks);
    moe_steps(p->valid, -1, p->experts, p->marks);
    asc_max_scalar(p->valid, p->valid, 0, marks);
    asc_duplicate(x, 0, marks);
    asc_duplicate(y, 0, marks);
    asc_copy_gm2ub_align(x + marks, totals, marks * 4);
    ASC_THEN();
    asc_min_scalar(p->valid, p->valid, 1, marks);
    asc_sync();
    moe_offsets(p, x, y);
}

/* Experts and ranks of a chunk's slots come in, and what is known of its experts. */
static inline __aicore__ void moe_chunk_in(const moe_placing *p, int64_t chunk, int side,
                                           ASC_PARAMS(MOE_ROUTE_PLACE))
{
    const moe_chunk c = moe_chunk_of(chunk, p->each, slots);
    __ubuf__ int32_t *row = ASC_UB(int32_t, rows_at, side);
    ASC_MAY_FILL(side);
    asc_copy_gm2ub_align(ASC_UB(uint32_t, wide_at, side), (__gm__ uint32_t *)(index + c.first),
                         (uint32_t)c.count * 8);
    asc_copy_gm2ub_align(ASC_UB(int32_t, rank_at, side), ranks + c.first, (uint32_t)c.count * 4);
    asc_copy_gm2ub_align(row, starts + chunk * marks, (uint32_t)marks * 4);
    asc_copy_gm2ub_align(row + marks, before + chunk * marks, (uint32_t)marks * 4);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, side);
}

/* Places of a chunk's slots. shift: what is added to a slot's rank; limit: the first place that its
 * expert does not have, or -1 for none. */
static inline __aicore__ void moe_chunk_places(const moe_placing *p, uint32_t n, int side)
{
    const uint32_t marks = (uint32_t)p->marks;
    __ubuf__ int32_t *start = ASC_UB(int32_t, p->rows_at, side), *before = start + marks;
    __ubuf__ int32_t *expert = p->parts, *place = expert + p->list, *limit = place + p->list;
    ASC_WAIT(PIPE_MTE2, PIPE_V, side);
    asc_int642int32(expert, ASC_UB(int64_t, p->wide_at, side), n);
    asc_sub(p->shift, p->offset, start, marks);
    asc_add_scalar(p->limit, p->offset, (int32_t)p->capacity + 1, marks);
    ASC_THEN();
    asc_mul_scalar(expert, expert, 4, n);
    asc_add(p->shift, p->shift, before, marks);
    asc_mul(p->limit, p->limit, p->valid, marks);
    ASC_THEN();
    asc_gather(place, p->shift, (__ubuf__ uint32_t *)expert, n);
    asc_gather(limit, p->limit, (__ubuf__ uint32_t *)expert, n); /* and one */
    ASC_THEN();
    asc_add(place, place, ASC_UB(int32_t, p->rank_at, side), n);
    ASC_THEN();
    ASC_HAS_READ(side);
    asc_sub(limit, place, limit, n);
    ASC_THEN();
    asc_add_scalar(limit, limit, 2, n); /* 1 or more: the place is beyond */
    asc_add_scalar(expert, place, 1, n);
    ASC_THEN();
    asc_max_scalar(limit, limit, 0, n);
    ASC_THEN();
    asc_min_scalar(limit, limit, 1, n);
    ASC_THEN();
    asc_mul(expert, expert, limit, n);
    ASC_THEN();
    asc_sub(place, place, expert, n);
    ASC_THEN();
    ASC_MAY_WRITE(side);
    asc_int322int64(ASC_UB(int64_t, p->result_at, side), place, n);
    ASC_THEN();
    ASC_HAS_WRITTEN(side);
}

/* ---- the order of slots ---- */

/* A piece of the order: the slots of an expert in a chunk, of which the first belongs at `at`. */
typedef struct moe_cursor {
    int64_t expert, chunk, at;
    int64_t strip; /* that is in UB */
} moe_cursor;

/* The piece's entry. Those of eight experts come in together, of a number of chunks. */
static inline __aicore__ int64_t moe_piece_of(const moe_placing *p, moe_cursor *at,
                                              __gm__ int32_t *pieces)
{
    const int64_t rows = p->list / 8, first = at->chunk / rows * rows;
    const int64_t strip = at->expert / 8 * p->chunks + first;
    if (at->strip != strip) {
        ASC_FENCE(PIPE_S, PIPE_MTE2);
        asc_copy_rows_in((uint64_t)p->strip, pieces + first * p->marks + at->expert / 8 * 8,
                         asc_min_of(rows, p->chunks - first), 32, p->marks * 4, 32);
        ASC_FENCE(PIPE_MTE2, PIPE_S);
        at->strip = strip;
    }
    return p->strip[(at->chunk - first) * 8 + at->expert % 8];
}

/* Copies in the slots of the places [begin, end), each piece in whole blocks of 32 bytes, with -1
 * behind it. Returns how many numbers that are; *kept: how many slots. */
static inline __aicore__ int64_t moe_pieces_in(const moe_placing *p, moe_cursor *at, int64_t begin,
                                               int64_t end, __ubuf__ int32_t *to,
                                               __gm__ int32_t *order, __gm__ int32_t *pieces,
                                               int64_t *kept)
{
    int64_t place = begin, used = 0;
    while (place < end && at->expert < p->experts) {
        const int64_t entry = moe_piece_of(p, at, pieces), count = entry % MOE_PIECE;
        if (at->at + count > place) {
            const int64_t first = at->chunk * p->each + entry / MOE_PIECE + place - at->at;
            const int64_t n = asc_min_of(at->at + count, end) - place;
            const int64_t whole = asc_round_up(n, 8);
            asc_copy_gm2ub_align(to + used, order + first, 1, (uint32_t)n * 4, 0,
                                 (uint8_t)(whole - n), 0, 0);
            used += whole;
            place += n;
        }
        if (at->at + count > end)
            break;
        at->at += count;
        if (++at->chunk == p->chunks) {
            at->chunk = 0;
            at->expert++;
        }
    }
    *kept = place - begin;
    return used;
}

/* The first `kept` numbers that are not negative, without gaps, and -1 behind them, `count` in
 * all. */
static inline __aicore__ void moe_join(const moe_placing *p, __ubuf__ int32_t *from, int64_t used,
                                       int64_t kept, int64_t count)
{
    __ubuf__ float *numbers = (__ubuf__ float *)p->parts;
    const uint8_t repeats = (uint8_t)((used + ASC_LANES - 1) / ASC_LANES);
    const int64_t whole = asc_round_up(kept, 8);
    if (used) {
        asc_int322float(numbers, from, (uint32_t)used);
        ASC_THEN();
        asc_ge_scalar(p->mine, numbers, 0.0f, repeats, 1, 1, 8, 8);
        ASC_THEN();
        asc_reduce((__ubuf__ uint32_t *)p->joined, (__ubuf__ uint32_t *)from,
                   (__ubuf__ uint32_t *)p->mine, (uint32_t)used);
        ASC_THEN();
    }
    if (kept < count) {
        if (kept % 8) {
            asc_set_vector_mask(0, 0xff & ~(uint64_t)0 << kept % 8);
            asc_duplicate(p->joined + kept / 8 * 8, -1, 1, 1, 8);
            asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        }
        if (whole < count)
            asc_duplicate(p->joined + whole, -1, (uint32_t)(count - whole));
        ASC_THEN();
    }
}

/* This block's share of the order, a number of slots at a time, which come in one such turn ahead
 * of what is done with them. */
static inline __aicore__ void moe_order(const moe_placing *p, ASC_PARAMS(MOE_ROUTE_PLACE))
{
    const int64_t turn = list / 4, turns = (slots + turn - 1) / turn;
    const asc_share share = asc_share_of(turns);
    int64_t used[2], kept[2];
    moe_cursor at = {0, 0, 0, -1};
    while (at.expert < experts && p->offset[at.expert + 1] <= share.begin * turn)
        at.expert++;
    at.at = p->offset[at.expert];
    for (int64_t t = share.begin; t <= share.end; t++) {
        const int side = (int)(t & 1), other = side ^ 1;
        if (t < share.end) {
            ASC_MAY_FILL(side);
            used[side] = moe_pieces_in(p, &at, t * turn, asc_min_of(slots, (t + 1) * turn),
                                       ASC_UB(int32_t, wide_at, side), order, pieces, &kept[side]);
            ASC_NOTIFY(PIPE_MTE2, PIPE_V, side);
        }
        if (t == share.begin)
            continue;
        const int64_t first = (t - 1) * turn, count = asc_min_of(turn, slots - first);
        ASC_WAIT(PIPE_MTE2, PIPE_V, other);
        moe_join(p, ASC_UB(int32_t, wide_at, other), used[other], kept[other], count);
        ASC_HAS_READ(other);
        ASC_MAY_WRITE(other);
        asc_int322int64(ASC_UB(int64_t, result_at, other), p->joined, (uint32_t)count);
        ASC_THEN();
        ASC_HAS_WRITTEN(other);
        asc_copy_ub2gm_align((__gm__ uint32_t *)(slot + first), ASC_UB(uint32_t, result_at, other),
                             (uint32_t)count * 8);
        ASC_HAS_LEFT(other);
    }
}

ASC_KERNEL moe_route_place_i64(ASC_PARAMS(MOE_ROUTE_PLACE))
{
    const int64_t blocks = asc_get_block_num(), block = asc_get_block_idx();
    int side = 0;
    moe_placing p;
    p.slots = slots;
    p.experts = experts;
    p.marks = marks;
    p.capacity = capacity;
    p.list = list;
    p.each = list - marks;
    p.chunks = (slots + p.each - 1) / p.each;
    p.fours = ASC_UB(int32_t, steps_at, 0);
    p.valid = p.fours + marks;
    p.offset = ASC_UB(int32_t, offset_at, 0);
    p.shift = ASC_UB(int32_t, by_expert_at, 0);
    p.limit = p.shift + marks;
    p.rows_at = rows_at;
    p.rank_at = rank_at;
    p.wide_at = wide_at;
    p.result_at = result_at;
    p.parts = ASC_UB(int32_t, parts_at, 0);
    p.strip = ASC_UB(int32_t, strip_at, 0);
    p.joined = ASC_UB(int32_t, x_at, 0);
    p.mine = ASC_UB(uint8_t, mine_at, 0);
    asc_clear_begin();
    asc_clear_copies(parts_at, 1, list * 12);
    moe_place_begin(&p, totals, x_at, y_at);
    if (block == 0) {
        asc_int322int64(ASC_UB(int64_t, result_at, 0), p.offset, (uint32_t)experts + 1);
        asc_sync();
        asc_copy_ub2gm_align((__gm__ uint32_t *)offset, ASC_UB(uint32_t, result_at, 0),
                             (uint32_t)(experts + 1) * 8);
    }
    asc_sync();
    asc_pipeline_begin();
    asc_set_copy_pad_val((uint32_t)-1);
    if (place && block < p.chunks)
        moe_chunk_in(&p, block, side, ASC_NAMES(MOE_ROUTE_PLACE));
    for (int64_t chunk = block; place && chunk < p.chunks; chunk += blocks, side ^= 1) {
        const moe_chunk c = moe_chunk_of(chunk, p.each, slots);
        if (chunk + blocks < p.chunks)
            moe_chunk_in(&p, chunk + blocks, side ^ 1, ASC_NAMES(MOE_ROUTE_PLACE));
        moe_chunk_places(&p, (uint32_t)c.count, side);
        asc_copy_ub2gm_align((__gm__ uint32_t *)(place + c.first),
                             ASC_UB(uint32_t, result_at, side), (uint32_t)c.count * 8);
        ASC_HAS_LEFT(side);
    }
    moe_order(&p, ASC_NAMES(MOE_ROUTE_PLACE));
    asc_pipeline_end();
}
