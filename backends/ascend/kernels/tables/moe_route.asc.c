/* moe_route.asc.c - the order of slots by expert, in three launches, of which the last is that of
 * moe_route_place.asc.c.
 *
 * The first sorts the slots of each chunk by expert, among them one record of each expert, which
 * comes before its slots: sorted back into the order of the list, these tell where experts begin.
 * The second sums up over chunks how many slots each expert has. The third knows where the slots of
 * each expert of each chunk belong: places by gathers from tables by expert, and the order of the
 * slots piece by piece, put together without gaps in UB. */
#include "moe_sort.h"

/* Experts of a chunk's slots, in 8 bytes each. */
static inline __aicore__ void moe_index_in(__gm__ int64_t *index, moe_chunk c, int64_t index_at)
{
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_copy_gm2ub_align(ASC_UB(uint32_t, index_at, 0), (__gm__ uint32_t *)(index + c.first),
                         (uint32_t)c.count * 8);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
}

typedef struct moe_sorting {
    int64_t experts, marks, list;
    __ubuf__ int32_t *expert, *step, *odd; /* odd: where the values of records are */
    __ubuf__ int32_t *sorted, *rank, *order, *starts, *counts, *next, *valid;
    __ubuf__ float *first, *second;
    __ubuf__ uint8_t *mine;
} moe_sorting;

/* Tables that all chunks share. */
static inline __aicore__ void moe_sort_begin(const moe_sorting *s)
{
    const uint32_t marks = (uint32_t)s->marks;
    moe_steps(s->step, 1, 0, s->list);
    moe_steps(s->odd, 8, 4, s->list);
    moe_steps(s->next, 4, 4, s->marks);
    asc_mul_scalar(s->valid, s->step, -1, marks); /* 1 for each expert, 0 behind them */
    ASC_THEN();
    asc_add_scalar(s->valid, s->valid, (int32_t)s->experts, marks);
    ASC_THEN();
    asc_max_scalar(s->valid, s->valid, 0, marks);
    ASC_THEN();
    asc_min_scalar(s->valid, s->valid, 1, marks);
    ASC_THEN();
}

/* The chunk's slots by expert. base: number of its first slot. */
static inline __aicore__ void moe_sort_slots(const moe_sorting *s, int64_t base)
{
    const uint32_t all = (uint32_t)s->list;
    __ubuf__ float *keys = s->first, *back = (__ubuf__ float *)s->rank, *records;
    asc_int322float(keys, s->step, (uint32_t)s->marks);
    asc_int322float(keys + s->marks, s->expert, (uint32_t)(s->list - s->marks));
    ASC_THEN();
    asc_mul_scalar(keys, keys, -1.0f, all);
    ASC_THEN();
    records = moe_sort(keys, s->step, s->second, s->first, s->list);
    asc_gather(s->sorted, (__ubuf__ int32_t *)records, (__ubuf__ uint32_t *)s->odd, all);
    ASC_THEN();
    moe_keys(back, s->sorted, s->list);
    asc_le_scalar(s->mine, back, 0.5f - (float)s->marks, (uint8_t)(all / ASC_LANES), 1, 1, 8, 8);
    ASC_THEN();
    asc_reduce((__ubuf__ uint32_t *)s->order, (__ubuf__ uint32_t *)s->sorted,
               (__ubuf__ uint32_t *)s->mine, all);
    records = moe_sort(back, s->step, s->second, s->first, s->list);
    asc_add_scalar(s->order, s->order, (int32_t)(base - s->marks), (uint32_t)(s->list - s->marks));
    asc_gather(s->rank, (__ubuf__ int32_t *)records, (__ubuf__ uint32_t *)s->odd, all);
    ASC_THEN();
}

/* What the records of experts tell: those of slots are behind as many of them as the number of
 * their expert, and one. */
static inline __aicore__ void moe_sort_results(const moe_sorting *s)
{
    const uint32_t marks = (uint32_t)s->marks, slots = (uint32_t)(s->list - s->marks);
    asc_sub(s->starts, s->rank, s->step, marks);
    asc_gather(s->counts, s->rank, (__ubuf__ uint32_t *)s->next, marks);
    ASC_THEN();
    asc_sub(s->counts, s->counts, s->rank, marks);
    asc_sub(s->expert, s->rank + s->marks, s->expert, slots);
    ASC_THEN();
    asc_add_scalar(s->counts, s->counts, -1, marks);
    asc_add_scalar(s->expert, s->expert, -1, slots);
    ASC_THEN();
    asc_mul(s->counts, s->counts, s->valid, marks);
    ASC_THEN();
}

ASC_KERNEL moe_route_sort_i64(ASC_PARAMS(MOE_ROUTE_SORT))
{
    const int64_t each = list - marks, chunks = (slots + each - 1) / each;
    const int64_t blocks = asc_get_block_num();
    moe_sorting s;
    s.experts = experts;
    s.marks = marks;
    s.list = list;
    s.expert = ASC_UB(int32_t, expert_at, 0);
    s.step = ASC_UB(int32_t, step_at, 0);
    s.odd = ASC_UB(int32_t, odd_at, 0);
    s.sorted = ASC_UB(int32_t, sorted_at, 0);
    s.rank = ASC_UB(int32_t, rank_at, 0);
    s.order = ASC_UB(int32_t, order_at, 0);
    s.starts = ASC_UB(int32_t, rows_at, 0);
    s.counts = s.starts + marks;
    s.next = ASC_UB(int32_t, tables_at, 0);
    s.valid = s.next + marks;
    s.first = ASC_SCRATCH(first);
    s.second = ASC_SCRATCH(second);
    s.mine = ASC_UB(uint8_t, mine_at, 0);
    asc_modes_set();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
    moe_index_in(index, moe_chunk_of(asc_get_block_idx(), each, slots), index_at);
    moe_sort_begin(&s);
    for (int64_t chunk = asc_get_block_idx(); chunk < chunks; chunk += blocks) {
        const moe_chunk c = moe_chunk_of(chunk, each, slots);
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0); /* the results before have left */
        asc_duplicate(s.expert, (int32_t)experts, (uint32_t)each);
        ASC_THEN();
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
        asc_int642int32(s.expert, ASC_UB(int64_t, index_at, 0), (uint32_t)c.count);
        ASC_THEN();
        asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID0);
        if (chunk + blocks < chunks)
            moe_index_in(index, moe_chunk_of(chunk + blocks, each, slots), index_at);
        moe_sort_slots(&s, c.first);
        moe_sort_results(&s);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        asc_copy_ub2gm_align(order + c.first, s.order, (uint32_t)c.count * 4);
        asc_copy_ub2gm_align(ranks + c.first, s.expert, (uint32_t)c.count * 4);
        asc_copy_ub2gm_align(starts + chunk * marks, s.starts, (uint32_t)marks * 4);
        asc_copy_ub2gm_align(counts + chunk * marks, s.counts, (uint32_t)marks * 4);
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID0);
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
    asc_modes_clear();
}

/* ---- sums over chunks ---- */

/* x = the sums of each of its rows and all before, of 64 numbers; `other` is scratch. Returns which
 * of the two they are in. Ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ int32_t *moe_sums_down(__ubuf__ int32_t *x,
                                                         __ubuf__ int32_t *other, int64_t rows)
{
    for (int64_t by = 1; by < rows; by *= 2) {
        asc_add_scalar(other, x, 0, (uint32_t)(by * ASC_LANES));
        asc_add(other + by * ASC_LANES, x + by * ASC_LANES, x, (uint32_t)((rows - by) * ASC_LANES));
        ASC_THEN();
        __ubuf__ int32_t *sums = other;
        other = x;
        x = sums;
    }
    return x;
}

/* pieces of `n` entries: count, or what capacity leaves of it, and start. before becomes no more
 * than capacity. */
static inline __aicore__ void moe_pieces(__ubuf__ int32_t *piece, __ubuf__ int32_t *before,
                                         __ubuf__ int32_t *count, __ubuf__ int32_t *start,
                                         int64_t capacity, uint32_t n)
{
    asc_mul_scalar(start, start, (int32_t)MOE_PIECE, n);
    asc_mul_scalar(piece, before, -1, n);
    ASC_THEN();
    asc_add_scalar(piece, piece, (int32_t)capacity, n);
    ASC_THEN();
    asc_max_scalar(piece, piece, 0, n);
    ASC_THEN();
    asc_min(piece, piece, count, n);
    ASC_THEN();
    asc_add(piece, piece, start, n);
    asc_min_scalar(before, before, (int32_t)capacity, n);
    ASC_THEN();
}

ASC_KERNEL moe_route_scan_i64(ASC_PARAMS(MOE_ROUTE_SCAN))
{
    __ubuf__ int32_t *start = ASC_UB(int32_t, start_at, 0), *count = ASC_UB(int32_t, count_at, 0),
                     *piece = ASC_UB(int32_t, piece_at, 0), *carry = ASC_UB(int32_t, carry_at, 0);
    const int64_t row = ASC_LANES * 4;
    asc_modes_set();
    for (int64_t at = asc_get_block_idx() * ASC_LANES; at < marks;
         at += asc_get_block_num() * ASC_LANES) {
        asc_duplicate(carry, 0, ASC_LANES);
        ASC_THEN();
        for (int64_t c = 0; c < chunks; c += tile_rows) {
            const int64_t rows = asc_min_of(tile_rows, chunks - c), from = c * marks + at;
            const uint32_t n = (uint32_t)(rows * ASC_LANES);
            asc_copy_rows_in((uint64_t)count, counts + from, rows, row, marks * 4, row);
            asc_copy_rows_in((uint64_t)start, starts + from, rows, row, marks * 4, row);
            asc_sync();
            __ubuf__ int32_t *sum = ASC_UB(int32_t, sum_at, 0);
            asc_add_scalar(sum, count, 0, n);
            ASC_THEN();
            sum = moe_sums_down(sum, ASC_UB(int32_t, other_at, 0), rows);
            asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
            asc_add(sum, sum, carry, (uint8_t)rows, 1, 1, 1, 8, 8, 0);
            ASC_THEN();
            asc_add_scalar(carry, sum + (rows - 1) * ASC_LANES, 0, ASC_LANES);
            ASC_THEN();
            asc_sub(sum, sum, count, n);
            ASC_THEN();
            moe_pieces(piece, sum, count, start, capacity, n);
            asc_sync();
            asc_copy_rows_out(before + from, (uint64_t)sum, rows, row, marks * 4, row);
            asc_copy_rows_out(pieces + from, (uint64_t)piece, rows, row, marks * 4, row);
            asc_sync();
        }
        asc_min_scalar(carry, carry, (int32_t)capacity, ASC_LANES);
        asc_sync();
        asc_copy_ub2gm_align(totals + at, carry, ASC_LANES * 4);
        asc_sync();
    }
    asc_modes_clear();
}
