/* attn_res_forward.asc.h - the forward kernels of one type; see asc_each_type.h. */

/* n columns of y leave from the sum. */
static inline __aicore__ void ASC_NAME(attn_res_result)(__gm__ ASC_T *y, __ubuf__ float *sum,
                                                        int64_t y_at, int64_t n, int out)
{
    const int64_t bytes = n * (int64_t)sizeof(ASC_T);
    ASC_MAY_WRITE(out);
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, y_at, out), sum, (uint32_t)n);
#else
    asc_add_scalar(ASC_UB(float, y_at, out), sum, 0.0f, (uint32_t)n);
#endif
    ASC_THEN();
    ASC_HAS_WRITTEN(out);
    asc_copy_rows_out(y, asc_place(y_at, out), 1, bytes, bytes, bytes);
    ASC_HAS_LEFT(out);
}

/* What forward kernels begin with: cleared buffers, the key of whole rows. */
#define ATTN_RES_FORWARD_BEGIN(copies)                                              \
    do {                                                                            \
        const int64_t widest_ = asc_round_up(tile_columns, ASC_LANES);              \
        asc_clear_begin();                                                          \
        asc_clear_copies(v_at, copies, tile_rows *widest_ *(int64_t)sizeof(ASC_T)); \
        asc_clear_copies(key_at, 1, widest_ * 4);                                   \
        asc_duplicate(ASC_SCRATCH(part), 0.0f, (uint32_t)(tile_rows * 8));          \
        asc_duplicate(m.score, 0.0f, (uint32_t)attn_res_room(depth));               \
        asc_duplicate(ASC_SCRATCH(value), 0.0f, 8);                                 \
        asc_sync();                                                                 \
        if (tile_columns >= columns)                                                \
            attn_res_row_in(asc_place(key_at, 0), vectors, columns);                \
        asc_sync();                                                                 \
    } while (0)
#define ATTN_RES_FORWARD_NUMBERS                                                            \
    attn_res_numbers_at(ATTN_RES_NUMBERS_AT, depth, ASC_SCRATCH(lanes), ASC_SCRATCH(value), \
                        ASC_SCRATCH(block))

ASC_KERNEL ASC_NAME(attn_res_forward)(ASC_PARAMS(ATTN_RES_FORWARD))
{
    const asc_share share = asc_share_of(tokens);
    const attn_res_numbers m = ATTN_RES_FORWARD_NUMBERS;
    const attn_res_scratch scratch = ATTN_RES_SUM_SCRATCH;
    __ubuf__ float *sum = ASC_SCRATCH(sum), *v32 = ATTN_RES_V32;
    int slot = 0, out = 0;
    ATTN_RES_FORWARD_BEGIN(2);
    asc_pipeline_begin();
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* rstd and alpha have left */
    for (int64_t t = share.begin; t < share.end; t++) {
        attn_res_begin(m, depth);
        for (int64_t c = 0; c < columns; c += tile_columns) {
            if (tile_columns < columns) {
                asc_sync();
                attn_res_row_in(asc_place(key_at, 0), vectors + c,
                                asc_min_of(tile_columns, columns - c));
                asc_sync();
            }
            for (int64_t l = 0; l < depth; l += tile_rows, slot ^= 1) {
                const attn_res_tile a =
                    attn_res_tile_at(l, depth, tile_rows, c, columns, tile_columns);
                __ubuf__ float *x =
                    ASC_NAME(attn_res_rows)(v, v_stride, tokens, t, a, v_at, v32, slot);
                attn_res_products(m, a, x, ASC_SCRATCH(key), scratch);
                ASC_HAS_READ(slot);
            }
        }
        attn_res_weigh(m, depth, asc_f32(mean), asc_f32(eps), alpha ? alpha + t * depth : 0,
                       rstd ? rstd + t * depth : 0);
        for (int64_t c = 0; c < columns; c += tile_columns, out ^= 1) {
            const int64_t n = asc_min_of(tile_columns, columns - c);
            asc_duplicate(sum, 0.0f, (uint32_t)asc_round_up(n, ASC_LANES));
            ASC_THEN();
            for (int64_t l = 0; l < depth; l += tile_rows, slot ^= 1) {
                const attn_res_tile a =
                    attn_res_tile_at(l, depth, tile_rows, c, columns, tile_columns);
                attn_res_add_rows(
                    sum, a, ASC_NAME(attn_res_rows)(v, v_stride, tokens, t, a, v_at, v32, slot),
                    m.squares);
                ASC_HAS_READ(slot);
            }
            ASC_NAME(attn_res_result)(y + t * y_stride + c, sum, y_at, n, out);
        }
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_pipeline_end();
}

/* Tiles are copied in as far ahead as there are slots: number `at` of all the block's tiles, of
 * which a token has `tiles`. */
static inline __aicore__ int64_t ASC_NAME(attn_res_fill)(__gm__ ASC_T *v, int64_t v_stride,
                                                         int64_t tokens, asc_share share,
                                                         int64_t tiles, int64_t depth,
                                                         int64_t tile_rows, int64_t columns,
                                                         int64_t v_at, int64_t at, int64_t loaded)
{
    const int64_t all = (share.end - share.begin) * tiles;
    for (const int64_t end = asc_min_of(at + ATTN_RES_SLOTS, all); loaded < end; loaded++) {
        const int slot = (int)(loaded % ATTN_RES_SLOTS);
        const attn_res_tile a =
            attn_res_tile_at(loaded % tiles * tile_rows, depth, tile_rows, 0, columns, columns);
        if (loaded >= ATTN_RES_SLOTS)
            ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE2, slot);
        ASC_NAME(attn_res_tile_in)
        (v, v_stride, tokens, share.begin + loaded / tiles, a, asc_place(v_at, slot));
        ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_V, slot);
    }
    return loaded;
}

/* Of tiles of one row, the first one of a token goes to its sum: its slot is free at once. */
static inline __aicore__ __ubuf__ float *ASC_NAME(attn_res_kept)(attn_res_tile t, uint64_t at,
                                                                 __ubuf__ float *v32,
                                                                 __ubuf__ float *sum, int slot)
{
    if (!sum)
        return ASC_NAME(attn_res_wide)(t, at, v32);
#if ASC_16BIT
    ASC_WIDEN(sum, (__ubuf__ ASC_T *)at, (uint32_t)t.pitch);
#else
    asc_add_scalar(sum, (__ubuf__ float *)at, 0.0f, (uint32_t)t.pitch);
#endif
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, slot);
    return sum;
}

/* The sums of a token's rows, whose first tile is number `at` of the block's. Returns how many
 * tiles have been copied in. */
static inline __aicore__ int64_t ASC_NAME(attn_res_kept_dots)(attn_res_numbers m, asc_share share,
                                                              int64_t at, int64_t loaded,
                                                              ASC_PARAMS(ATTN_RES_FORWARD_KEPT))
{
    const int64_t tiles = (depth + tile_rows - 1) / tile_rows;
    const attn_res_scratch scratch = ATTN_RES_SUM_SCRATCH;
    const attn_res_scratch beside = {ASC_SCRATCH(q), 0, ASC_SCRATCH(q_eighth), ASC_SCRATCH(q_rest)};
    __ubuf__ float *x = 0, *v32 = ATTN_RES_V32;
    attn_res_tile a = {0};
    attn_res_folds last = {0};
    for (int64_t i = 0; i <= tiles; i++) { /* products of tile i - 1, and tile i as f32 */
        attn_res_folds now = {0};
        if (i > 0) {
            now = attn_res_multiply(m, a, x, ASC_SCRATCH(key), scratch, beside);
            attn_res_fold_beside(&last);
            ASC_THEN();
            attn_res_fold(&now);
        }
        if (i < tiles) {
            const int slot = (int)((at + i) % ATTN_RES_SLOTS);
            loaded = ASC_NAME(attn_res_fill)(v, v_stride, tokens, share, tiles, depth, tile_rows,
                                             columns, v_at, at + i, loaded);
            ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, slot);
            a = attn_res_tile_at(i * tile_rows, depth, tile_rows, 0, columns, columns);
            x = ASC_NAME(attn_res_kept)(a, asc_place(v_at, slot), v32,
                                        i == 0 && tile_rows == 1 ? ASC_SCRATCH(sum) : 0, slot);
        }
        if (last.width)
            attn_res_fold(&last);
        ASC_THEN();
        last = now;
    }
    while (last.width) {
        attn_res_fold(&last);
        ASC_THEN();
    }
    return loaded;
}

/* The token's rows by their weights, spread, in sum, where the first row may be already. */
static inline __aicore__ void ASC_NAME(attn_res_kept_sum)(__ubuf__ float *spread, int64_t at,
                                                          ASC_PARAMS(ATTN_RES_FORWARD_KEPT))
{
    const int64_t tiles = (depth + tile_rows - 1) / tile_rows, first = tile_rows == 1;
    const int64_t pitch = asc_round_up(columns, ASC_LANES);
    __ubuf__ float *sum = ASC_SCRATCH(sum), *p = ASC_SCRATCH(p), *v32 = ATTN_RES_V32, *x = 0;
    attn_res_tile a = {0};
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    if (first)
        asc_mul(sum, sum, spread, (uint8_t)(pitch / ASC_LANES), 1, 1, 0, 8, 8, 0);
    else
        asc_duplicate(sum, 0.0f, (uint32_t)pitch);
    for (int64_t i = first; i <= tiles; i++) { /* rows of tile i - 1, and tile i as f32 */
        const attn_res_tile before = a;
        __ubuf__ float *const rows = x;
        if (i < tiles) {
            a = attn_res_tile_at(i * tile_rows, depth, tile_rows, 0, columns, columns);
            x = ASC_NAME(attn_res_wide)(a, asc_place(v_at, (int)((at + i) % ATTN_RES_SLOTS)),
                                        i % 2 ? p : v32);
        }
        if (i > first) {
            attn_res_add_rows(sum, before, rows, spread);
            ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, (int)((at + i - 1) % ATTN_RES_SLOTS));
        } else {
            ASC_THEN();
        }
    }
}

ASC_KERNEL ASC_NAME(attn_res_forward_kept)(ASC_PARAMS(ATTN_RES_FORWARD_KEPT))
{
    const asc_share share = asc_share_of(tokens);
    const int64_t tiles = (depth + tile_rows - 1) / tile_rows;
    const attn_res_numbers m = ATTN_RES_FORWARD_NUMBERS;
    int64_t loaded = 0, at = 0;
    int out = 0;
    ATTN_RES_FORWARD_BEGIN(ATTN_RES_SLOTS);
    asc_modes_set();
    ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_V);
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* rstd and alpha have left */
    for (int64_t t = share.begin; t < share.end; t++, out ^= 1, at += tiles) {
        attn_res_begin(m, depth);
        loaded =
            ASC_NAME(attn_res_kept_dots)(m, share, at, loaded, ASC_NAMES(ATTN_RES_FORWARD_KEPT));
        attn_res_weigh(m, depth, asc_f32(mean), asc_f32(eps), alpha ? alpha + t * depth : 0,
                       rstd ? rstd + t * depth : 0);
        ASC_NAME(attn_res_kept_sum)(m.squares, at, ASC_NAMES(ATTN_RES_FORWARD_KEPT));
        ASC_NAME(attn_res_result)(y + t * y_stride, ASC_SCRATCH(sum), y_at, columns, out);
    }
    for (int64_t i = at > ATTN_RES_SLOTS ? at - ATTN_RES_SLOTS : 0; i < at; i++)
        ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE2, (int)(i % ATTN_RES_SLOTS));
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_V);
    asc_modes_clear();
}

#undef ATTN_RES_FORWARD_BEGIN
#undef ATTN_RES_FORWARD_NUMBERS
