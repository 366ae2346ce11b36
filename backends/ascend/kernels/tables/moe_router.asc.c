/* moe_router.asc.c - the experts of each token, their weights, sums over tokens, and gradients.
 *
 * Forward: rows of logits become keys, which are sorted in lists of 32; lists of a token are merged,
 * as much of each as can be chosen, until one is left. Records have a key and the position of
 * the expert. With groups, the best ones of each are looked at, groups are sorted by them, and
 * the lists of those that are kept alone are merged. Chosen experts then stand in lines, an
 * expert of each of 64 tokens, where weights are made. Experts are counted by other launches
 * (moe_route.asc.c).
 *
 * Backward: what each chosen expert adds to its token's row is made in lines, and added to the row
 * by an instruction of one lane. */
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
    router_keys(r->group_key, r->group_key, r->bits, a, b, n);
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

/* ---- forward ---- */

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
    router_keys(r->key, r->bias ? r->key : r->x, r->bits, scratch, scratch + n, n);
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

/* ---- results of all blocks ---- */

ASC_KERNEL moe_router_totals_f32(ASC_PARAMS(ROUTER_TOTALS))
{
    const int64_t positions = width - 2 * ASC_LANES, each = experts / groups;
    const int64_t room = groups > 1 ? asc_round_up(each, ROUTER_LIST) : each;
    const uint32_t n = (uint32_t)experts;
    __ubuf__ float *sum = ASC_SCRATCH(sum), *p = ASC_SCRATCH(probs), *lanes = ASC_SCRATCH(lanes),
                   *c = ASC_SCRATCH(scratch), *part = ASC_SCRATCH(part);
    __ubuf__ int32_t *count = ASC_UB(int32_t, count_at, 0);
    asc_modes_set();
    asc_duplicate(sum, 0.0f, (uint32_t)width);
    asc_duplicate(lanes, 0.0f, 2 * ASC_LANES);
    if (totals)
        asc_copy_gm2ub_align(count, totals, n * 4);
    asc_sync();
    for (int64_t b = 0; b < blocks; b += ROUTER_PARTS) {
        const int64_t rows = asc_min_of(ROUTER_PARTS, blocks - b);
        asc_copy_gm2ub_align(part, partials + b * width, (uint32_t)(rows * width * 4));
        asc_sync();
        asc_add_rows(sum, part, rows, width);
        asc_sync();
    }
    asc_short_turns(ASC_UB(int32_t, table_at, 0), c, n, each, 4, (each - room) * 4);
    asc_sync();
    asc_gather(p, sum, ASC_UB(uint32_t, table_at, 0), n);
    asc_repeat_reduce_sum(lanes, sum + positions + ASC_LANES, ASC_LANES);
    asc_repeat_reduce_sum(lanes + 8, sum + positions, ASC_LANES);
    asc_sync();
    const float tokens = lanes[0] > 1.0f ? lanes[0] : 1.0f, by = 1.0f / tokens;
    asc_sync();
    if (probs)
        asc_copy_ub2gm_align(probs, p, n * 4);
    asc_mul_scalar(lanes + 8, lanes + 8, by, 1);
    if (totals) {
        asc_int322int64(ASC_UB(int64_t, counts_at, 0), count, n);
        asc_int322float(c, count, n);
        asc_sync();
        if (counts)
            asc_copy_ub2gm_align((__gm__ uint32_t *)counts, ASC_UB(uint32_t, counts_at, 0), n * 8);
        asc_mul_scalar(c, c, by, n);
        asc_mul_scalar(p, p, by, n);
        ASC_THEN();
        asc_mul(c, c, p, n);
        asc_duplicate(lanes + ASC_LANES, 0.0f, ASC_LANES);
        ASC_THEN();
        ASC_FOLD(asc_add, lanes + ASC_LANES, c, 1, n, n);
        ASC_THEN();
        asc_repeat_reduce_sum(lanes + 16, lanes + ASC_LANES, ASC_LANES);
        ASC_THEN();
        asc_mul_scalar(lanes + 16, lanes + 16, (float)experts, 1);
    }
    asc_sync();
    if (z_loss)
        asc_copy_ub2gm_align(z_loss, lanes + 8, 4);
    if (balance)
        asc_copy_ub2gm_align(balance, lanes + 16, 4);
    asc_sync();
    asc_modes_clear();
}

/* ---- backward ---- */

ASC_KERNEL moe_router_prepare_f32(ASC_PARAMS(ROUTER_PREPARE))
{
    const uint32_t n = (uint32_t)experts;
    __ubuf__ float *factor = ASC_SCRATCH(factor), *c = ASC_SCRATCH(count),
                   *scalars = ASC_SCRATCH(scalars), *lanes = scalars + 16;
    const __ubuf__ int64_t *count = ASC_UB(int64_t, counts_at, 0);
    int64_t slots = 0;
    asc_modes_set();
    asc_duplicate(factor, 0.0f, (uint32_t)width);
    asc_duplicate(scalars, 0.0f, 16);
    asc_sync();
    if (dprobs)
        asc_copy_rows_in((uint64_t)factor, dprobs, 1, experts * 4, 0, experts * 4);
    if (counts)
        asc_copy_gm2ub_align(ASC_UB(uint32_t, counts_at, 0), (__gm__ uint32_t *)counts, n * 8);
    if (dbalance)
        asc_copy_rows_in((uint64_t)scalars, dbalance, 1, 4, 0, 4);
    if (dz_loss)
        asc_copy_rows_in((uint64_t)(scalars + 8), dz_loss, 1, 4, 0, 4);
    asc_sync();
    for (int64_t e = 0; counts && e < experts; e++)
        slots += count[e];
    const float tokens = slots >= top_k ? (float)(slots / top_k) : 1.0f, by = 1.0f / tokens;
    asc_duplicate(lanes, scalars[8], ASC_LANES);
    if (dbalance) {
        asc_int642int32((__ubuf__ int32_t *)c, ASC_UB(int64_t, counts_at, 0), n);
        ASC_THEN();
        asc_int322float(c, (__ubuf__ int32_t *)c, n);
        ASC_THEN();
        asc_mul_scalar(c, c, by, n);
        ASC_THEN();
        asc_mul_scalar(c, c, (float)experts * by, n);
        ASC_THEN();
        asc_mul_scalar(c, c, scalars[0], n);
        ASC_THEN();
        asc_add(factor, factor, c, n);
    }
    ASC_THEN();
    asc_mul_scalar(lanes, lanes, 2.0f * by, ASC_LANES);
    asc_sync();
    asc_copy_ub2gm_align(factors, factor, (uint32_t)width * 4);
    asc_copy_ub2gm_align(factors + width, lanes, ASC_LANES * 4);
    asc_sync();
    asc_modes_clear();
}

/* Of a tile of backward. */
typedef struct router_back {
    int64_t top_k, pitch, wants;
    float scale;
    __ubuf__ float *p, *d, *factor, *folds, *block, *ones, *mean, *value, *lse_factor;
    __ubuf__ int32_t *row_at, *to_lines, *rows, *offset;
    __ubuf__ float *g, *w, *other, *line, *spread;
} router_back;

/* line = what the chosen experts' rows are given; mean: what all their token's experts lose, by
 * their probabilities. Ends with ASC_THEN(). */
static inline __aicore__ void router_contributions(const router_back *b, __ubuf__ float *x)
{
    const int64_t k = b->top_k;
    const uint32_t n = (uint32_t)(k * ASC_LANES);
    const int again = (b->wants & ROUTER_RENORMALISE) != 0;
    const int sigmoid = (b->wants & ROUTER_SIGMOID) != 0;
    asc_gather(b->w, !sigmoid && !again ? b->p : x, (__ubuf__ uint32_t *)b->offset, n);
    ASC_THEN();
    if (sigmoid) { /* line = s (1 - s) */
        router_sigmoid(b->other, b->w, 1.0f, b->ones, k * ASC_LANES);
        router_sigmoid(b->w, b->w, -1.0f, b->ones, k * ASC_LANES);
        asc_mul(b->line, b->w, b->other, n);
        ASC_THEN();
        if (again) { /* value = u, line = s (1 - s) / u, w = s / u */
            ROUTER_DOWN(asc_add, b->value, b->w, k);
            asc_add_scalar(b->value, b->value, 1e-20f, ASC_LANES);
            ASC_THEN();
            ROUTER_BY_TOKEN(asc_div, b->w, b->w, b->value, k);
            ROUTER_BY_TOKEN(asc_div, b->line, b->line, b->value, k);
            ASC_THEN();
        }
    } else if (again) {
        router_softmax(b->w, b->value, k);
    }
    if (!sigmoid) {
        asc_add_scalar(b->line, b->w, 0.0f, n);
        ASC_THEN();
    }
    asc_mul(b->other, b->g, b->w, n);
    ASC_THEN();
    ROUTER_DOWN(asc_add, b->mean, b->other, k);
    if (again) {
        ROUTER_BY_TOKEN(asc_sub, b->g, b->g, b->mean, k);
        ASC_THEN();
    }
    asc_mul(b->line, b->line, b->g, n);
    asc_mul_scalar(b->mean, b->mean, -1.0f, ASC_LANES);
    ASC_THEN();
}

/* d = the gradient that comes from sums over tokens; ends with ASC_THEN(). */
static inline __aicore__ void router_from_sums(const router_back *b, __ubuf__ float *lse,
                                               int64_t rows, uint64_t left_out)
{
    const int64_t pitch = b->pitch;
    ASC_BY_COLUMN(asc_mul, b->d, b->p, b->factor, rows, pitch);
    ASC_THEN();
    ROUTER_FOLD(asc_add, asc_repeat_reduce_sum, b->value, b->d, b->folds, rows, pitch);
    asc_mul(b->other, lse, b->lse_factor, ASC_LANES);
    ASC_THEN();
    asc_sub(b->value, b->other, b->value, ASC_LANES);
    ASC_THEN();
    asc_spread(b->block, b->value, rows);
    ASC_THEN();
    for (int64_t i = 0; i < rows; i++) {
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        asc_fma(b->d + i * pitch, b->p + i * pitch, b->block + i * 8, (uint8_t)(pitch / ASC_LANES),
                1, 1, 0, 8, 8, 0);
    }
    ASC_THEN();
    for (int64_t i = 0; i < rows; i++)
        if (left_out >> i & 1)
            asc_duplicate(b->d + i * pitch, 0.0f, (uint32_t)pitch);
    ASC_THEN();
}

/* d += the lines, each element to the expert of its token. Ends with ASC_THEN(). */
static inline __aicore__ void router_scatter(const router_back *b, const __ubuf__ int64_t *index,
                                             int64_t rows)
{
    for (int64_t k = 0; k < b->top_k; k++) {
        asc_spread(b->spread, b->line + k * ASC_LANES, rows);
        ASC_THEN();
        for (int64_t i = 0; i < rows; i++) {
            const int64_t e = index[i * b->top_k + k];
            __ubuf__ float *at = b->d + i * b->pitch + e / ASC_LANES * ASC_LANES;
            asc_set_vector_mask(0, (uint64_t)1 << e % ASC_LANES);
            asc_add(at, at, b->spread + i * 8, 1, 1, 1, 0, 8, 8, 0);
        }
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        ASC_THEN();
    }
}

#define ASC_TEMPLATE "tables/moe_router.asc.h"
#include "shared/asc_each_type.h"
