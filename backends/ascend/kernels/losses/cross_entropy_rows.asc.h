/* cross_entropy_rows.asc.h - the kernel of one type; see asc_each_type.h. */

/* A tile's logits and what else there is a row of, into the buffers of `slot`. */
static inline __aicore__ void ASC_NAME(ce_load)(const ce_job *job, const asc_tile *tile, int slot,
                                                __gm__ ASC_T *logits, asc_groups from, int64_t x_at,
                                                __gm__ int64_t *target, int64_t target_at,
                                                __gm__ float *dloss, __gm__ float *lse)
{
    const int64_t pitch = asc_pitch(*tile, sizeof(ASC_T));
    ASC_MAY_FILL(slot);
    ASC_WAIT(PIPE_S, PIPE_MTE2, slot);
    for (int64_t r = 0, n; r < tile->rows; r += n) {
        n = asc_rows_of_group(from, tile->row + r, tile->rows - r);
        ce_rows_in(asc_place(x_at, slot) + (uint64_t)(r * pitch * (int64_t)sizeof(ASC_T)),
                   logits + asc_row_at(from, tile->row + r), n,
                   tile->columns * (int64_t)sizeof(ASC_T), from.stride * (int64_t)sizeof(ASC_T),
                   pitch * (int64_t)sizeof(ASC_T));
    }
    ce_values_in(ASC_UB(int64_t, target_at, slot), target + tile->row, tile->rows * 8);
    if (dloss)
        ce_values_in(ce_at(job, CE_G), dloss + tile->row, tile->rows * 4);
    if (lse)
        ce_values_in(ce_at(job, CE_ROWS_LSE), lse + tile->row, tile->rows * 4);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, slot);
}

static inline __aicore__ void ASC_NAME(ce_store)(const asc_tile *tile, __gm__ ASC_T *dlogits,
                                                 asc_groups to, uint64_t src)
{
    const int64_t size = sizeof(ASC_T), pitch = asc_pitch(*tile, size);
    for (int64_t r = 0, n; r < tile->rows; r += n) {
        n = asc_rows_of_group(to, tile->row + r, tile->rows - r);
        asc_copy_rows_out(dlogits + asc_row_at(to, tile->row + r),
                          src + (uint64_t)(r * pitch * size), n, tile->columns * size,
                          to.stride * size, pitch * size);
    }
}

ASC_KERNEL ASC_NAME(cross_entropy_rows)(ASC_PARAMS(CROSS_ENTROPY_ROWS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t step = asc_get_block_num();
    const asc_groups from = asc_groups_of(logits_rows, logits_group, logits_stride);
    const asc_groups to = asc_groups_of(dlogits_rows, dlogits_group, dlogits_stride);
    __gm__ float *each = flags & CE_EACH ? dloss : 0, *saved = flags & CE_SAVED ? lse : 0;
    ce_job jobs[2] = {{0}};
    __ubuf__ float *sums = ASC_UB(float, sums_at, 0); /* of loss, z_loss, accuracy */
    ce_tile t = {0};
    int slot = 0;
    asc_init();
    asc_dcci_entire_all();
    jobs[0].flags = flags;
    jobs[0].ignore_index = ignore_index;
    jobs[0].columns = columns;
    jobs[0].smoothing = asc_f32(smoothing);
    jobs[0].z = asc_f32(z);
    jobs[0].softcap = asc_f32(softcap);
    jobs[0].grad_scale = asc_f32(grad_scale);
    jobs[0].scale = asc_f32(scale);
    jobs[0].unit = asc_f32(unit);
    jobs[0].batch = CE_MOST_ROWS;
    if (!ce_read_counts(&jobs[0], counts, ASC_UB(float, counts_at, 0), count_blocks))
        return;
    jobs[1] = jobs[0];
    const float g = dloss && !each ? dloss[0] : 1.0f;
    for (int i = 0; i < 2; i++) {
        jobs[i].lanes = ASC_UB(float, lanes_at, i);
        asc_duplicate(jobs[i].lanes, 0.0f, CE_LANES * CE_MOST_ROWS);
        asc_duplicate(ASC_UB(int16_t, y_at, i), 0, (uint32_t)asc_round_up(tile_rows, 4));
    }
    asc_duplicate(sums, 0.0f, 3 * CE_MOST_ROWS);
    t.columns = columns;
    t.fold = ASC_UB(float, fold_at, 0);
    t.eighth = ASC_UB(float, eighth_at, 0);
    t.block = ASC_UB(float, block_at, 0);
    t.bias = ASC_UB(float, bias_at, 0);
    t.at_target = ASC_UB(float, at_target_at, 0);
    t.t = ASC_UB(float, t_at, 0);
    t.s = ASC_UB(float, s_at, 0);
    t.slopes = writes && jobs[0].softcap > 0.0f;
    t.levels = ASC_UB(float, levels_at, 0);
    t.number = ASC_UB(int32_t, number_at, 0);
    t.w = class_weight ? ASC_UB(float, class_weight_at, 0) : 0;
    t.limit = flags & CE_CLASSES ? ASC_UB(float, limit_at, 0) : 0;
    t.pitch = asc_round_up(columns, 32 / (int64_t)sizeof(ASC_T));
    t.most_rows = tile_rows;
    for (int64_t r = 0; r < tile_rows; r++)
        t.number[r] = (int32_t)r;
    if (t.w)
        ce_values_in(t.w, class_weight, columns * 4);
    asc_sync();
    if (t.limit)
        ce_set_limits(&t);
    if (flags & CE_ARGMAX)
        ce_clear_levels(&t);
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    int64_t task = asc_get_block_idx();
    if (task < grid.tasks) { /* unreached: no task; a launch has no more blocks than tasks */
        const asc_tile tile = asc_tile_at(grid, task);
        ASC_NAME(ce_load)
        (&jobs[0], &tile, 0, logits, from, logits_at, target, target_at, each, saved);
    }
    for (; task < grid.tasks; task += step, slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const ce_job *job = &jobs[slot];
        t.rows = tile.rows;
        t.target = ASC_UB(int64_t, target_at, slot);
        t.y = ASC_UB(int16_t, y_at, slot);
        if (task + step < grid.tasks) {
            const asc_tile next = asc_tile_at(grid, task + step);
            ASC_NAME(ce_load)
            (&jobs[slot ^ 1], &next, slot ^ 1, logits, from, logits_at, target, target_at, each,
             saved);
        }
        ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_S, slot);
        ASC_MAY_WRITE(slot);
#if ASC_16BIT
        __ubuf__ float *e = ASC_UB(float, e_at, 0);
        ASC_WIDEN(e, ASC_UB(ASC_T, logits_at, slot), (uint32_t)(t.rows * t.pitch));
#else
        __ubuf__ float *e = ASC_UB(float, logits_at, slot);
#endif
        if (!each)
            asc_duplicate(ce_at(job, CE_G), g, CE_MOST_ROWS);
        ce_take_hits(job, &t, e, 0);
        ASC_THEN();
        if (saved) {
            ce_rows_saved(job, &t, e, e);
        } else {
            ce_rows_forward(job, &t, e, e);
            ce_add_values(job, sums, CE_ROWS_LOSS, t.rows);
            ce_add_values(job, sums + CE_MOST_ROWS, CE_ROWS_Z, t.rows);
            ce_add_values(job, sums + 2 * CE_MOST_ROWS, CE_ROWS_RIGHT, t.rows);
            if (predicted)
                asc_int322int64(ASC_UB(int64_t, predicted_at, slot), ce_int_at(job, CE_BEST),
                                (uint32_t)t.rows);
        }
        if (writes) {
#if ASC_16BIT
            ce_rows_gradient(job, &t, e, e);
            ASC_NARROW(ASC_UB(ASC_T, dlogits_at, slot), e, (uint32_t)(t.rows * t.pitch));
            ASC_THEN();
#else
            ce_rows_gradient(job, &t, ASC_UB(float, dlogits_at, slot), e);
#endif
        }
        ASC_HAS_READ(slot);
        ASC_NOTIFY(PIPE_S, PIPE_MTE2, slot);
        ASC_HAS_WRITTEN(slot);
        if (writes)
            ASC_NAME(ce_store)(&tile, (__gm__ ASC_T *)dlogits, to, asc_place(dlogits_at, slot));
        if (!saved) {
            ce_values_out(lse, job, CE_ROWS_LSE, &tile);
            if (flags & CE_EACH) {
                ce_values_out(loss, job, CE_ROWS_LOSS, &tile);
                ce_values_out(z_loss, job, CE_ROWS_Z, &tile);
                ce_values_out(accuracy, job, CE_ROWS_RIGHT, &tile);
            }
            if (predicted)
                asc_copy_ub2gm_align(predicted + tile.row, ASC_UB(int64_t, predicted_at, slot),
                                     (uint32_t)(tile.rows * 8));
        }
        ASC_HAS_LEFT(slot);
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    asc_pipeline_end();
    if (flags & (CE_EACH | CE_SAVED))
        return;
    ce_sum_out(loss, sums);
    ce_sum_out(z_loss, sums + CE_MOST_ROWS);
    ce_sum_out(accuracy, sums + 2 * CE_MOST_ROWS);
}
