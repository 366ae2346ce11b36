/* cross_entropy_rows.asc.h - the kernel of one type; see asc_each_type.h. */

#define CE_ROWS_STEP(type, name, ...) \
    static inline __aicore__ type ASC_NAME(name)(__VA_ARGS__, ASC_PARAMS(CROSS_ENTROPY_ROWS))

/* A tile's logits and what else there is a row of, into the buffers of `slot`. */
CE_ROWS_STEP(void, ce_load, const ce_job *job, const asc_tile *tile, int slot)
{
    const asc_groups from = asc_groups_of(logits_rows, logits_group, logits_stride);
    const int64_t size = sizeof(ASC_T), pitch = asc_pitch(*tile, size);
    ASC_MAY_FILL(slot);
    ASC_WAIT(PIPE_S, PIPE_MTE2, slot);
    for (int64_t r = 0, n; r < tile->rows; r += n) {
        n = asc_rows_of_group(from, tile->row + r, tile->rows - r);
        ce_rows_in(asc_place(logits_at, slot) + (uint64_t)(r * pitch * size),
                   logits + asc_row_at(from, tile->row + r), n, tile->columns * size,
                   from.stride * size, pitch * size);
    }
    ce_values_in(ASC_UB(int64_t, target_at, slot), target + tile->row, tile->rows * 8);
    if (dloss && flags & CE_EACH)
        ce_values_in(ce_at(job, CE_G), dloss + tile->row, tile->rows * 4);
    if (flags & CE_SAVED)
        ce_values_in(ce_at(job, CE_ROWS_LSE), lse + tile->row, tile->rows * 4);
    ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
    ASC_NOTIFY(PIPE_MTE2, PIPE_S, slot);
}

CE_ROWS_STEP(void, ce_store, const asc_tile *tile, int slot)
{
    const asc_groups to = asc_groups_of(dlogits_rows, dlogits_group, dlogits_stride);
    const int64_t size = sizeof(ASC_T), pitch = asc_pitch(*tile, size);
    for (int64_t r = 0, n; r < tile->rows; r += n) {
        n = asc_rows_of_group(to, tile->row + r, tile->rows - r);
        asc_copy_rows_out((__gm__ ASC_T *)dlogits + asc_row_at(to, tile->row + r),
                          asc_place(dlogits_at, slot) + (uint64_t)(r * pitch * size), n,
                          tile->columns * size, to.stride * size, pitch * size);
    }
}

/* The jobs of both slots, of the first; and what is added up over all tiles. */
CE_ROWS_STEP(void, ce_rows_jobs, ce_job *jobs, __ubuf__ float *sums)
{
    jobs[1] = jobs[0];
    for (int i = 0; i < 2; i++) {
        jobs[i].lanes = ASC_UB(float, lanes_at, i);
        asc_duplicate(jobs[i].lanes, 0.0f, CE_LANES * CE_MOST_ROWS);
        asc_duplicate(ASC_UB(int16_t, y_at, i), 0, (uint32_t)asc_round_up(tile_rows, 4));
    }
    asc_duplicate(sums, 0.0f, 3 * CE_MOST_ROWS);
}

/* What all tiles have alike, the classes' weights among it. */
CE_ROWS_STEP(ce_tile, ce_rows_tile_of, const ce_job *job)
{
    ce_tile t = {0};
    t.columns = columns;
    t.fold = ASC_SCRATCH(fold);
    t.eighth = ASC_SCRATCH(eighth);
    t.block = ASC_SCRATCH(block);
    t.bias = ASC_SCRATCH(bias);
    t.at_target = ASC_SCRATCH(at_target);
    t.t = ASC_SCRATCH(t);
    t.s = ASC_SCRATCH(s);
    t.slopes = writes && job->softcap > 0.0f;
    t.levels = ASC_SCRATCH(levels);
    t.number = ASC_UB(int32_t, number_at, 0);
    t.w = class_weight ? ASC_SCRATCH(class_weight) : 0;
    t.limit = flags & CE_CLASSES ? ASC_SCRATCH(limit) : 0;
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
    return t;
}

/* The losses of a tile, of logits e, which are added to sums; or what a saved lse tells. */
CE_ROWS_STEP(void, ce_rows_losses, const ce_job *job, const ce_tile *t, int slot, __ubuf__ float *e,
             __ubuf__ float *sums)
{
    ce_take_hits(job, t, e, 0);
    ASC_THEN();
    if (flags & CE_SAVED) {
        ce_rows_saved(job, t, e, e);
        return;
    }
    ce_rows_forward(job, t, e, e);
    ce_add_values(job, sums, CE_ROWS_LOSS, t->rows);
    ce_add_values(job, sums + CE_MOST_ROWS, CE_ROWS_Z, t->rows);
    ce_add_values(job, sums + 2 * CE_MOST_ROWS, CE_ROWS_RIGHT, t->rows);
    if (predicted)
        asc_int322int64(ASC_UB(int64_t, predicted_at, slot), ce_int_at(job, CE_BEST),
                        (uint32_t)t->rows);
}

/* A tile that has come in; g: dloss, where it is one number. */
CE_ROWS_STEP(void, ce_rows_tile, const ce_job *job, ce_tile *t, int slot, float g,
             __ubuf__ float *sums)
{
    t->target = ASC_UB(int64_t, target_at, slot);
    t->y = ASC_UB(int16_t, y_at, slot);
    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
    ASC_WAIT(PIPE_MTE2, PIPE_S, slot);
    ASC_MAY_WRITE(slot);
#if ASC_16BIT
    __ubuf__ float *e = ASC_SCRATCH(e);
    ASC_WIDEN(e, ASC_UB(ASC_T, logits_at, slot), (uint32_t)(t->rows * t->pitch));
#else
    __ubuf__ float *e = ASC_UB(float, logits_at, slot);
#endif
    if (!dloss || !(flags & CE_EACH))
        asc_duplicate(ce_at(job, CE_G), g, CE_MOST_ROWS);
    ASC_NAME(ce_rows_losses)(job, t, slot, e, sums, ASC_NAMES(CROSS_ENTROPY_ROWS));
    if (writes) {
#if ASC_16BIT
        ce_rows_gradient(job, t, e, e);
        ASC_NARROW(ASC_UB(ASC_T, dlogits_at, slot), e, (uint32_t)(t->rows * t->pitch));
        ASC_THEN();
#else
        ce_rows_gradient(job, t, ASC_UB(float, dlogits_at, slot), e);
#endif
    }
    ASC_HAS_READ(slot);
    ASC_NOTIFY(PIPE_S, PIPE_MTE2, slot);
    ASC_HAS_WRITTEN(slot);
}

/* What there is of every row leaves. */
CE_ROWS_STEP(void, ce_rows_out, const ce_job *job, const asc_tile *tile, int slot)
{
    if (writes)
        ASC_NAME(ce_store)(tile, slot, ASC_NAMES(CROSS_ENTROPY_ROWS));
    if (!(flags & CE_SAVED)) {
        ce_values_out(lse, job, CE_ROWS_LSE, tile);
        if (flags & CE_EACH) {
            ce_values_out(loss, job, CE_ROWS_LOSS, tile);
            ce_values_out(z_loss, job, CE_ROWS_Z, tile);
            ce_values_out(accuracy, job, CE_ROWS_RIGHT, tile);
        }
        if (predicted)
            asc_copy_ub2gm_align(predicted + tile->row, ASC_UB(int64_t, predicted_at, slot),
                                 (uint32_t)(tile->rows * 8));
    }
    ASC_HAS_LEFT(slot);
}

ASC_KERNEL ASC_NAME(cross_entropy_rows)(ASC_PARAMS(CROSS_ENTROPY_ROWS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t step = asc_get_block_num();
    ce_job jobs[2] = {ce_job_of(columns, CE_MOST_ROWS, ASC_NAMES(CE_GIVEN))};
    __ubuf__ float *sums = ASC_SCRATCH(sums); /* of loss, z_loss, accuracy */
    int slot = 0;
    asc_init();
    asc_dcci_entire_all();
    if (!ce_read_counts(&jobs[0], counts, ASC_SCRATCH(counts), count_blocks))
        return;
    const float g = dloss && !(flags & CE_EACH) ? dloss[0] : 1.0f;
    ASC_NAME(ce_rows_jobs)(jobs, sums, ASC_NAMES(CROSS_ENTROPY_ROWS));
    ce_tile t = ASC_NAME(ce_rows_tile_of)(jobs, ASC_NAMES(CROSS_ENTROPY_ROWS));
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_S, PIPE_MTE2);
    int64_t task = asc_get_block_idx();
    if (task < grid.tasks) { /* unreached: no task; a launch has no more blocks than tasks */
        const asc_tile tile = asc_tile_at(grid, task);
        ASC_NAME(ce_load)(&jobs[0], &tile, 0, ASC_NAMES(CROSS_ENTROPY_ROWS));
    }
    for (; task < grid.tasks; task += step, slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        if (task + step < grid.tasks) {
            const asc_tile next = asc_tile_at(grid, task + step);
            ASC_NAME(ce_load)(&jobs[slot ^ 1], &next, slot ^ 1, ASC_NAMES(CROSS_ENTROPY_ROWS));
        }
        t.rows = tile.rows;
        ASC_NAME(ce_rows_tile)(&jobs[slot], &t, slot, g, sums, ASC_NAMES(CROSS_ENTROPY_ROWS));
        ASC_NAME(ce_rows_out)(&jobs[slot], &tile, slot, ASC_NAMES(CROSS_ENTROPY_ROWS));
    }
    ASC_SLOTS(asc_sync_wait, PIPE_S, PIPE_MTE2);
    asc_pipeline_end();
    if (flags & (CE_EACH | CE_SAVED))
        return;
    ce_sum_out(loss, sums);
    ce_sum_out(z_loss, sums + CE_MOST_ROWS);
    ce_sum_out(accuracy, sums + 2 * CE_MOST_ROWS);
}

#undef CE_ROWS_STEP
