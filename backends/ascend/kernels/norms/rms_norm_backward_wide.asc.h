/* rms_norm_backward_wide.asc.h - the kernel of rows in pieces, of one type; see asc_each_type.h. */

/* A group of rows in pieces. What belongs to columns is copied in and widened once
 * for all of its rows. */
typedef struct ASC_NAME(rms_norm_wide) {
    __gm__ ASC_T *dy, *ds, *x, *dx;
    __gm__ void *weight;
    __gm__ float *rstd, *partials; /* of this block; NULL: no dweight */
    int64_t dy_stride, ds_stride, x_stride, dx_stride, weight_f32, dy_at, x_at, dx_at, rstd_at,
        dw_at, weight_at, ds_at;
    float offset;
    int llama;
    __ubuf__ float *dy32, *n, *p, *scale, *rstds, *factors, *eighth, *rest, *sums, *means;
} ASC_NAME(rms_norm_wide);

/* Whether the scale that was widened for the step before is this step's, too. */
static inline __aicore__ int ASC_NAME(rms_norm_has_scale)(const ASC_NAME(rms_norm_wide) * w,
                                                          rms_norm_step step)
{
    return step.again && ASC_16BIT && !w->weight_f32;
}

/* Copies in of a step, when its slot is free. dweight's sum of this block comes from memory,
 * but for its first rows: the steps since it went there are two at least, and the buffer's last
 * use was two before. */
static inline __aicore__ void ASC_NAME(rms_norm_step_in)(const ASC_NAME(rms_norm_wide) * w,
                                                         rms_norm_step step)
{
    const asc_tile tile = step.tile;
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE2, step.slot);
    ASC_ROWS_IN(ASC_T, w->dy_at, step.slot, w->dy, w->dy_stride, tile, pitch);
    ASC_ROWS_IN(ASC_T, w->x_at, step.slot, w->x, w->x_stride, tile, pitch);
    if (w->weight && !ASC_NAME(rms_norm_has_scale)(w, step))
        ASC_NAME(asc_columns_in)
    (asc_place(w->weight_at, step.slot), w->weight, w->weight_f32, tile.column, tile.columns);
    if (!step.writes && tile.column == 0)
        asc_copy_rows_in(asc_place(w->rstd_at, (int)(step.group % 2)), w->rstd + tile.row, 1,
                         tile.rows * 4, 0, 0);
    if (step.writes && w->ds)
        ASC_ROWS_IN(ASC_T, w->ds_at, step.slot, w->ds, w->ds_stride, tile, pitch);
    if (step.writes && w->partials) {
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, step.copy);
        if (step.group > 0)
            asc_copy_rows_in(asc_place(w->dw_at, step.copy), w->partials + tile.column, 1,
                             tile.columns * 4, 0, 0);
    }
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_V, step.slot);
}

/* dy, x and the scale of a piece as f32, x in x32. They may be the buffer copied into. */
static inline __aicore__ void ASC_NAME(rms_norm_piece)(const ASC_NAME(rms_norm_wide) * w,
                                                       rms_norm_step step, __ubuf__ float *x32,
                                                       __ubuf__ float **g, __ubuf__ float **x,
                                                       __ubuf__ float **scale)
{
    const int64_t pitch = asc_round_up(step.tile.columns, ASC_LANES);
#if ASC_16BIT
    *g = w->dy32;
    *x = x32;
    ASC_WIDEN(*g, ASC_UB(ASC_T, w->dy_at, step.slot), (uint32_t)(step.tile.rows * pitch));
    ASC_WIDEN(*x, ASC_UB(ASC_T, w->x_at, step.slot), (uint32_t)(step.tile.rows * pitch));
#else
    (void)x32;
    *g = ASC_UB(float, w->dy_at, step.slot);
    *x = ASC_UB(float, w->x_at, step.slot);
#endif
    *scale = w->scale;
    if (w->weight && !ASC_NAME(rms_norm_has_scale)(w, step))
        *scale = ASC_NAME(asc_columns_piece)(w->scale, asc_place(w->weight_at, step.slot),
                                             w->weight_f32, w->offset, pitch);
    ASC_THEN();
}

/* sums += m x of a piece. */
static inline __aicore__ void ASC_NAME(rms_norm_add_products)(const ASC_NAME(rms_norm_wide) * w,
                                                              rms_norm_step step)
{
    const asc_tile tile = step.tile;
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    __ubuf__ float *product = ASC_16BIT ? w->n : w->p, *g, *x, *scale;
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, step.slot);
    ASC_NAME(rms_norm_piece)(w, step, w->p, &g, &x, &scale);
    if (w->weight) {
        ASC_BY_COLUMN(asc_mul, g, g, scale, tile.rows, pitch);
        ASC_THEN();
    }
    asc_mul(product, g, x, (uint32_t)(tile.rows * pitch));
    ASC_THEN();
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, step.slot);
    for (int64_t r = 0; r < tile.rows; r++)
        asc_add_to_lanes(w->sums + r * ASC_SUM_LANES, product + r * pitch, tile.columns);
    ASC_THEN();
}

/* n = dx of a piece; from n = x rstd and m = rstd m, whose buffer serves for ds, too. */
static inline __aicore__ void ASC_NAME(rms_norm_piece_dx)(const ASC_NAME(rms_norm_wide) * w,
                                                          rms_norm_step step, __ubuf__ float *n,
                                                          __ubuf__ float *m)
{
    const int64_t rows = step.tile.rows, pitch = asc_round_up(step.tile.columns, ASC_LANES);
    ASC_BY_ROW(ASC_MUL_ADD, n, m, w->factors, rows, pitch);
    ASC_THEN();
    if (!w->ds)
        return;
#if ASC_16BIT
    ASC_WIDEN(m, ASC_UB(ASC_T, w->ds_at, step.slot), (uint32_t)(rows * pitch));
    ASC_THEN();
#else
    m = ASC_UB(float, w->ds_at, step.slot);
#endif
    asc_add(n, n, m, (uint32_t)(rows * pitch));
    ASC_THEN();
}

/* The sums of a piece's columns leave. */
static inline __aicore__ void ASC_NAME(rms_norm_sums_out)(const ASC_NAME(rms_norm_wide) * w,
                                                          rms_norm_step step, __ubuf__ float *dw)
{
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE3, 1 + step.copy);
    ASC_RING_FLAG(asc_sync_wait, PIPE_V, PIPE_MTE3, 1 + step.copy);
    asc_copy_ub2gm_align(w->partials + step.tile.column, dw, (uint32_t)(step.tile.columns * 4));
    ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, step.copy);
}

/* dx of a piece, which leaves as soon as it is there, and dweight; work on both goes side by side.
 * V may still add n to dweight when the next step begins: one of sums waits for V before it writes
 * n, one that writes at once. */
static inline __aicore__ void ASC_NAME(rms_norm_write_piece)(const ASC_NAME(rms_norm_wide) * w,
                                                             rms_norm_step step)
{
    const asc_tile tile = step.tile;
    const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
    const uint32_t all = (uint32_t)(tile.rows * pitch);
    const int summed = w->partials != 0, rounds = ASC_16BIT && w->llama && summed;
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, w->dx_at, 0);
    __ubuf__ float *dw = ASC_UB(float, w->dw_at, step.copy), *m = w->p, *g, *x, *scale;
    ASC_THEN();
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_V, step.slot);
    if (step.group == 0 && summed)
        asc_duplicate(dw, 0.0f, (uint32_t)pitch);
    ASC_NAME(rms_norm_piece)(w, step, w->n, &g, &x, &scale);
#if ASC_16BIT
    __ubuf__ float *n = w->n;
    __ubuf__ ASC_T *rounded = ASC_UB(ASC_T, w->dy_at, step.slot);
#else
    __ubuf__ float *n = out;
    ASC_MAY_WRITE(0); /* dx has left */
#endif
    ASC_BY_ROW(asc_mul, n, x, w->rstds, tile.rows, pitch);
    if (w->weight)
        ASC_BY_COLUMN(asc_mul, m, g, scale, tile.rows, pitch);
    else
        ASC_BY_ROW(asc_mul, m, g, w->rstds, tile.rows, pitch);
    ASC_THEN();
    if (w->weight)
        ASC_BY_ROW(asc_mul, m, m, w->rstds, tile.rows, pitch);
#if ASC_16BIT
    if (rounds)
        ASC_NARROW(rounded, n, all);
#endif
    if (summed && !rounds)
        asc_mul(g, g, n, all);
    ASC_THEN();
    if (summed && !rounds)
        asc_add_rows(dw, g, tile.rows, pitch);
    ASC_NAME(rms_norm_piece_dx)(w, step, n, m);
#if ASC_16BIT
    ASC_MAY_WRITE(0);
    ASC_NARROW(out, n, all);
    if (rounds)
        ASC_WIDEN(m, rounded, all);
    ASC_THEN();
#endif
    ASC_HAS_WRITTEN(0);
    ASC_ROWS_OUT(ASC_T, w->dx, w->dx_stride, tile, w->dx_at, 0, pitch);
    ASC_HAS_LEFT(0);
    ASC_RING_FLAG(asc_sync_notify, PIPE_V, PIPE_MTE2, step.slot);
    if (!summed)
        return;
    if (rounds) {
        asc_mul(n, m, g, all);
        ASC_THEN();
        asc_add_rows(dw, n, tile.rows, pitch);
    }
    ASC_NAME(rms_norm_sums_out)(w, step, dw);
}

/* What the steps that write a group need of its sums, which are 0 then, for the next. */
static inline __aicore__ void ASC_NAME(rms_norm_use_sums)(const ASC_NAME(rms_norm_wide) * w,
                                                          int64_t group, int64_t rows, float mean)
{
    __ubuf__ float *rstd = ASC_UB(float, w->rstd_at, (int)(group % 2));
    asc_sum_rows(w->means, w->sums, rows, ASC_SUM_LANES, ASC_SUM_LANES, w->eighth, w->rest);
    asc_mul(w->means, w->means, rstd, (uint32_t)rows);
    asc_spread(w->rstds, rstd, rows);
    asc_duplicate(w->sums, 0.0f, (uint32_t)(rows * ASC_SUM_LANES));
    ASC_THEN();
    rms_norm_spread(w->factors, w->means, rstd, mean, rows);
}

static inline __aicore__ ASC_NAME(rms_norm_wide)
    ASC_NAME(rms_norm_wide_of)(ASC_PARAMS(RMS_NORM_BACKWARD_WIDE))
{
    const ASC_NAME(rms_norm_wide)
        w = {dy,
             ds,
             x,
             dx,
             weight,
             rstd,
             partials ? partials + asc_get_block_idx() * partials_stride : 0,
             dy_stride,
             ds_stride,
             x_stride,
             dx_stride,
             weight_f32,
             dy_at,
             x_at,
             dx_at,
             rstd_at,
             dweight_at,
             ASC_16BIT && weight_f32 ? weight32_at : weight_at,
             ds_at,
             asc_f32(offset),
             (int)llama,
             ASC_UB(float, dy32_at, 0),
             ASC_UB(float, n_at, 0),
             ASC_UB(float, p_at, 0),
             ASC_UB(float, scale_at, 0),
             ASC_UB(float, rstds_at, 0),
             ASC_UB(float, factors_at, 0),
             ASC_UB(float, eighth_at, 0),
             ASC_UB(float, rest_at, 0),
             ASC_UB(float, sums_at, 0),
             ASC_UB(float, means_at, 0)};
    return w;
}

ASC_KERNEL ASC_NAME(rms_norm_backward_wide)(ASC_PARAMS(RMS_NORM_BACKWARD_WIDE))
{
    const rms_norm_walk walk =
        rms_norm_walk_of(asc_grid_of(rows, columns, tile_rows, tile_columns));
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    ASC_NAME(rms_norm_wide) w = ASC_NAME(rms_norm_wide_of)(ASC_NAMES(RMS_NORM_BACKWARD_WIDE));
    int64_t loaded = 0;
    asc_clear_begin();
    asc_clear_copies(dy_at, RMS_NORM_SLOTS, bytes);
    asc_clear_copies(x_at, RMS_NORM_SLOTS, bytes);
    asc_clear_copies(w.weight_at, RMS_NORM_SLOTS,
                     widest * (weight_f32 ? 4 : (int64_t)sizeof(ASC_T)));
    asc_clear(dweight_at, widest * 4);
    if (ds)
        asc_clear_copies(ds_at, RMS_NORM_SLOTS, bytes);
    asc_duplicate(w.means, 0.0f, 8);
    asc_duplicate(w.sums, 0.0f, (uint32_t)(tile_rows * ASC_SUM_LANES));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID2);
    if (partials) { /* the buffers of dw are free */
        ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_MTE2);
    }
    for (int64_t number = 0; number < walk.steps; number++) {
        const rms_norm_step step = rms_norm_step_at(&walk, number);
        const int64_t summed = rms_norm_summed(&walk, number);
        for (; loaded < asc_min_of(number + RMS_NORM_SLOTS, walk.steps); loaded++)
            ASC_NAME(rms_norm_step_in)(&w, rms_norm_step_at(&walk, loaded));
        if (step.writes)
            ASC_NAME(rms_norm_write_piece)(&w, step);
        else
            ASC_NAME(rms_norm_add_products)(&w, step);
        if (summed >= 0) {
            const int64_t row = walk.share.begin + summed * tile_rows;
            ASC_NAME(rms_norm_use_sums)
            (&w, summed, asc_min_of(tile_rows, walk.share.end - row), asc_f32(mean));
        }
    }
    if (partials) {
        ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_MTE2);
    }
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID2);
    asc_pipeline_end();
}
