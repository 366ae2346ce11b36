/* rms_norm_backward_wide.asc.h - the kernel of rows in pieces, of one type; see asc_each_type.h. */

/* A row in pieces. */
typedef struct ASC_NAME(rms_norm_wide) {
    __gm__ ASC_T *dy, *ds, *x, *dx;
    __gm__ void *weight;
    __gm__ float *rstd, *partials; /* of this block; NULL: no dweight */
    int64_t dy_stride, ds_stride, x_stride, dx_stride, weight_f32, dy_at, x_at, dx_at, rstd_at,
        dw_at, weight_at, ds_at;
    float offset;
    int llama;
    __ubuf__ float *dy32, *n, *p, *rstds, *means, *eighth, *sums;
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

/* dy and x of a piece as f32. They may be the buffer copied into. */
static inline __aicore__ void ASC_NAME(rms_norm_piece)(const ASC_NAME(rms_norm_wide) * w, int slot,
                                                       int64_t pitch, __ubuf__ float **g,
                                                       __ubuf__ float **x)
{
#if ASC_16BIT
    *g = w->dy32;
    *x = w->n;
    ASC_WIDEN(*g, ASC_UB(ASC_T, w->dy_at, slot), (uint32_t)pitch);
    ASC_WIDEN(*x, ASC_UB(ASC_T, w->x_at, slot), (uint32_t)pitch);
#else
    *g = ASC_UB(float, w->dy_at, slot);
    *x = ASC_UB(float, w->x_at, slot);
#endif
    ASC_THEN();
}

/* m = g scale, in place. */
static inline __aicore__ void ASC_NAME(rms_norm_weigh)(const ASC_NAME(rms_norm_wide) * w, int slot,
                                                       int64_t pitch, __ubuf__ float *g)
{
    if (!w->weight)
        return;
    __ubuf__ float *scale = ASC_NAME(rms_norm_piece_scale)(w->p, asc_place(w->weight_at, slot),
                                                           w->weight_f32, w->offset, pitch);
    asc_mul(g, g, scale, (uint32_t)pitch);
    ASC_THEN();
}

/* sums += m x of a piece, by eights; with the first piece comes the row's rstd. */
static inline __aicore__ void ASC_NAME(rms_norm_add_products)(const ASC_NAME(rms_norm_wide) * w,
                                                              asc_tile tile, int slot, int parity)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    __ubuf__ float *g, *x;
    ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
    ASC_NAME(rms_norm_piece_in)(w, tile, slot);
    if (tile.column == 0)
        asc_rows_in(asc_place(w->rstd_at, parity), w->rstd + tile.row, 1, 4, 0, 0);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
    ASC_NAME(rms_norm_piece)(w, slot, pitch, &g, &x);
    ASC_NAME(rms_norm_weigh)(w, slot, pitch, g);
    asc_mul(g, g, x, (uint32_t)pitch);
    ASC_THEN();
    asc_sum_eights(w->eighth, 0, g, pitch, 1, tile.columns);
    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
    asc_add(w->sums, w->sums, w->eighth, (uint32_t)((tile.columns + 7) / 8));
    ASC_THEN();
}

/* dx of a piece, and dweight: the block's sum so far comes from memory, but for its first row, and goes back. */
static inline __aicore__ void ASC_NAME(rms_norm_write_piece)(const ASC_NAME(rms_norm_wide) * w,
                                                             asc_tile tile, int slot, int first)
{
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, w->dx_at, slot);
    __ubuf__ float *dw = ASC_UB(float, w->dw_at, slot), *g, *x;
#if ASC_16BIT
    __ubuf__ float *p = w->p;
#else
    __ubuf__ float *p = out;
#endif
    ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
    ASC_NAME(rms_norm_piece_in)(w, tile, slot);
    if (w->ds)
        ASC_ROWS_IN(ASC_T, w->ds_at, slot, w->ds, w->ds_stride, tile, pitch);
    if (w->partials) {
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        if (!first)
            asc_rows_in(asc_place(w->dw_at, slot), w->partials + tile.column, 1, tile.columns * 4,
                        0, 0);
    }
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
    if (first && w->partials)
        asc_duplicate(dw, 0.0f, (uint32_t)pitch);
    ASC_NAME(rms_norm_piece)(w, slot, pitch, &g, &x);
    ASC_BY_ROW(asc_mul, w->n, x, w->rstds, 1, pitch);
    ASC_THEN();
    if (w->partials)
        ASC_NAME(rms_norm_add_dweight)(dw, p, out, w->n, g, w->llama, 1, pitch);
    ASC_NAME(rms_norm_weigh)(w, slot, pitch, g);
    ASC_NAME(rms_norm_dx)
    (out, p, g, w->n, w->rstds, w->means, ASC_UB(ASC_T, w->ds_at, slot), w->ds != 0, 1, pitch);
    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
    ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
    ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
    ASC_ROWS_OUT(ASC_T, w->dx, w->dx_stride, tile, w->dx_at, slot, pitch);
    if (w->partials) {
        asc_copy_ub2gm_align(w->partials + tile.column, dw, (uint32_t)(tile.columns * 4));
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
}

/* Both passes side by side, dx a row behind the sums: one pass fills the pipes where the other waits. Every other block
 * takes them in the other order, so that half of the blocks read memory while half read L2. */
ASC_KERNEL ASC_NAME(rms_norm_backward_wide)(
    __gm__ ASC_T *dy, __gm__ ASC_T *ds, __gm__ ASC_T *x, __gm__ void *weight, __gm__ float *rstd,
    __gm__ ASC_T *dx, __gm__ float *partials, int64_t dy_stride, int64_t ds_stride,
    int64_t x_stride, int64_t dx_stride, int64_t partials_stride, int64_t rows, int64_t columns,
    int64_t tile_rows, int64_t tile_columns, int64_t weight_f32, int64_t offset, int64_t mean,
    int64_t llama, int64_t dy_at, int64_t x_at, int64_t dx_at, int64_t rstd_at, int64_t dy32_at,
    int64_t n_at, int64_t p_at, int64_t dw_at, int64_t rstds_at, int64_t means_at,
    int64_t eighth_at, int64_t rest_at, int64_t weight_at, int64_t sums_at, int64_t mean_at,
    int64_t ds_at)
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES), blocks = asc_get_block_num();
    const int64_t bytes = widest * (int64_t)sizeof(ASC_T), eighths = (tile_columns + 7) / 8;
    __ubuf__ float *row_mean = ASC_UB(float, mean_at, 0), *rest = ASC_UB(float, rest_at, 0);
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
         asc_f32(offset),
         (int)llama,
         ASC_UB(float, dy32_at, 0),
         ASC_UB(float, n_at, 0),
         ASC_UB(float, p_at, 0),
         ASC_UB(float, rstds_at, 0),
         ASC_UB(float, means_at, 0),
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
    asc_duplicate(row_mean, 0.0f, 8);
    ASC_THEN();
    asc_pipeline_begin();
    if (partials) { /* the buffers of dw are free, and so is its memory */
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
    }
    for (int64_t row = asc_get_block_idx(); row - blocks < rows; row += blocks, parity ^= 1) {
        if (row < rows)
            asc_duplicate(w.sums, 0.0f, (uint32_t)eighths);
        for (int64_t piece = 0; piece < grid.column_tiles; piece++) {
            const asc_tile next = asc_tile_at(grid, row * grid.column_tiles + piece);
            const asc_tile last = asc_tile_at(grid, (row - blocks) * grid.column_tiles + piece);
            for (int turn = 0; turn < 2; turn++) {
                if (turn == second) {
                    if (row >= rows)
                        continue;
                    ASC_NAME(rms_norm_add_products)(&w, next, slot, parity);
                } else {
                    if (row < blocks)
                        continue;
                    if (partials && piece == 0) /* dw of the row before is in memory */
                        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
                    ASC_NAME(rms_norm_write_piece)(&w, last, slot, row < 2 * blocks);
                }
                slot ^= 1;
            }
        }
        if (row >= blocks && partials)
            asc_sync_notify(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
        if (row >= rows)
            break;
        asc_sum_rows(row_mean, w.sums, 1, asc_round_up(eighths, 8), eighths, rest, w.eighth);
        asc_mul_scalar(row_mean, row_mean, asc_f32(mean), 1);
        ASC_THEN();
        asc_mul(row_mean, row_mean, ASC_UB(float, rstd_at, parity), 1);
        asc_spread(w.rstds, ASC_UB(float, rstd_at, parity), 1);
        ASC_THEN();
        asc_spread(w.means, row_mean, 1);
        ASC_THEN();
    }
    if (partials) {
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
        asc_sync_wait(PIPE_MTE3, PIPE_MTE2, EVENT_ID2);
    }
    asc_pipeline_end();
}
