/* moe_router_forward.asc.h - the forward kernel of one type; see asc_each_type.h. */

/* What is copied in of a tile of forward: each group of experts to its positions. */
static inline __aicore__ void ASC_NAME(router_in)(const router *r, int64_t row, int64_t rows,
                                                  int side, ASC_PARAMS(ROUTER_FORWARD))
{
    const int64_t size = sizeof(ASC_T);
    router_may_fill(side);
    for (int64_t g = 0; g < r->groups; g++)
        asc_copy_rows_in(asc_place(logits_at, side) + (uint64_t)(g * r->room * size),
                         logits + row * logits_stride + g * r->each, rows, r->each * size,
                         logits_stride * size, r->pitch * size);
    router_has_filled(marked_at, marked ? marked + row : 0, rows, side);
}

/* And what is copied out. */
static inline __aicore__ void ASC_NAME(router_out)(const router *r, int64_t row, int64_t rows,
                                                   ASC_PARAMS(ROUTER_FORWARD))
{
    const int64_t slots = rows * top_k, at = row * top_k;
    const int64_t size = weights_f32 ? 4 : (int64_t)sizeof(ASC_T);
    asc_copy_ub2gm_align((__gm__ uint32_t *)(index + at), (__ubuf__ uint32_t *)r->index,
                         (uint32_t)slots * 8);
    asc_copy_ub2gm_align((__gm__ uint16_t *)((__gm__ char *)weights + at * size),
                         (__ubuf__ uint16_t *)(size == 4 ? r->weight_rows : r->weight),
                         (uint32_t)(slots * size));
    if (lse)
        asc_copy_ub2gm_align(lse + row, r->lse, (uint32_t)rows * 4);
    if (counted)
        asc_copy_ub2gm_align((__gm__ uint32_t *)(counted + at), (__ubuf__ uint32_t *)r->counted,
                             (uint32_t)slots * 8);
}

static inline __aicore__ void ASC_NAME(router_tile)(const router *r, int64_t rows, int side,
                                                    ASC_PARAMS(ROUTER_FORWARD))
{
    const int64_t n = rows * r->pitch;
    uint64_t left_out = 0;
    ASC_WAIT(PIPE_MTE2, PIPE_V, side);
#if ASC_16BIT
    ASC_WIDEN(r->x, ASC_UB(ASC_T, logits_at, side), (uint32_t)n);
    ASC_THEN();
    ASC_HAS_READ(side);
    ASC_BY_COLUMN(asc_add, r->x, r->x, r->pads, rows, r->pitch);
    ASC_THEN();
#else
    ASC_BY_COLUMN(asc_add, r->x, ASC_UB(float, logits_at, side), r->pads, rows, r->pitch);
    ASC_THEN();
    ASC_HAS_READ(side);
#endif
    ASC_WAIT(PIPE_MTE2, PIPE_S, side);
    if (partials)
        left_out = router_left_out(marked ? ASC_UB(int64_t, marked_at, side) : 0, rows);
    ASC_NOTIFY(PIPE_S, PIPE_MTE2, side);
    ASC_MAY_WRITE(0); /* what is copied out has left */
    if (wants & ROUTER_PROBABILITIES)
        router_probabilities(r, rows);
    if (partials)
        router_add_tokens(r, rows, left_out);
    if (wants & ROUTER_SIGMOID)
        router_sigmoid(r->s, r->x, -1.0f, r->ones, n);
    router_choose(r, rows);
    router_weigh(r, asc_f32(scale));
    router_to_rows(r, rows, left_out, counted != 0);
#if ASC_16BIT
    if (!weights_f32) {
        ASC_NARROW((__ubuf__ ASC_T *)r->weight, r->weight_rows, (uint32_t)(rows * top_k));
        ASC_THEN();
    }
#endif
    ASC_HAS_WRITTEN(0);
}

/* The buffers, by name. */
static inline __aicore__ router ASC_NAME(router_of)(ASC_PARAMS(ROUTER_FORWARD))
{
    const int64_t pitch = asc_round_up(positions, ASC_LANES);
    const int deep = top_k > ROUTER_USUAL;
    const int64_t line = (deep ? ROUTER_MANY : ROUTER_USUAL) * ASC_LANES;
    const int64_t group = asc_round_up(tile_rows, 2) * ROUTER_GROUPS;
    __ubuf__ float *columns = ASC_SCRATCH(columns), *numbers = ASC_SCRATCH(numbers);
    __ubuf__ float *lines = deep ? ASC_SCRATCH(lines_deep) : ASC_SCRATCH(lines);
    __ubuf__ float *of_groups = kept < groups ? ASC_SCRATCH(of_groups) : 0;
    router r;
    r.experts = experts;
    r.groups = groups;
    r.each = experts / groups;
    r.room = positions / groups;
    r.pitch = pitch;
    r.kept = kept;
    r.top_k = top_k;
    r.most = asc_round_up(top_k, 4);
    r.tile_rows = tile_rows;
    r.wants = wants;
    r.x = ASC_SCRATCH(x);
    r.s = ASC_SCRATCH(s);
    r.key = ASC_SCRATCH(key);
    r.first.at = ASC_SCRATCH(first);
    r.first.row = pitch;
    r.second.at = deep ? ASC_SCRATCH(second_deep) : ASC_SCRATCH(second);
    r.second.row = deep ? pitch : pitch / 4;
    r.pads = columns;
    r.caps = columns + pitch;
    r.bias = bias ? columns + 2 * pitch : 0;
    r.probs = columns + 3 * pitch;
    r.four = (__ubuf__ int32_t *)(columns + 4 * pitch);
    r.expert = (__ubuf__ int32_t *)(columns + 5 * pitch);
    r.folds = ASC_SCRATCH(folds);
    r.block = ASC_SCRATCH(block);
    r.ones = numbers;
    r.max = numbers + ASC_LANES;
    r.sum = numbers + 2 * ASC_LANES;
    r.lse = numbers + 3 * ASC_LANES;
    r.squares = numbers + 4 * ASC_LANES;
    r.kept_tokens = numbers + 5 * ASC_LANES;
    r.square = numbers + 6 * ASC_LANES;
    r.one = numbers + 7 * ASC_LANES;
    r.group_caps = numbers + 8 * ASC_LANES;
    r.bits = (__ubuf__ int32_t *)(numbers + 9 * ASC_LANES);
    r.row_at = (__ubuf__ int32_t *)(numbers + 10 * ASC_LANES);
    r.keeps = (__ubuf__ int32_t *)(numbers + 11 * ASC_LANES);
    r.from_records = (__ubuf__ int32_t *)lines;
    r.to_rows = (__ubuf__ int32_t *)(lines + line);
    r.position = (__ubuf__ int32_t *)(lines + 2 * line);
    r.offset = (__ubuf__ int32_t *)(lines + 3 * line);
    r.weight = lines + 4 * line;
    r.value = lines + 5 * line;
    r.line = (__ubuf__ int32_t *)(lines + 6 * line);
    r.rows = (__ubuf__ int32_t *)(lines + 7 * line);
    r.index = (__ubuf__ int64_t *)(lines + 8 * line);
    r.weight_rows = lines + 10 * line;
    r.counted = (__ubuf__ int64_t *)(lines + 12 * line);
    r.group_at = (__ubuf__ int32_t *)of_groups;
    r.group_row = (__ubuf__ int32_t *)(of_groups + group);
    r.group_number = (__ubuf__ int32_t *)(of_groups + 2 * group);
    r.group_key = of_groups + 3 * group;
    r.group_a = of_groups + 4 * group;
    r.group_b = of_groups + 5 * group;
    r.group_records = of_groups + 6 * group;
    return r;
}

/* Buffers that instructions read beyond what has been written there, and the tables. */
static inline __aicore__ void ASC_NAME(router_start)(const router *r, ASC_PARAMS(ROUTER_FORWARD))
{
    const int64_t elements = tile_rows * r->pitch;
    asc_clear_begin();
    asc_clear(logits_at, elements * (int64_t)sizeof(ASC_T));
    asc_duplicate(r->x, 0.0f, (uint32_t)elements);
    asc_duplicate(r->s, 0.0f, (uint32_t)elements);
    asc_duplicate(r->first.at, 0.0f, (uint32_t)(tile_rows * r->first.row * 2));
    asc_duplicate(r->second.at, 0.0f, (uint32_t)(tile_rows * r->second.row * 2));
    asc_duplicate(ASC_SCRATCH(numbers), 1.0f, 12 * ASC_LANES);
    asc_sync();
    router_begin(r, bias);
    if (router_limits(r)) {
        router_lists l;
        int turned = 0;
        router_begin_lists(r, &l);
        for (; l.count > 1; turned ^= 1)
            l = router_merged(&l, r->most);
        router_begin_groups(r, turned ? r->second : r->first, l.span);
    }
}

ASC_KERNEL ASC_NAME(moe_router_forward)(ASC_PARAMS(ROUTER_FORWARD))
{
    const router r = ASC_NAME(router_of)(ASC_NAMES(ROUTER_FORWARD));
    ASC_NAME(router_start)(&r, ASC_NAMES(ROUTER_FORWARD));
#define ROUTER_BRING(row, rows, side) \
    ASC_NAME(router_in)(&r, row, rows, side, ASC_NAMES(ROUTER_FORWARD))
#define ROUTER_WORK(row, rows, side)                                      \
    do {                                                                  \
        ASC_NAME(router_tile)(&r, rows, side, ASC_NAMES(ROUTER_FORWARD)); \
        ASC_NAME(router_out)(&r, row, rows, ASC_NAMES(ROUTER_FORWARD));   \
        ASC_HAS_LEFT(0);                                                  \
    } while (0)
    ROUTER_TILES(tokens, tile_rows, ROUTER_BRING, ROUTER_WORK);
#undef ROUTER_BRING
#undef ROUTER_WORK
    if (partials) {
        __gm__ float *to = partials + asc_get_block_idx() * partials_stride;
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        asc_copy_ub2gm_align(to, r.probs, (uint32_t)r.pitch * 4);
        asc_copy_ub2gm_align(to + r.pitch, r.squares, 2 * ASC_LANES * 4);
    }
}
