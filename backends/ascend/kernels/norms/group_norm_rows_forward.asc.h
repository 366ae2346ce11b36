/* group_norm_rows_forward.asc.h - the forward kernel of one type; see asc_each_type.h. */

/* What copies do not reach of the buffers that they fill, and the runs of a tile. */
GROUP_ROWS_STEP(group_forward_rows_begin, GROUP_NORM_FORWARD_ROWS)
{
    const int64_t pitch = asc_round_up(columns, ASC_LANES), folds = pitch / ASC_LANES;
    const int64_t group_lines = width * lines, eights = asc_round_up(tile_rows, 8);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * pitch * (int64_t)sizeof(ASC_T));
    asc_clear(mean_at, eights * 4);
    asc_clear(rstd_at, eights * 4);
    asc_clear_copies(weights_at, 1, eights * 4);
    asc_clear_copies(values_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    s->of_group = asc_runs_of(group_lines * folds, tile_rows / group_lines, group_lines * folds, 1,
                              asc_place(of_group_at, 0));
    asc_runs_table(ASC_SCRATCH(group_of), ASC_SCRATCH(row_means), eights, group_lines, 0, -1);
}

/* What belongs to the channels of a strip: the shift of each row as a block, and its weight. */
GROUP_ROWS_STEP(group_forward_rows_strip, GROUP_NORM_FORWARD_ROWS)
{
    __ubuf__ float *weights = ASC_SCRATCH(weights);
    ASC_NAME(group_rows_parameter)
    (weights, asc_place(staged_at, 0), bias, bias_f32, 0.0f, &s->strip, width, together,
     ASC_SCRATCH(turned), ASC_SCRATCH(scratch));
    asc_spread(ASC_SCRATCH(shifts), weights, tile_rows);
    ASC_THEN();
    ASC_NAME(group_rows_parameter)
    (weights, asc_place(staged_at, 0), weight, weight_f32, 1.0f, &s->strip, width, together,
     ASC_SCRATCH(turned), ASC_SCRATCH(scratch));
}

GROUP_ROWS_STEP(group_forward_rows_in, GROUP_NORM_FORWARD_ROWS)
{
    ASC_MAY_FILL(s->slot);
    group_rows_in(asc_place(x_at, s->slot), x, (int64_t)sizeof(ASC_T), x_batch, x_line, &s->t);
    ASC_HAS_FILLED(s->slot);
#if ASC_16BIT
    s->x = ASC_SCRATCH(x32);
    ASC_WIDEN(s->x, ASC_UB(ASC_T, x_at, s->slot), (uint32_t)s->n);
    ASC_THEN();
#else
    s->x = ASC_UB(float, x_at, s->slot);
#endif
}

/* mean and rstd of the groups, q = x - mean, and weight rstd of the rows as blocks. */
GROUP_ROWS_STEP(group_forward_rows_statistics, GROUP_NORM_FORWARD_ROWS)
{
    const int64_t eights = asc_round_up(tile_rows, 8), count = s->count, pitch = s->t.pitch;
    const uint32_t found = (uint32_t)s->of_group.lanes;
    __ubuf__ float *q = ASC_SCRATCH(q), *values = ASC_SCRATCH(values);
    __ubuf__ float *row_means = ASC_SCRATCH(row_means), *row_rstds = ASC_SCRATCH(row_rstds);
    __ubuf__ float *mean32 = ASC_UB(float, mean_at, s->slot);
    __ubuf__ float *rstd32 = ASC_UB(float, rstd_at, s->slot);
    asc_row_folds folded = {values, s->x, ASC_SCRATCH(eighth)};
    asc_run_sums sum = {row_means, values, ASC_SCRATCH(eighth)};
    asc_fold_rows(&folded, 1, s->n);
    asc_runs_sum(&s->of_group, &sum, 1);
    ASC_MAY_WRITE(s->slot);
    asc_mul_scalar(mean32, sum.sums, asc_f32(part), found);
    ASC_THEN();
    __ubuf__ float *of_rows =
        group_of_rows(row_means, mean32, ASC_SCRATCH(group_of), width * lines, eights);
    ASC_THEN();
    asc_spread(ASC_SCRATCH(means), of_rows, count);
    ASC_THEN();
    ASC_BY_ROW(asc_sub, q, s->x, ASC_SCRATCH(means), count, pitch);
    ASC_THEN();
    asc_square_rows(s->x, q, count, pitch, columns);
    ASC_THEN();
    sum.sums = row_means;
    asc_fold_rows(&folded, 1, s->n);
    ASC_HAS_READ(s->slot);
    asc_runs_sum(&s->of_group, &sum, 1);
    asc_mul_scalar(rstd32, sum.sums, asc_f32(part), found);
    ASC_THEN();
    asc_inverse_roots(rstd32, row_rstds, found, asc_f32(eps));
    of_rows = group_of_rows(row_means, rstd32, ASC_SCRATCH(group_of), width * lines, eights);
    ASC_THEN();
    asc_mul(row_rstds, of_rows, ASC_SCRATCH(weights), (uint32_t)eights);
    ASC_THEN();
    asc_spread(ASC_SCRATCH(scales), row_rstds, count);
    ASC_THEN();
}

GROUP_ROWS_STEP(group_forward_rows_write, GROUP_NORM_FORWARD_ROWS)
{
    const int64_t count = s->count, pitch = s->t.pitch;
    __ubuf__ float *q = ASC_SCRATCH(q), *scales = ASC_SCRATCH(scales);
    __ubuf__ float *shifts = ASC_SCRATCH(shifts);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, s->slot);
#if ASC_16BIT
    ASC_FMA_BY_ROW(1, q, scales, shifts, count, pitch);
    ASC_THEN();
    ASC_NARROW(out, q, (uint32_t)s->n);
#else
    ASC_BY_ROW(asc_mul, out, q, scales, count, pitch);
    ASC_THEN();
    ASC_BY_ROW(asc_add, out, out, shifts, count, pitch);
#endif
    ASC_HAS_WRITTEN(s->slot);
    group_rows_out(y, asc_place(y_at, s->slot), (int64_t)sizeof(ASC_T), y_batch, y_line, &s->t);
    if (mean)
        asc_copy_ub2gm_align(mean + s->at, ASC_UB(float, mean_at, s->slot),
                             (uint32_t)(s->numbers * 4));
    if (rstd)
        asc_copy_ub2gm_align(rstd + s->at, ASC_UB(float, rstd_at, s->slot),
                             (uint32_t)(s->numbers * 4));
    ASC_HAS_LEFT(s->slot);
}

ASC_KERNEL ASC_NAME(group_norm_forward_rows)(ASC_PARAMS(GROUP_NORM_FORWARD_ROWS))
{
    group_rows_step s = {0};
    (void)rows, (void)tile_columns;
    ASC_NAME(group_forward_rows_begin)(&s, ASC_NAMES(GROUP_NORM_FORWARD_ROWS));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < group_strip_tasks(groups, beside, shares);
         task += asc_get_block_num()) {
        s.strip = group_strip_at(task, batches, groups, width * lines, beside, together, shares);
        ASC_NAME(group_forward_rows_strip)(&s, ASC_NAMES(GROUP_NORM_FORWARD_ROWS));
        for (int64_t batch = s.strip.begin; batch < s.strip.end; batch += together, s.slot ^= 1) {
            group_rows_enter(&s, batch, together, columns);
            ASC_NAME(group_forward_rows_in)(&s, ASC_NAMES(GROUP_NORM_FORWARD_ROWS));
            ASC_NAME(group_forward_rows_statistics)(&s, ASC_NAMES(GROUP_NORM_FORWARD_ROWS));
            ASC_NAME(group_forward_rows_write)(&s, ASC_NAMES(GROUP_NORM_FORWARD_ROWS));
        }
    }
    asc_pipeline_end();
}
