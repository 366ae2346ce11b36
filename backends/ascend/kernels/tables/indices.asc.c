/* indices.asc.c - indices in a card's memory, which the operator's check cannot read: those out of
 * range are replaced, so that nothing is read out of range, and the first one is written down. */
#include "indices.args.h"
#include "moe_sort.h"
#include "shared/asc_row_sums.h"

/* This block's place for a fault. */
static inline __aicore__ __gm__ uint32_t *indices_place(__gm__ int64_t *faults)
{
    return (__gm__ uint32_t *)(faults + asc_get_block_idx() * INDICES_FAULT);
}

/* What stands there from launches before; then whether that is a fault. */
static inline __aicore__ int indices_found(__gm__ int64_t *faults, __ubuf__ int64_t *fault)
{
    asc_copy_gm2ub_align((__ubuf__ uint32_t *)fault, indices_place(faults), 8 * INDICES_FAULT);
    asc_sync();
    return fault[INDICES_TICKET] != 0;
}

static inline __aicore__ void indices_write(__ubuf__ int64_t *fault, int64_t ticket, int64_t what,
                                            int64_t position, int64_t value, int64_t least,
                                            int64_t most)
{
    fault[INDICES_TICKET] = ticket;
    fault[INDICES_WHAT] = what;
    fault[INDICES_POSITION] = position;
    fault[INDICES_VALUE] = value;
    fault[INDICES_LEAST] = least;
    fault[INDICES_MOST] = most;
}

static inline __aicore__ void indices_leave(__gm__ int64_t *faults, __ubuf__ int64_t *fault)
{
    asc_sync();
    asc_copy_ub2gm_align(indices_place(faults), (__ubuf__ uint32_t *)fault, 8 * INDICES_FAULT);
}

typedef struct indices_tile {
    __ubuf__ int64_t *index;
    __ubuf__ int32_t *low, *high, *good, *other, *table;
    __ubuf__ float *wrong;
} indices_tile;

/* The n indices of a tile become good ones; wrong: 1 for each that was none, else 0; low and high:
 * the two halves of what it was. Ends with ASC_THEN(). */
static inline __aicore__ void indices_replace(const indices_tile *t, int64_t least, int64_t most,
                                              int64_t instead, uint32_t n)
{
    __ubuf__ int32_t *words = (__ubuf__ int32_t *)t->index, *flag = t->other;
    __ubuf__ float *other = (__ubuf__ float *)t->other;
    asc_gather(t->low, words, (__ubuf__ uint32_t *)t->table, n);
    asc_gather(t->high, words + 1, (__ubuf__ uint32_t *)t->table, n);
    ASC_THEN();
    asc_max_scalar(t->good, t->low, (int32_t)least, n);
    asc_max_scalar(flag, t->low, -2, n); /* so that no difference overflows */
    ASC_THEN();
    asc_min_scalar(t->good, t->good, (int32_t)most, n);
    ASC_THEN();
    /* an index is good if its lower half is that, and its upper one has the sign of it */
    asc_sub(flag, flag, t->good, n);
    asc_min_scalar(words, t->high, 1, n); /* what came has been taken apart */
    ASC_THEN();
    asc_int322float(t->wrong, flag, n);
    asc_max_scalar(words, words, -2, n);
    ASC_THEN();
    asc_min_scalar(flag, t->good, 0, n);
    asc_abs(t->wrong, t->wrong, n);
    ASC_THEN();
    asc_sub(flag, words, flag, n);
    ASC_THEN();
    asc_int322float(other, flag, n);
    ASC_THEN();
    asc_abs(other, other, n);
    ASC_THEN();
    asc_add(t->wrong, t->wrong, other, n);
    ASC_THEN();
    asc_min_scalar(t->wrong, t->wrong, 1.0f, n);
    ASC_THEN();
    asc_float2int32_rz(flag, t->wrong, n);
    ASC_THEN();
    asc_mul_scalar(words, t->good, -1, n);
    ASC_THEN();
    asc_add_scalar(words, words, (int32_t)instead, n);
    ASC_THEN();
    asc_mul(words, words, flag, n);
    ASC_THEN();
    asc_add(t->good, t->good, words, n);
    ASC_THEN();
    asc_int322int64(t->index, t->good, n);
    ASC_THEN();
}

/* The first of n that is wrong, or n. */
static inline __aicore__ int64_t indices_first(const __ubuf__ float *wrong, int64_t n)
{
    int64_t i = 0;
    while (i < n && wrong[i] == 0.0f)
        i++;
    return i;
}

ASC_KERNEL indices_look_i64(ASC_PARAMS(INDICES_LOOK))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ int64_t *fault = ASC_UB(int64_t, fault_at, 0);
    __ubuf__ float *sum = ASC_SCRATCH(sum);
    const indices_tile t = {ASC_UB(int64_t, index_at, 0),
                            ASC_UB(int32_t, low_at, 0),
                            ASC_UB(int32_t, high_at, 0),
                            ASC_UB(int32_t, good_at, 0),
                            ASC_UB(int32_t, other_at, 0),
                            ASC_UB(int32_t, table_at, 0),
                            ASC_SCRATCH(wrong)};
    asc_modes_set();
    asc_dcci_entire_all(); /* the scalar unit reads where the indices end */
    const int64_t meant = end ? end[0] : columns;
    int found = indices_found(faults, fault);
    const int before = found;
    moe_steps(t.table, 8, 0, tile_columns);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t n = tile.columns, looked_at = asc_min_of(n, meant - tile.column);
        asc_copy_gm2ub_align((__ubuf__ uint32_t *)t.index, (__gm__ uint32_t *)(from + tile.column),
                             (uint32_t)n * 8);
        asc_sync();
        indices_replace(&t, least, most, instead, (uint32_t)n);
        asc_sum_rows(sum, t.wrong, 1, asc_round_up(n, ASC_LANES), n, (__ubuf__ float *)t.good,
                     (__ubuf__ float *)t.other);
        asc_sync();
        asc_copy_ub2gm_align((__gm__ uint32_t *)(to + tile.column), (__ubuf__ uint32_t *)t.index,
                             (uint32_t)n * 8);
        if (!found && sum[0] != 0.0f) {
            const int64_t i = indices_first(t.wrong, looked_at);
            found = i < looked_at;
            if (found)
                indices_write(fault, ticket, what, tile.column + i,
                              (int64_t)((uint64_t)t.high[i] << 32 | (uint32_t)t.low[i]), least,
                              most);
        }
        asc_sync();
    }
    if (found && !before)
        indices_leave(faults, fault);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_modes_clear();
}

ASC_KERNEL indices_rise_i64(ASC_PARAMS(INDICES_RISE))
{
    __ubuf__ int64_t *fault = ASC_UB(int64_t, fault_at, 0), *index = ASC_UB(int64_t, index_at, 0);
    int64_t least = 0;
    (void)rows;
    (void)tile_rows;
    (void)tile_columns;
    asc_modes_set();
    int found = indices_found(faults, fault);
    const int before = found;
    for (int64_t at = 0; at < columns; at += INDICES_BOUNDARIES) {
        const int64_t n = asc_min_of(INDICES_BOUNDARIES, columns - at);
        asc_copy_gm2ub_align((__ubuf__ uint32_t *)index, (__gm__ uint32_t *)(from + at),
                             (uint32_t)n * 8);
        asc_sync();
        for (int64_t i = 0; i < n; i++) {
            const int64_t value = index[i], highest = at + i == 0 ? 0 : most;
            const int64_t good = value < least ? least : asc_min_of(value, highest);
            if (good != value && !found)
                indices_write(fault, ticket, what, at + i, value, least, highest);
            found |= good != value;
            index[i] = least = good;
        }
        asc_sync();
        asc_copy_ub2gm_align((__gm__ uint32_t *)(to + at), (__ubuf__ uint32_t *)index,
                             (uint32_t)n * 8);
        asc_sync();
    }
    if (found && !before)
        indices_leave(faults, fault);
    asc_modes_clear();
}
