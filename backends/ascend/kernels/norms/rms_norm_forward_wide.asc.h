/* rms_norm_forward_wide.asc.h - the kernel of rows in pieces, of one type; see asc_each_type.h. */

/* A group of rows in pieces. */
typedef struct ASC_NAME(rms_norm_wide) {
    __gm__ ASC_T *x, *residual, *y, *s;
    __gm__ void *weight;
    int64_t x_stride, residual_stride, y_stride, s_stride, weight_f32, x_at, y_at, weight_at,
        residual_at, sums_pitch;
    float offset;
    int fused, weighted, llama;
    __ubuf__ float *x32, *q, *spread, *sums, *eighth;
} ASC_NAME(rms_norm_wide);

/* sums += the squares of a piece, by eights; fused: s of it, from the buffer of y. */
static inline __aicore__ void ASC_NAME(rms_norm_add_squares)(const ASC_NAME(rms_norm_wide) * w,
                                                             asc_tile tile, int slot)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    const int64_t eighths = (tile.columns + 7) / 8, eighth_pitch = asc_round_up(eighths, 8);
    const uint32_t all = (uint32_t)(tile.rows * pitch);
    __ubuf__ ASC_T *s = ASC_UB(ASC_T, w->y_at, slot);
    ASC_MAY_FILL(slot);
    ASC_ROWS_IN(ASC_T, w->x_at, slot, w->x, w->x_stride, tile, pitch);
    if (w->fused)
        ASC_ROWS_IN(ASC_T, w->residual_at, slot, w->residual, w->residual_stride, tile, pitch);
    ASC_HAS_FILLED(slot);
    if (w->fused)
        ASC_MAY_WRITE(slot);
    __ubuf__ float *from =
        ASC_NAME(rms_norm_take)(ASC_UB(ASC_T, w->x_at, slot), ASC_UB(ASC_T, w->residual_at, slot),
                                s, w->x32, w->q, w->fused, all);
    if (w->fused) {
        ASC_HAS_WRITTEN(slot);
        ASC_ROWS_OUT(ASC_T, w->s, w->s_stride, tile, w->y_at, slot, pitch);
        ASC_HAS_LEFT(slot);
    }
    asc_mul(w->q, from, from, all);
    ASC_THEN();
    ASC_HAS_READ(slot);
    asc_sum_eights(w->eighth, eighth_pitch, w->q, pitch, tile.rows, tile.columns);
    ASC_THEN();
    for (int64_t r = 0; r < tile.rows; r++)
        asc_add(w->sums + r * w->sums_pitch, w->sums + r * w->sums_pitch,
                w->eighth + r * eighth_pitch, (uint32_t)eighths);
    ASC_THEN();
}

/* y of a piece, from x; fused: from s. */
static inline __aicore__ void ASC_NAME(rms_norm_write_piece)(const ASC_NAME(rms_norm_wide) * w,
                                                             asc_tile tile, int slot)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, w->y_at, slot);
    ASC_MAY_FILL(slot);
    if (w->fused)
        ASC_ROWS_IN(ASC_T, w->x_at, slot, w->s, w->s_stride, tile, pitch);
    else
        ASC_ROWS_IN(ASC_T, w->x_at, slot, w->x, w->x_stride, tile, pitch);
    if (w->weighted)
        ASC_NAME(asc_columns_in)
    (asc_place(w->weight_at, slot), w->weight, w->weight_f32, tile.column, tile.columns);
    ASC_HAS_FILLED(slot);
    ASC_MAY_WRITE(slot);
    __ubuf__ float *from = ASC_NAME(rms_norm_take)(ASC_UB(ASC_T, w->x_at, slot), 0, 0, w->x32, 0, 0,
                                                   (uint32_t)(tile.rows * pitch));
#if ASC_16BIT
    __ubuf__ float *product = w->q;
#else
    __ubuf__ float *product = out;
#endif
    __ubuf__ float *scale = w->x32;
    ASC_NAME(rms_norm_normalise)
    (product, from, w->spread, out, w->llama && w->weighted, tile.rows, pitch);
    if (w->weighted)
        scale = ASC_NAME(asc_columns_piece)(w->x32, asc_place(w->weight_at, slot), w->weight_f32,
                                            w->offset, pitch);
    ASC_NAME(rms_norm_finish)(out, product, scale, w->weighted, tile.rows, pitch);
    ASC_HAS_READ(slot);
    ASC_HAS_WRITTEN(slot);
    ASC_ROWS_OUT(ASC_T, w->y, w->y_stride, tile, w->y_at, slot, pitch);
    ASC_HAS_LEFT(slot);
}

static inline __aicore__ ASC_NAME(rms_norm_wide)
    ASC_NAME(rms_norm_wide_of)(ASC_PARAMS(RMS_NORM_FORWARD_WIDE))
{
    const ASC_NAME(rms_norm_wide) w = {x,
                                       residual,
                                       y,
                                       s,
                                       weight,
                                       x_stride,
                                       residual_stride,
                                       y_stride,
                                       s_stride,
                                       weight_f32,
                                       x_at,
                                       y_at,
                                       weight_at,
                                       residual_at,
                                       asc_round_up(tile_columns, ASC_LANES) / 8,
                                       asc_f32(offset),
                                       residual != 0,
                                       weight != 0,
                                       (int)llama,
                                       ASC_UB(float, x32_at, 0),
                                       ASC_UB(float, q_at, 0),
                                       ASC_UB(float, spread_at, 0),
                                       ASC_UB(float, sums_at, 0),
                                       ASC_UB(float, eighth_at, 0)};
    return w;
}

/* Both passes side by side, y a group behind the sums: one pass fills the pipes where the other
 * waits. Every other block takes them in the other order, so that half of the blocks read memory
 * while half read L2. */
ASC_KERNEL ASC_NAME(rms_norm_forward_wide)(ASC_PARAMS(RMS_NORM_FORWARD_WIDE))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const asc_share share = asc_share_of(rows);
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    __ubuf__ float *stat = ASC_UB(float, rstd_at, 0), *rest = ASC_UB(float, rest_at, 0);
    ASC_NAME(rms_norm_wide) w = ASC_NAME(rms_norm_wide_of)(ASC_NAMES(RMS_NORM_FORWARD_WIDE));
    const int second = (int)(asc_get_block_idx() & 1); /* the turn of the sums */
    int slot = 0;
    asc_clear_begin();
    asc_clear(x_at, bytes);
    asc_duplicate(stat, 0.0f, 8);
    if (w.fused)
        asc_clear(residual_at, bytes);
    if (w.weighted)
        asc_clear(weight_at, widest * 4);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* rstd has left */
    for (int64_t row = share.begin;; row += tile_rows) {
        const int sums = row < share.end;
        const int writes = row > share.begin;
        if (sums)
            asc_duplicate(w.sums, 0.0f, (uint32_t)(tile_rows * w.sums_pitch));
        for (int64_t piece = 0; piece < grid.column_tiles; piece++) {
            const asc_tile next = asc_piece_at(grid, share, row, piece);
            const asc_tile last = asc_piece_at(grid, share, row - tile_rows, piece);
            for (int turn = 0; turn < 2; turn++) {
                if (turn == second) {
                    if (!sums)
                        continue;
                    ASC_NAME(rms_norm_add_squares)(&w, next, slot);
                } else {
                    if (!writes)
                        continue;
                    if (w.fused && piece == 0) /* s is there */
                        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
                    ASC_NAME(rms_norm_write_piece)(&w, last, slot);
                }
                slot ^= 1;
            }
        }
        if (!sums)
            break;
        if (w.fused)
            asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
        const int64_t together = asc_min_of(tile_rows, share.end - row);
        asc_sum_rows(stat, w.sums, together, w.sums_pitch,
                     (asc_min_of(columns, tile_columns) + 7) / 8, rest, w.eighth);
        rms_norm_rstd(stat, w.spread, together, asc_f32(mean), asc_f32(eps));
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        if (rstd)
            asc_copy_ub2gm_align(rstd + row, stat, (uint32_t)(together * 4));
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_pipeline_end();
}
