/* rms_norm_backward_wide.asc.h - the kernel of rows in pieces, of one type; see asc_each_type.h. */

/* A group of rows in pieces. What belongs to columns is copied in and widened once for all of its rows. */
typedef struct ASC_NAME(rms_norm_wide) {
    __gm__ ASC_T *dy, *ds, *x, *dx;
    __gm__ void *weight;
    __gm__ float *rstd, *partials; /* of this block; NULL: no dweight */
    int64_t dy_stride, ds_stride, x_stride, dx_stride, weight_f32, dy_at, x_at, dx_at, rstd_at,
        dw_at, weight_at, ds_at, sums_pitch;
    float offset;
    int llama;
    __ubuf__ float *dy32, *n, *p, *scale, *rstds, *factors, *eighth, *sums;
} ASC_NAME(rms_norm_wide);

/* Both passes read dy, x and the weight. */
static inline __aicore__ void ASC_NAME(rms_norm_piece_in)(const ASC_NAME(rms_norm_wide) * w,
                                                          asc_tile tile, int slot)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    ASC_ROWS_IN(ASC_T, w->dy_at, slot, w->dy, w->dy_stride, tile, pitch);
    ASC_ROWS_IN(ASC_T, w->x_at, slot, w->x, w->x_stride, tile, pitch);
    if (w->weight)
        ASC_NAME(rms_norm_weight_in)
    (asc_place(w->weight_at, slot), w->weight, w->weight_f32, tile.column, tile.columns);
}

/* dy, x and the scale of a piece as f32. They may be the buffer copied into. */
static inline __aicore__ void ASC_NAME(rms_norm_piece)(const ASC_NAME(rms_norm_wide) * w,
                                                       asc_tile tile, int slot, __ubuf__ float **g,
                                                       __ubuf__ float **x, __ubuf__ float **scale)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
#if ASC_16BIT
    *g = w->dy32;
    *x = w->n;
    ASC_WIDEN(*g, ASC_UB(ASC_T, w->dy_at, slot), (uint32_t)(tile.rows * pitch));
    ASC_WIDEN(*x, ASC_UB(ASC_T, w->x_at, slot), (uint32_t)(tile.rows * pitch));
#else
    *g = ASC_UB(float, w->dy_at, slot);
    *x = ASC_UB(float, w->x_at, slot);
#endif
    *scale = w->scale;
    if (w->weight)
        *scale = ASC_NAME(rms_norm_piece_scale)(w->scale, asc_place(w->weight_at, slot),
                                                w->weight_f32, w->offset, pitch);
    ASC_THEN();
}

/* sums += m x of a piece, by eights; with the first piece comes the rows' rstd. */
static inline __aicore__ void ASC_NAME(rms_norm_add_products)(const ASC_NAME(rms_norm_wide) * w,
                                                              asc_tile tile, int slot, int parity)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    const int64_t eighths = (tile.columns + 7) / 8, eighth_pitch = asc_round_up(eighths, 8);
    __ubuf__ float *g, *x, *scale;
    ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
    ASC_NAME(rms_norm_piece_in)(w, tile, slot);
    if (tile.column == 0)
        asc_rows_in(asc_place(w->rstd_at, parity), w->rstd + tile.row, 1, tile.rows * 4, 0, 0);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
    ASC_NAME(rms_norm_piece)(w, tile, slot, &g, &x, &scale);
    if (w->weight) {
        ASC_BY_COLUMN(asc_mul, g, g, scale, tile.rows, pitch);
        ASC_THEN();
    }
    asc_mul(g, g, x, (uint32_t)(tile.rows * pitch));
    ASC_THEN();
    asc_sum_eights(w->eighth, eighth_pitch, g, pitch, tile.rows, tile.columns);
    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
    for (int64_t r = 0; r < tile.rows; r++)
        asc_add(w->sums + r * w->sums_pitch, w->sums + r * w->sums_pitch,
                w->eighth + r * eighth_pitch, (uint32_t)eighths);
    ASC_THEN();
}

/* dx of a piece, and dweight: the block's sum so far comes from memory, but for its first rows, and goes back. */
static inline __aicore__ void ASC_NAME(rms_norm_write_piece)(const ASC_NAME(rms_norm_wide) * w,
                                                             asc_tile tile, int slot, int first)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    const int summed = w->partials != 0;
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, w->dx_at, slot);
    __ubuf__ float *dw = ASC_UB(float, w->dw_at, slot), *g, *x, *scale;
#if ASC_16BIT
    __ubuf__ float *n = w->n;
#else
    __ubuf__ float *n = out;
#endif
    ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
    ASC_NAME(rms_norm_piece_in)(w, tile, slot);
    if (w->ds)
        ASC_ROWS_IN(ASC_T, w->ds_at, slot, w->ds, w->ds_stride, tile, pitch);
    if (summed) {
        if (tile.column == 0) /* dw of the rows before is in memory */
            asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        if (!first)
            asc_rows_in(asc_place(w->dw_at, slot), w->partials + tile.column, 1, tile.columns * 4,
                        0, 0);
    }
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
    if (first && summed)
        asc_duplicate(dw, 0.0f, (uint32_t)pitch);
    ASC_NAME(rms_norm_piece)(w, tile, slot, &g, &x, &scale);
    ASC_BY_ROW(asc_mul, n, x, w->rstds, tile.rows, pitch);
    ASC_THEN();
    ASC_NAME(rms_norm_weigh)
    (dw, summed, scale, w->weight != 0, g, n, w->p, out, w->llama, tile.rows, pitch);
    ASC_BY_ROW(asc_mul, g, g, w->rstds, tile.rows, pitch);
    ASC_THEN();
    ASC_NAME(rms_norm_dx)
    (out, g, n, w->factors, ASC_UB(ASC_T, w->ds_at, slot), w->ds != 0, w->p, tile.rows, pitch);
    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
    ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
    ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
    ASC_ROWS_OUT(ASC_T, w->dx, w->dx_stride, tile, w->dx_at, slot, pitch);
    if (summed) {
        asc_copy_ub2gm_align(w->partials + tile.column, dw, (uint32_t)(tile.columns * 4));
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
}

/* Both passes side by side, dx a group behind the sums: one pass fills the pipes where the other waits. Every other block
 * takes them in the other order, so that half of the blocks read memory while half read L2. */
ASC_KERNEL ASC_NAME(rms_norm_backward_wide)(
    __gm__ ASC_T *dy, __gm__ ASC_T *ds, __gm__ ASC_T *x, __gm__ void *weight, __gm__ float *rstd,
    __gm__ ASC_T *dx, __gm__ float *partials, int64_t dy_stride, int64_t ds_stride,
    int64_t x_stride, int64_t dx_stride, int64_t partials_stride, int64_t rows, int64_t columns,
    int64_t tile_rows, int64_t tile_columns, int64_t weight_f32, int64_t offset, int64_t mean,
    int64_t llama, int64_t dy_at, int64_t x_at, int64_t dx_at, int64_t rstd_at, int64_t dy32_at,
    int64_t n_at, int64_t p_at, int64_t dw_at, int64_t rstds_at, int64_t factors_at,
    int64_t eighth_at, int64_t rest_at, int64_t weight_at, int64_t sums_at, int64_t means_at,
    int64_t scale_at, int64_t ds_at)
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const asc_share share = asc_share_of(rows);
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    __ubuf__ float *means = ASC_UB(float, means_at, 0), *rest = ASC_UB(float, rest_at, 0);
    ASC_NAME(rms_norm_wide)
    w = {dy,
         ds,
         x,
         dx,
         weight,
         rstd,
         partials,
         dy_stride,
         ds_stride,
         x_stride,
         dx_stride,
         weight_f32,
         dy_at,
         x_at,
         dx_at,
         rstd_at,
         dw_at,
         weight_at,
         ds_at,
         widest / 8,
         asc_f32(offset),
         (int)llama,
         ASC_UB(float, dy32_at, 0),
         ASC_UB(float, n_at, 0),
         ASC_UB(float, p_at, 0),
         ASC_UB(float, scale_at, 0),
         ASC_UB(float, rstds_at, 0),
         ASC_UB(float, factors_at, 0),
         ASC_UB(float, eighth_at, 0),
         ASC_UB(float, sums_at, 0)};
    const int second = (int)(asc_get_block_idx() & 1); /* the turn of the sums */
    int slot = 0, parity = 0;
    if (partials)
        w.partials = partials + asc_get_block_idx() * partials_stride;
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(dw_at, widest * 4);
    asc_clear(weight_at, widest * 4);
    if (ds)
        asc_clear(ds_at, bytes);
    asc_duplicate(means, 0.0f, 8);
    ASC_THEN();
    asc_pipeline_begin();
    if (partials) { /* the buffers of dw are free, and so is its memory */
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
    }
    for (int64_t row = share.begin; row - tile_rows < share.end; row += tile_rows, parity ^= 1) {
        const int sums = row<share.end, writes = row> share.begin;
        if (sums)
            asc_duplicate(w.sums, 0.0f, (uint32_t)(tile_rows * w.sums_pitch));
        for (int64_t piece = 0; piece < grid.column_tiles; piece++) {
            const asc_tile next = asc_piece_at(grid, share, row, piece);
            const asc_tile last = asc_piece_at(grid, share, row - tile_rows, piece);
            for (int turn = 0; turn < 2; turn++) {
                if (turn == second) {
                    if (!sums)
                        continue;
                    ASC_NAME(rms_norm_add_products)(&w, next, slot, parity);
                } else {
                    if (!writes)
                        continue;
                    ASC_NAME(rms_norm_write_piece)(&w, last, slot, row - tile_rows == share.begin);
                }
                slot ^= 1;
            }
        }
        if (writes && partials)
            asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
        if (!sums)
            break;
        const int64_t together = asc_min_of(tile_rows, share.end - row);
        __ubuf__ float *rstd_in = ASC_UB(float, rstd_at, parity);
        asc_sum_rows(means, w.sums, together, w.sums_pitch,
                     (asc_min_of(columns, tile_columns) + 7) / 8, rest, w.eighth);
        asc_mul(means, means, rstd_in, (uint32_t)together);
        asc_spread(w.rstds, rstd_in, together);
        ASC_THEN();
        rms_norm_spread(w.factors, means, rstd_in, asc_f32(mean), together);
    }
    if (partials) {
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
    }
    asc_pipeline_end();
}
