/* fused_neighborhood_attention_vector.asc.h - a vector core's side, of one type: probabilities of
 * windows, and gradients of scores. */

/* ---- some rows of a window ---- */

/* Their scores, and what else there is of them. */
static inline __aicore__ void ASC_NAME(neighborhood_bring)(const flash_problem *f,
                                                           const neighborhood_ub *u, int slot,
                                                           const neighborhood_window *w,
                                                           int64_t row, __gm__ float *s,
                                                           __gm__ float *ds, __gm__ float *lse)
{
    const int64_t rows = asc_min_of(f->group, w->rows - row);
    ASC_MAY_FILL(slot);
    if (f->d)
        flash_scores_in(f, ASC_UB(float, u->s_at, slot), s + row * f->tile, rows, w->keys);
    if (ds) {
        flash_scores_in(f, ASC_UB(float, u->ds_at, slot), ds + row * f->tile, rows, w->keys);
        flash_values_in(asc_place(u->lse_at, slot),
                        lse + flash_lse_at(f, w->batch, w->row + row, w->head), rows, f->dilation);
    }
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
}

/* Scores, masked and of a positive scale. */
static inline __aicore__ void ASC_NAME(neighborhood_mask)(const flash_problem *f,
                                                          const neighborhood_ub *u,
                                                          const neighborhood_window *w, int64_t row,
                                                          int64_t rows, int64_t width)
{
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->slot);
    const flash_sequence of = flash_sequence_at(f, w->batch);
    const flash_band band = flash_band_of(f, &of, w->row, row, w->key);
    if (f->d == 0)
        asc_duplicate(s, 0.0f, (uint32_t)(rows * width));
    ASC_THEN();
    FLASH_ALL_LANES();
    if (flash_is_masked(band, rows, w->keys, width))
        flash_mask(s, rows, width, band, w->keys, f->negative ? -FLASH_NOTHING : FLASH_NOTHING);
    ASC_THEN();
    if (f->negative)
        asc_mul_scalar(s, s, -1.0f, (uint32_t)(rows * width));
    FLASH_ALL_LANES();
    ASC_THEN();
}

/* x[r] = x[r] op block r, in columns of 64. */
#define NEIGHBORHOOD_WITH_BLOCK(op, to, x, block, rows, width)                       \
    for (int64_t c_ = 0; c_ < (width); c_ += ASC_LANES)                              \
    op((to) + c_, (x) + c_, block, (uint8_t)(rows), 1, 1, 0, (uint8_t)((width) / 8), \
       (uint8_t)((width) / 8), 1)

/* Probabilities, and log(sum) + scale max. */
static inline __aicore__ void ASC_NAME(neighborhood_weigh)(const flash_problem *f,
                                                           const neighborhood_ub *u,
                                                           const neighborhood_window *w,
                                                           int64_t row)
{
    const int64_t rows = asc_min_of(f->group, w->rows - row);
    const int64_t width = asc_round_up(w->keys, ASC_LANES);
    const uint32_t n = (uint32_t)(rows * width), values = (uint32_t)asc_round_up(rows, 8);
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->slot), *folded = ASC_UB(float, u->folded_at, 0);
    __ubuf__ ASC_T *p = ASC_UB(ASC_T, u->p_at, u->slot);
    __ubuf__ float *top = ASC_UB(float, u->top_at, 0), *sum = ASC_UB(float, u->sum_at, 0);
    __ubuf__ float *shift = ASC_UB(float, u->shift_at, 0), *total = ASC_UB(float, u->total_at, 0);
    __ubuf__ float *lse = ASC_UB(float, u->lse_at, u->slot);
    __ubuf__ float *log = f->dilation > 1 ? ASC_UB(float, u->values_at, 0) : lse;
    ASC_NAME(neighborhood_mask)(f, u, w, row, rows, width);
    flash_largest(top, folded, s, rows, width);
    asc_max_scalar(top, top, FLASH_LOWEST, values);
    ASC_THEN();
    asc_mul_scalar(top, top, -f->scale, values);
    ASC_THEN();
    asc_spread(shift, top, rows);
    ASC_THEN();
    FLASH_ALL_LANES();
    flash_shift(s, ASC_UB(float, u->factor_at, 0), shift, rows, width);
    ASC_THEN();
    asc_exp(s, s, n);
    FLASH_ALL_LANES();
    ASC_THEN();
    flash_sum_rows(sum, folded, s, rows, width);
    ASC_MAY_WRITE(u->slot);
    asc_log(log, sum, values);
    ASC_THEN();
    asc_sub(log, log, top, values);
    asc_max_scalar(sum, sum, 1e-30f, values);
    ASC_THEN();
    if (f->dilation > 1)
        asc_spread(lse, log, rows);
    asc_spread(total, sum, rows);
    ASC_THEN();
    FLASH_ALL_LANES();
#if ASC_16BIT
    NEIGHBORHOOD_WITH_BLOCK(asc_div, s, s, total, rows, width);
    ASC_THEN();
    ASC_NARROW(p, s, n);
    FLASH_ALL_LANES();
#else
    (void)n;
    NEIGHBORHOOD_WITH_BLOCK(asc_div, p, s, total, rows, width);
#endif
}

/* Probabilities p = exp(scale s - lse), and scale p (dp - sum p dp). A query that sees no key has
 * an lse of -inf: it stays finite. */
static inline __aicore__ void ASC_NAME(neighborhood_weigh_back)(const flash_problem *f,
                                                                const neighborhood_ub *u,
                                                                const neighborhood_window *w,
                                                                int64_t row)
{
    const int64_t rows = asc_min_of(f->group, w->rows - row);
    const int64_t width = asc_round_up(w->keys, ASC_LANES);
    const uint32_t n = (uint32_t)(rows * width), values = (uint32_t)asc_round_up(rows, 8);
    __ubuf__ float *s = ASC_UB(float, u->s_at, u->slot), *ds = ASC_UB(float, u->ds_at, u->slot);
    __ubuf__ ASC_T *p = ASC_UB(ASC_T, u->p_at, u->slot), *dp = ASC_UB(ASC_T, u->dp_at, u->slot);
    __ubuf__ float *sum = ASC_UB(float, u->sum_at, 0);
    __ubuf__ float *shift = ASC_UB(float, u->shift_at, 0), *total = ASC_UB(float, u->total_at, 0);
    const flash_sequence of = flash_sequence_at(f, w->batch);
    const flash_band band = flash_band_of(f, &of, w->row, row, w->key);
    FLASH_ALL_LANES();
    __ubuf__ float *lse = flash_values(ASC_UB(float, u->values_at, 0),
                                       ASC_UB(float, u->lse_at, u->slot), rows, f->dilation);
    asc_mul_scalar(lse, lse, -1.0f, values);
    FLASH_ALL_LANES();
    if (flash_is_masked(band, rows, w->keys, width))
        flash_mask(ds, rows, width, band, w->keys, 0.0f);
    ASC_NAME(neighborhood_mask)(f, u, w, row, rows, width);
    asc_min_scalar(lse, lse, 3e38f, values);
    ASC_THEN();
    asc_spread(shift, lse, rows);
    ASC_THEN();
    FLASH_ALL_LANES();
    flash_shift(s, ASC_UB(float, u->factor_at, 0), shift, rows, width);
    ASC_MAY_WRITE(u->slot);
    ASC_THEN();
    asc_exp(s, s, n);
    ASC_THEN();
    asc_mul(ds, ds, s, n);
#if ASC_16BIT
    ASC_NARROW(p, s, n);
#else
    asc_copy((__ubuf__ uint32_t *)p, (__ubuf__ uint32_t *)s, n);
#endif
    FLASH_ALL_LANES();
    ASC_THEN();
    flash_sum_rows(sum, ASC_UB(float, u->folded_at, 0), ds, rows, width);
    asc_spread(total, sum, rows);
    ASC_THEN();
    NEIGHBORHOOD_WITH_BLOCK(asc_mul, s, s, total, rows, width);
    ASC_THEN();
    asc_sub(ds, ds, s, n);
    ASC_THEN();
#if ASC_16BIT
    asc_mul_scalar(ds, ds, f->negative ? -f->scale : f->scale, n);
    ASC_THEN();
    ASC_NARROW(dp, ds, n);
#else
    asc_mul_scalar(dp, ds, f->negative ? -f->scale : f->scale, n);
#endif
    asc_mul_scalar(s, ds, 0.0f, n);
    ASC_NAME(neighborhood_add_odd)(u, s, n);
}

/* To memory: of each row what the cube core multiplies, or lse. */
static inline __aicore__ void ASC_NAME(neighborhood_send)(const flash_problem *f,
                                                          const neighborhood_window *w, int64_t row,
                                                          __gm__ ASC_T *to, uint64_t from)
{
    const int64_t rows = asc_min_of(f->group, w->rows - row), size = (int64_t)sizeof(ASC_T);
    asc_copy_rows_out(to + row * f->tile, from, rows, w->keys * size, f->tile * size,
                      asc_round_up(w->keys, ASC_LANES) * size);
}

/* ---- windows ---- */

/* A window's rows. */
static inline __aicore__ void
ASC_NAME(neighborhood_attend_window)(const flash_problem *f, neighborhood_ub *u,
                                     const neighborhood_window *w, const NEIGHBORHOOD_WORK *work,
                                     int now, __gm__ float *odd, __gm__ float *lse)
{
    const int core = (int)asc_get_sub_block_id();
    __gm__ float *s = work->s[now][core], *ds = work->ds[now][core];
    if (w->rows)
        ASC_NAME(neighborhood_bring)(f, u, u->slot, w, 0, s, ds, lse);
    for (int64_t row = 0; row < w->rows; row += f->group) {
        const int64_t next = row + f->group;
        if (next < w->rows)
            ASC_NAME(neighborhood_bring)(f, u, 1 - u->slot, w, next, s, ds, lse);
        ASC_WAIT(PIPE_MTE2, PIPE_V, u->slot);
        if (ds)
            ASC_NAME(neighborhood_weigh_back)(f, u, w, row);
        else
            ASC_NAME(neighborhood_weigh)(f, u, w, row);
        if (next >= w->rows)
            asc_repeat_reduce_sum(ASC_UB(float, u->odd_at, u->slot), ASC_UB(float, u->lanes_at, 0),
                                  1, 1, 1, 8);
        ASC_HAS_READ(u->slot);
        ASC_HAS_WRITTEN(u->slot);
        ASC_NAME(neighborhood_send)(f, w, row, work->p[now][core], asc_place(u->p_at, u->slot));
        if (ds)
            ASC_NAME(neighborhood_send)
        (f, w, row, work->dp[now][core], asc_place(u->dp_at, u->slot));
        else if (lse) flash_values_out(lse + flash_lse_at(f, w->batch, w->row + row, w->head),
                                       asc_place(u->lse_at, u->slot),
                                       asc_min_of(f->group, w->rows - row), f->dilation);
        if (next >= w->rows)
            asc_copy_ub2gm_align(odd, ASC_UB(float, u->odd_at, u->slot), 4);
        ASC_HAS_LEFT(u->slot);
        u->slot ^= 1;
    }
}

/* Flags of the buffers: those of scores and of what leaves UB, and of pieces that are looked at. */
#define NEIGHBORHOOD_FLAGS(op)        \
    ASC_BUFFERS(op, PIPE_V);          \
    op(PIPE_V, PIPE_MTE2, EVENT_ID2); \
    op(PIPE_V, PIPE_MTE2, EVENT_ID3)

/* operands: what the cube core multiplies by what is made here; of these the last has the keys'
 * rows, and the others the queries'. */
static inline __aicore__ void
ASC_NAME(neighborhood_attend)(const flash_problem *f, neighborhood_ub *u,
                              const NEIGHBORHOOD_WORK *work, int64_t reach,
                              const FLASH_TENSOR *operands, int count, __gm__ float *lse)
{
    asc_modes_set();
    asc_duplicate(ASC_UB(float, u->factor_at, 0), f->scale, 8);
    const int64_t places[] = {u->values_at, u->sum_at,
                              u->top_at}; /* the last in the forward alone */
    for (int i = 0; i < (work->ds[0][0] ? 2 : 3); i++)
        asc_duplicate(ASC_UB(float, places[i], 0), 0.0f, (uint32_t)asc_round_up(f->group, 8));
    ASC_THEN();
    NEIGHBORHOOD_FLAGS(asc_sync_notify);
    for (int64_t step = 0; neighborhood_first(step) < neighborhood_windows(f); step++) {
        const int64_t window = neighborhood_first(step) + asc_get_sub_block_id();
        const neighborhood_window w = neighborhood_window_of(f, window, reach);
        ASC_THEN();
        asc_duplicate(ASC_UB(float, u->lanes_at, 0), 0.0f, ASC_LANES);
        ASC_THEN();
        for (int i = 0; i < count - 1; i++)
            ASC_NAME(neighborhood_look)(f, u, &operands[i], w.batch, w.head, w.row, w.rows);
        ASC_NAME(neighborhood_look)(f, u, &operands[count - 1], w.batch, w.head, w.key, w.keys);
        asc_sync_block_wait(PIPE_S, FLASH_SCORED);
        ASC_NAME(neighborhood_attend_window)
        (f, u, &w, work, (int)(step % 2), ASC_NAME(neighborhood_odd)(work, window), lse);
        asc_sync_block_arrive(PIPE_MTE3, FLASH_WEIGHED);
    }
    NEIGHBORHOOD_FLAGS(asc_sync_wait);
    asc_modes_clear();
}

#undef NEIGHBORHOOD_FLAGS
#undef NEIGHBORHOOD_WITH_BLOCK
