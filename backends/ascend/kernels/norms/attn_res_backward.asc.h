/* attn_res_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */

/* What a piece needs of its columns: dy in f32, and of rows in pieces the key. */
static inline __aicore__ void ASC_NAME(attn_res_columns)(__gm__ ASC_T *dy, int64_t dy_at,
                                                         __ubuf__ float *dy32,
                                                         __gm__ float *vectors, int64_t key_at,
                                                         int64_t c, int64_t n, int in_pieces)
{
    if (in_pieces) {
        asc_sync();
        attn_res_row_in(asc_place(key_at, 0), vectors + c, n);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3); /* the last one has been widened */
    asc_copy_rows_in(asc_place(dy_at, 0), dy + c, 1, n * (int64_t)sizeof(ASC_T),
                     n * (int64_t)sizeof(ASC_T), n * (int64_t)sizeof(ASC_T));
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID3);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID3);
#if ASC_16BIT
    ASC_WIDEN(dy32, ASC_UB(ASC_T, dy_at, 0), (uint32_t)n);
#else
    asc_add_scalar(dy32, ASC_UB(float, dy_at, 0), 0.0f, (uint32_t)n);
#endif
    ASC_THEN();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3);
}

/* A tile of dv, which leaves; sum += pull v. scale, pull, back: of the tile's rows on. */
static inline __aicore__ void
ASC_NAME(attn_res_gradients)(attn_res_tile a, __ubuf__ float *x, __ubuf__ float *o,
                             __ubuf__ float *dy32, __ubuf__ float *key, __ubuf__ float *sum,
                             __ubuf__ float *scale, __ubuf__ float *pull, __ubuf__ float *back)
{
    const uint8_t repeats = (uint8_t)(a.pitch / ASC_LANES);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    for (int64_t r = 0; r < a.rows; r++)
        asc_mul(o + r * a.pitch, dy32, scale + r * 8, repeats, 1, 1, 0, 8, 8, 0);
    attn_res_add_row(sum, x, pull, a.pitch);
    ASC_THEN();
    for (int64_t r = 0; r < a.rows; r++)
        attn_res_add_row(o + r * a.pitch, key, pull + r * 8, a.pitch);
    if (a.rows > 1)
        attn_res_add_row(sum, x + a.pitch, pull + 8, a.pitch);
    ASC_THEN();
    for (int64_t r = 0; r < a.rows; r++)
        attn_res_add_row(o + r * a.pitch, x + r * a.pitch, back + r * 8, a.pitch);
    for (int64_t r = 2; r < a.rows; r++) {
        attn_res_add_row(sum, x + r * a.pitch, pull + r * 8, a.pitch);
        ASC_THEN();
    }
    ASC_THEN();
}

/* What backward begins with: cleared buffers, the key of whole rows. */
#define ATTN_RES_BACKWARD_BEGIN                                            \
    do {                                                                   \
        const int64_t widest_ = asc_round_up(tile_columns, ASC_LANES);     \
        asc_clear_begin();                                                 \
        asc_clear(v_at, tile_rows *widest_ *(int64_t)sizeof(ASC_T));       \
        asc_clear_copies(key_at, 1, widest_ * 4);                          \
        asc_clear_copies(dy32_at, 1, widest_ * 4);                         \
        asc_clear_copies(sum_at, 1, widest_ * 4);                          \
        asc_duplicate(ASC_SCRATCH(part), 0.0f, (uint32_t)(tile_rows * 8)); \
        asc_duplicate(m.alpha, 0.0f, (uint32_t)attn_res_room(depth));      \
        asc_duplicate(m.da, 0.0f, (uint32_t)attn_res_room(depth));         \
        asc_duplicate(m.b, 0.0f, (uint32_t)attn_res_room(depth));          \
        asc_duplicate(ASC_SCRATCH(value), 0.0f, 8);                        \
        asc_sync();                                                        \
        if (tile_columns >= columns)                                       \
            attn_res_row_in(asc_place(key_at, 0), vectors, columns);       \
        asc_sync();                                                        \
    } while (0)

/* The sums of a token's rows: of v and dy, of v and the key. Returns the next slot. */
static inline __aicore__ int ASC_NAME(attn_res_dots)(int64_t t, int slot, __ubuf__ float *das,
                                                     __ubuf__ float *products,
                                                     ASC_PARAMS(ATTN_RES_BACKWARD))
{
    const attn_res_scratch scratch = ATTN_RES_SUM_SCRATCH;
    __ubuf__ float *dy32 = ASC_SCRATCH(dy32), *v32 = ATTN_RES_V32;
    asc_duplicate(das, 0.0f, (uint32_t)(depth * 8));
    asc_duplicate(products, 0.0f, (uint32_t)(depth * 8));
    ASC_THEN();
    for (int64_t c = 0; c < columns; c += tile_columns) {
        ASC_NAME(attn_res_columns)
        (dy + t * dy_stride, dy_at, dy32, vectors, key_at, c, asc_min_of(tile_columns, columns - c),
         tile_columns < columns);
        for (int64_t l = 0; l < depth; l += tile_rows, slot ^= 1) {
            const attn_res_tile a = attn_res_tile_at(l, depth, tile_rows, c, columns, tile_columns);
            __ubuf__ float *x = ASC_NAME(attn_res_rows)(v, v_stride, tokens, t, a, v_at, v32, slot);
            ASC_BY_COLUMN(asc_mul, scratch.p, x, dy32, a.rows, a.pitch);
            ASC_THEN();
            attn_res_add_sums(das, a, scratch);
            ASC_BY_COLUMN(asc_mul, scratch.p, x, ASC_SCRATCH(key), a.rows, a.pitch);
            ASC_THEN();
            ASC_HAS_READ(slot);
            attn_res_add_sums(products, a, scratch);
        }
    }
    return slot;
}

/* A tile of dv from p, which leaves. */
static inline __aicore__ void ASC_NAME(attn_res_tile_out)(__gm__ ASC_T *dv, int64_t dv_stride,
                                                          int64_t tokens, int64_t token,
                                                          attn_res_tile a, __ubuf__ float *p,
                                                          int64_t dv_at, int out)
{
    const int64_t size = sizeof(ASC_T);
    ASC_MAY_WRITE(out);
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, dv_at, out), p, (uint32_t)(a.rows * a.pitch));
#else
    asc_add_scalar(ASC_UB(float, dv_at, out), p, 0.0f, (uint32_t)(a.rows * a.pitch));
#endif
    ASC_THEN();
    ASC_HAS_WRITTEN(out);
    asc_copy_rows_out(dv + (a.first * tokens + token) * dv_stride + a.column, asc_place(dv_at, out),
                      a.rows, a.columns * size, tokens * dv_stride * size, a.pitch * size);
    ASC_HAS_LEFT(out);
}

/* The block's sum of a piece's columns as it was behind the token before; 0 at first. */
static inline __aicore__ void ASC_NAME(attn_res_sum_in)(__ubuf__ float *sum, __gm__ float *parts,
                                                        int64_t n)
{
    asc_sync();
    if (parts)
        attn_res_row_in((uint64_t)sum, parts, n);
    else
        asc_duplicate(sum, 0.0f, (uint32_t)asc_round_up(n, ASC_LANES));
    asc_sync();
}

ASC_KERNEL ASC_NAME(attn_res_backward)(ASC_PARAMS(ATTN_RES_BACKWARD))
{
    const asc_share share = asc_share_of(tokens);
    const int in_pieces = tile_columns < columns;
    __gm__ float *parts = partials ? partials + asc_get_block_idx() * partials_stride : 0;
    __ubuf__ float *p = ASC_SCRATCH(p), *dy32 = ASC_SCRATCH(dy32), *key = ASC_SCRATCH(key);
    __ubuf__ float *sum = ASC_SCRATCH(sum), *v32 = ATTN_RES_V32;
    const attn_res_pulls m = attn_res_pulls_at(ATTN_RES_NUMBERS_AT, depth, p, ASC_SCRATCH(lanes),
                                               ASC_SCRATCH(value), ASC_SCRATCH(block));
    int slot = 0, out = 0;
    ATTN_RES_BACKWARD_BEGIN;
    asc_pipeline_begin();
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID3); /* dy may be copied in */
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID4); /* alpha and rstd may */
    for (int64_t t = share.begin; t < share.end; t++) {
        asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID4);
        attn_res_row_in((uint64_t)m.alpha, alpha + t * depth, depth);
        attn_res_row_in((uint64_t)m.rstd, rstd + t * depth, depth);
        asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID4);
        slot = ASC_NAME(attn_res_dots)(t, slot, m.das, m.products, ASC_NAMES(ATTN_RES_BACKWARD));
        asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID4);
        attn_res_pull(m, depth, asc_f32(mean));
        asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID4);
        for (int64_t c = 0; c < columns; c += tile_columns) {
            const int64_t n = asc_min_of(tile_columns, columns - c);
            if (in_pieces) {
                ASC_NAME(attn_res_columns)
                (dy + t * dy_stride, dy_at, dy32, vectors, key_at, c, n, 1);
                ASC_NAME(attn_res_sum_in)(sum, parts && t > share.begin ? parts + c : 0, n);
            }
            for (int64_t l = 0; l < depth; l += tile_rows, slot ^= 1, out ^= 1) {
                const attn_res_tile a =
                    attn_res_tile_at(l, depth, tile_rows, c, columns, tile_columns);
                __ubuf__ float *x =
                    ASC_NAME(attn_res_rows)(v, v_stride, tokens, t, a, v_at, v32, slot);
                ASC_NAME(attn_res_gradients)
                (a, x, p, dy32, key, sum, m.scale + l * 8, m.das + l * 8, m.products + l * 8);
                ASC_HAS_READ(slot);
                ASC_NAME(attn_res_tile_out)(dv, dv_stride, tokens, t, a, p, dv_at, out);
            }
            if (in_pieces && parts) {
                asc_sync();
                asc_copy_rows_out(parts + c, asc_place(sum_at, 0), 1, n * 4, n * 4, n * 4);
                asc_sync();
            }
        }
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID3);
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID4);
    asc_sync();
    if (parts)
        attn_res_parts(parts, asc_get_block_num() * partials_stride, vectors, vectors_stride,
                       columns, tile_columns, sum, key, dy32);
    asc_pipeline_end();
}

#undef ATTN_RES_BACKWARD_BEGIN
