/* moe_router_forward.h - a tile of tokens: scores, keys, the chosen experts and their weights. */
#ifndef MOE_ROUTER_FORWARD_H
#define MOE_ROUTER_FORWARD_H

#include "moe_router_lists.h"

/* Levels until the last list: whether it is in `second`. */
static inline __aicore__ int router_ends_in_second(const router *r)
{
    int64_t depth = router_depth(r->room / ROUTER_LIST);
    if (router_limits(r))
        depth += 1 + router_depth((r->kept + 3) / 4);
    return (int)(depth & 1);
}

/* Rows and tables that all tiles share. */
static inline __aicore__ void router_begin(const router *r, __gm__ float *bias)
{
    const float infinity = asc_f32(0x7f800000);
    const uint32_t n = (uint32_t)r->pitch;
    const int64_t slots = r->tile_rows * r->top_k;
    const router_records last = router_ends_in_second(r) ? r->second : r->first;
    asc_duplicate(r->pads, -infinity, n);
    asc_duplicate(r->caps, -infinity, n);
    asc_duplicate(r->probs, 0.0f, n);
    if (bias)
        asc_duplicate(r->bias, 0.0f, n);
    asc_duplicate(r->bits, 0x7fffffff, ASC_LANES);
    asc_duplicate(r->squares, 0.0f, ASC_LANES);
    asc_duplicate(r->kept_tokens, 0.0f, ASC_LANES);
    asc_sync();
    for (int64_t g = 0; g < r->groups; g++) {
        asc_duplicate(r->pads + g * r->room, 0.0f, (uint32_t)r->each);
        asc_duplicate(r->caps + g * r->room, infinity, (uint32_t)r->each);
        if (bias)
            asc_copy_rows_in((uint64_t)(r->bias + g * r->room), bias + g * r->each, 1, r->each * 4,
                             0, r->each * 4);
    }
    asc_sync();
    if (bias)
        asc_add(r->bias, r->bias, r->pads, n);
    moe_steps(r->four, 4, 0, r->pitch);
    router_lines_table(r->row_at, r->pitch * 4, 0, 0, 1, r->tile_rows);
    router_lines_table(r->from_records, last.row * 8, 8, 4, r->top_k, r->tile_rows);
    asc_sync();
    asc_short_turns(r->to_rows, r->weight, (uint32_t)asc_round_up(slots, 8), r->top_k,
                    ASC_LANES * 4, ASC_LANES * 4 * r->top_k - 4);
    asc_sync();
    asc_short_turns(r->expert, r->key, n, r->room, 1, r->room - r->each);
    asc_sync();
}

/* Tables of groups, whose lists are in records of `in`, a set `span` records. */
static inline __aicore__ void router_begin_groups(const router *r, router_records in, int64_t span)
{
    const float infinity = asc_f32(0x7f800000);
    const uint32_t n = ROUTER_GROUPS;
    moe_steps(r->group_at, span * 8, 0, n);
    asc_min_scalar(r->group_at, r->group_at, (int32_t)((r->groups - 1) * span * 8), n);
    moe_steps(r->group_number, 1, 0, n);
    asc_duplicate(r->group_row, 0, n);
    asc_duplicate(r->group_caps, -infinity, ASC_LANES);
    ASC_THEN();
    asc_duplicate(r->group_caps, infinity, (uint32_t)r->groups);
    asc_duplicate(r->group_caps + n, infinity, (uint32_t)r->groups);
    const int64_t rows = asc_round_up(r->tile_rows, 2);
    for (int64_t i = rows - 1; i > 0; i--) { /* a lane behind the last token: as of the last */
        const int64_t row = asc_min_of(i, r->tile_rows - 1);
        asc_add_scalar(r->group_at + i * n, r->group_at, (int32_t)(row * in.row * 8), n);
        asc_add_scalar(r->group_row + i * n, r->group_row, (int32_t)(row * r->pitch * 4), n);
        asc_add_scalar(r->group_number + i * n, r->group_number, 0, n);
    }
    asc_sync();
}

/* s = the softmax of rows; lse. Ends with ASC_THEN(). */
static inline __aicore__ void router_probabilities(const router *r, int64_t rows)
{
    const int64_t pitch = r->pitch;
    ROUTER_FOLD(asc_max, asc_repeat_reduce_max_only_value, r->max, r->x, r->folds, rows, pitch);
    ROUTER_BY_ROW(asc_sub, r->s, r->x, r->max, r->block, rows, pitch);
    asc_exp(r->s, r->s, (uint32_t)(rows * pitch));
    ASC_THEN();
    ROUTER_FOLD(asc_add, asc_repeat_reduce_sum, r->sum, r->s, r->folds, rows, pitch);
    asc_log(r->lse, r->sum, (uint32_t)rows);
    ROUTER_BY_ROW(asc_div, r->s, r->s, r->sum, r->block, rows, pitch);
    asc_add(r->lse, r->lse, r->max, (uint32_t)rows);
    ASC_THEN();
}

/* Adds the tokens that are not left out to the sums; ends with ASC_THEN(). */
static inline __aicore__ void router_add_tokens(const router *r, int64_t rows, uint64_t left_out)
{
    const int64_t pitch = r->pitch;
    __ubuf__ float *p = r->s;
    asc_mul(r->square, r->lse, r->lse, ASC_LANES);
    asc_duplicate(r->one, 1.0f, ASC_LANES);
    if (rows < ROUTER_TOKENS ? left_out != ~(uint64_t)0 << rows : left_out) {
        p = r->key;
        asc_add_scalar(p, r->s, 0.0f, (uint32_t)(rows * pitch));
    }
    ASC_THEN();
    for (int64_t i = 0; p == r->key && i < rows; i++)
        if (left_out >> i & 1)
            asc_duplicate(p + i * pitch, 0.0f, (uint32_t)pitch);
    if (left_out) {
        asc_set_vector_mask(0, left_out);
        asc_duplicate(r->square, 0.0f, 1, 1, 8);
        asc_duplicate(r->one, 0.0f, 1, 1, 8);
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    }
    ASC_THEN();
    asc_add_rows(r->probs, p, rows, pitch);
    asc_add(r->squares, r->squares, r->square, ASC_LANES);
    asc_add(r->kept_tokens, r->kept_tokens, r->one, ASC_LANES);
    ASC_THEN();
}

/* Lists of records by falling keys. Ends with ASC_THEN(). */
static inline __aicore__ void router_sort(const router *r, int64_t rows)
{
    const int64_t n = rows * r->pitch;
    __ubuf__ int32_t *scratch = (__ubuf__ int32_t *)r->first.at;
    if (r->bias) {
        ASC_BY_COLUMN(asc_add, r->key, r->s, r->bias, rows, r->pitch);
        ASC_THEN();
    }
    router_keys(r->key, r->bias ? r->key : r->x, r->bits, scratch, n);
    if (router_limits(r)) { /* -inf is an expert's key, but comes before what is no expert */
        asc_max_scalar(r->key, r->key, ASC_LOWEST, (uint32_t)n);
        ASC_THEN();
        ASC_BY_COLUMN(asc_min, r->key, r->key, r->caps, rows, r->pitch);
        ASC_THEN();
    }
    for (int64_t i = 0; i < rows; i++)
        asc_bitsort(r->first.at + 2 * i * r->first.row, r->key + i * r->pitch,
                    (__ubuf__ uint32_t *)r->four, (int32_t)(r->groups * r->room / ROUTER_LIST));
    ASC_THEN();
}

/* Records of the chosen experts, where the tables of lines look for them. */
static inline __aicore__ void router_choose(const router *r, int64_t rows)
{
    router_lists l;
    int turned = 0;
    router_begin_lists(r, &l);
    router_sort(r, rows);
    router_levels(&l, r->first, r->second, r->most, rows, &turned);
    if (router_limits(r)) {
        const router_records from = turned ? r->second : r->first;
        router_sort_groups(r, from, rows);
        router_merge_groups(r, &l, from, turned ? r->first : r->second, rows);
        turned ^= 1;
        router_levels(&l, r->first, r->second, r->most, rows, &turned);
    }
}

/* Lines of positions, and weights of those experts. Ends with ASC_THEN(). */
static inline __aicore__ void router_weigh(const router *r, float scale)
{
    const router_records last = router_ends_in_second(r) ? r->second : r->first;
    const int64_t k = r->top_k;
    const uint32_t n = (uint32_t)(k * ASC_LANES);
    const int sigmoid = (r->wants & ROUTER_SIGMOID) != 0;
    const int again = (r->wants & ROUTER_RENORMALISE) != 0;
    asc_gather(r->position, (__ubuf__ int32_t *)last.at, (__ubuf__ uint32_t *)r->from_records, n);
    ASC_THEN();
    ROUTER_BY_TOKEN(asc_add, r->offset, r->position, r->row_at, k);
    ASC_THEN();
    asc_gather(r->weight, again && !sigmoid ? r->x : r->s, (__ubuf__ uint32_t *)r->offset, n);
    ASC_THEN();
    if (again && !sigmoid) {
        router_softmax(r->weight, r->value, k);
    } else if (again) {
        ROUTER_DOWN(asc_add, r->value, r->weight, k);
        asc_add_scalar(r->value, r->value, 1e-20f, ASC_LANES);
        ASC_THEN();
        ROUTER_BY_TOKEN(asc_div, r->weight, r->weight, r->value, k);
        ASC_THEN();
    }
    asc_mul_scalar(r->weight, r->weight, scale, n);
    if (r->each == r->room || r->groups == 1)
        asc_shiftright(r->line, r->position, 2, n);
    else
        asc_gather(r->line, r->expert, (__ubuf__ uint32_t *)r->position, n);
    ASC_THEN();
}

/* What is copied out, in rows. Ends with ASC_THEN(). */
static inline __aicore__ void router_to_rows(const router *r, int64_t rows, uint64_t left_out,
                                             int counts)
{
    const uint32_t slots = (uint32_t)(rows * r->top_k), n = (uint32_t)(r->top_k * ASC_LANES);
    asc_gather(r->weight_rows, r->weight, (__ubuf__ uint32_t *)r->to_rows, slots);
    asc_gather(r->rows, r->line, (__ubuf__ uint32_t *)r->to_rows, slots);
    ASC_THEN();
    asc_int322int64(r->index, r->rows, slots);
    ASC_THEN();
    if (!counts)
        return;
    asc_duplicate(r->keeps, 1, ASC_LANES);
    asc_add_scalar(r->line, r->line, -(int32_t)r->experts, n);
    ASC_THEN();
    if (left_out) {
        asc_set_vector_mask(0, left_out);
        asc_duplicate(r->keeps, 0, 1, 1, 8);
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        ASC_THEN();
    }
    ROUTER_BY_TOKEN(asc_mul, r->line, r->line, r->keeps, r->top_k);
    ASC_THEN();
    asc_add_scalar(r->line, r->line, (int32_t)r->experts, n);
    ASC_THEN();
    asc_gather(r->rows, r->line, (__ubuf__ uint32_t *)r->to_rows, slots);
    ASC_THEN();
    asc_int322int64(r->counted, r->rows, slots);
    ASC_THEN();
}

#endif
