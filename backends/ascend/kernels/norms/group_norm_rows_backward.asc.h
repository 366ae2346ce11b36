/* group_norm_rows_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */

/* What copies do not reach of the buffers that they fill, and the runs of a tile. */
GROUP_ROWS_STEP(group_backward_rows_begin, GROUP_NORM_BACKWARD_ROWS)
{
    const int64_t pitch = asc_round_up(columns, ASC_LANES), folds = pitch / ASC_LANES;
    const int64_t bytes = tile_rows * pitch * (int64_t)sizeof(ASC_T);
    const int64_t group_lines = width * lines, eights = asc_round_up(tile_rows, 8);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(mean_at, eights * 4);
    asc_clear(rstd_at, eights * 4);
    asc_clear_copies(weights_at, 1, eights * 4);
    asc_clear_copies(values0_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    asc_clear_copies(values1_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    asc_clear_copies(sums_at, 1, eights * 4);
    asc_clear_copies(products_at, 1, eights * 4);
    s->of_row = asc_runs_of(folds, tile_rows, folds, 1, asc_place(of_row_at, 0));
    s->of_group = asc_runs_of(group_lines, tile_rows / group_lines, group_lines, 1,
                              asc_place(of_group_at, 0));
    asc_runs_table(ASC_SCRATCH(group_of), ASC_SCRATCH(row_means), eights, group_lines, 0, -1);
}

/* The weights of a strip's channels for each row, and as blocks; sums that are 0, when those
 * of the last strip have left. */
GROUP_ROWS_STEP(group_backward_rows_strip, GROUP_NORM_BACKWARD_ROWS)
{
    const uint32_t eights = (uint32_t)asc_round_up(tile_rows, 8);
    ASC_NAME(group_rows_parameter)
    (ASC_SCRATCH(weights), asc_place(staged_at, 0), weight, weight_f32, 1.0f, &s->strip, width,
     together, ASC_SCRATCH(turned), ASC_SCRATCH(scratch));
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_spread(ASC_SCRATCH(scales), ASC_SCRATCH(weights), tile_rows);
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, eights);
    asc_duplicate(ASC_SCRATCH(dbias), 0.0f, eights);
}

GROUP_ROWS_STEP(group_backward_rows_in, GROUP_NORM_BACKWARD_ROWS)
{
    const int64_t size = sizeof(ASC_T), bytes = s->numbers * 4;
    ASC_MAY_FILL(s->slot);
    group_rows_in(asc_place(dy_at, s->slot), dy, size, dy_batch, dy_line, &s->t);
    group_rows_in(asc_place(x_at, s->slot), x, size, x_batch, x_line, &s->t);
    asc_copy_rows_in(asc_place(mean_at, s->slot), mean + s->at, 1, bytes, 0, 0);
    asc_copy_rows_in(asc_place(rstd_at, s->slot), rstd + s->at, 1, bytes, 0, 0);
    ASC_HAS_FILLED(s->slot);
#if ASC_16BIT
    s->m = ASC_SCRATCH(dy32);
    s->x = ASC_SCRATCH(x32);
    s->p = ASC_SCRATCH(p);
    ASC_WIDEN(s->m, ASC_UB(ASC_T, dy_at, s->slot), (uint32_t)s->n);
    ASC_WIDEN(s->x, ASC_UB(ASC_T, x_at, s->slot), (uint32_t)s->n);
#else
    s->m = ASC_UB(float, dy_at, s->slot);
    s->x = ASC_UB(float, x_at, s->slot);
    s->p = ASC_UB(float, dx_at, s->slot);
#endif
}

/* x - mean in x32, and its products with dy. Returns rstd of each row; rstds: as blocks. */
static inline __aicore__ __ubuf__ float *
ASC_NAME(group_backward_rows_products)(const group_rows_step *s,
                                       ASC_PARAMS(GROUP_NORM_BACKWARD_ROWS))
{
    const int64_t eights = asc_round_up(tile_rows, 8);
    __ubuf__ float *group_of = ASC_SCRATCH(group_of), *normal = ASC_SCRATCH(x32);
    __ubuf__ float *row_means = group_of_rows(
        ASC_SCRATCH(row_means), ASC_UB(float, mean_at, s->slot), group_of, width * lines, eights);
    __ubuf__ float *row_rstds = group_of_rows(
        ASC_SCRATCH(row_rstds), ASC_UB(float, rstd_at, s->slot), group_of, width * lines, eights);
    ASC_THEN();
    asc_spread(ASC_SCRATCH(means), row_means, s->count);
    asc_spread(ASC_SCRATCH(rstds), row_rstds, s->count);
    ASC_THEN();
    ASC_BY_ROW(asc_sub, normal, s->x, ASC_SCRATCH(means), s->count, s->t.pitch);
    ASC_MAY_WRITE(s->slot);
    ASC_THEN();
    asc_mul(s->p, s->m, normal, (uint32_t)s->n);
    ASC_THEN();
    return row_rstds;
}

/* The sums of the rows, added to dweight and dbias, and what dx takes of 1 and of x - mean: as
 * blocks, shifts and factors. */
GROUP_ROWS_STEP(group_backward_rows_sums, GROUP_NORM_BACKWARD_ROWS)
{
    const int64_t group_lines = width * lines, eights = asc_round_up(tile_rows, 8);
    const uint32_t some = (uint32_t)s->count, found = (uint32_t)s->of_group.lanes;
    __ubuf__ float *values0 = ASC_SCRATCH(values0), *values1 = ASC_SCRATCH(values1);
    __ubuf__ float *eighth0 = ASC_SCRATCH(eighth0), *eighth1 = ASC_SCRATCH(eighth1);
    __ubuf__ float *sums = ASC_SCRATCH(sums), *products = ASC_SCRATCH(products);
    __ubuf__ float *weights = ASC_SCRATCH(weights), *group_of = ASC_SCRATCH(group_of);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    __ubuf__ float *row_rstds =
        ASC_NAME(group_backward_rows_products)(s, ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
    asc_row_folds folded[2] = {{values0, s->m, eighth0}, {values1, s->p, eighth1}};
    asc_run_sums of[2] = {{sums, values0, eighth0}, {products, values1, eighth1}};
    asc_fold_rows(folded, 2, s->n);
    asc_runs_sum(&s->of_row, of, 2);
    asc_add(db, db, of[0].sums, some);
    asc_mul(of[1].sums, of[1].sums, row_rstds, some);
    ASC_THEN();
    asc_add(dw, dw, of[1].sums, some);
    ASC_THEN();
    asc_mul(values0, of[0].sums, weights, some);
    asc_mul(values1, of[1].sums, weights, some);
    ASC_THEN();
    of[0].sums = sums;
    of[1].sums = products;
    asc_runs_sum(&s->of_group, of, 2);
    asc_mul_scalar(of[0].sums, of[0].sums, -asc_f32(part), found);
    asc_mul_scalar(of[1].sums, of[1].sums, -asc_f32(part), found);
    ASC_THEN();
    group_of_rows(values0, of[0].sums, group_of, group_lines, eights);
    group_of_rows(values1, of[1].sums, group_of, group_lines, eights);
    ASC_THEN();
    asc_mul(values1, values1, row_rstds, some);
    asc_spread(ASC_SCRATCH(shifts), values0, s->count);
    ASC_THEN();
    asc_spread(ASC_SCRATCH(factors), values1, s->count);
}

/* dx of a tile, which leaves. */
GROUP_ROWS_STEP(group_backward_rows_write, GROUP_NORM_BACKWARD_ROWS)
{
    const int64_t count = s->count, pitch = s->t.pitch;
    __ubuf__ float *scales = ASC_SCRATCH(scales), *shifts = ASC_SCRATCH(shifts);
    __ubuf__ float *factors = ASC_SCRATCH(factors), *rstds = ASC_SCRATCH(rstds);
    __ubuf__ float *m = s->m, *normal = ASC_SCRATCH(x32);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, s->slot);
#if ASC_16BIT
    ASC_FMA_BY_ROW(1, m, scales, shifts, count, pitch);
    ASC_THEN();
    ASC_BY_ROW(ASC_MUL_ADD, normal, m, factors, count, pitch);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, normal, normal, rstds, count, pitch);
    ASC_THEN();
    ASC_NARROW(out, normal, (uint32_t)s->n);
#else
    ASC_BY_ROW(asc_mul, out, m, scales, count, pitch);
    ASC_THEN();
    ASC_BY_ROW(asc_add, out, out, shifts, count, pitch);
    ASC_THEN();
    ASC_BY_ROW(ASC_MUL_ADD, normal, out, factors, count, pitch);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, out, normal, rstds, count, pitch);
#endif
    ASC_THEN();
    ASC_HAS_READ(s->slot);
    ASC_HAS_WRITTEN(s->slot);
    group_rows_out(dx, asc_place(dx_at, s->slot), (int64_t)sizeof(ASC_T), dx_batch, dx_line, &s->t);
    ASC_HAS_LEFT(s->slot);
}

/* The sums of a strip's channels, from `to` on. */
static inline __aicore__ void
ASC_NAME(group_backward_rows_leave)(const group_rows_step *s, int64_t to,
                                    ASC_PARAMS(GROUP_NORM_BACKWARD_ROWS))
{
    const int64_t channels = s->strip.beside * width;
    group_sums g[2] = {{ASC_SCRATCH(dweight), ASC_SCRATCH(sums), ASC_SCRATCH(eighth0)},
                       {ASC_SCRATCH(dbias), ASC_SCRATCH(products), ASC_SCRATCH(eighth1)}};
    group_sum_channels(g, lines, together, channels, asc_place(turned_at, 0));
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    if (dweights)
        asc_copy_ub2gm_align(dweights + to, g[0].numbers, (uint32_t)(channels * 4));
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + to, g[1].numbers, (uint32_t)(channels * 4));
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
}

ASC_KERNEL ASC_NAME(group_norm_backward_rows)(ASC_PARAMS(GROUP_NORM_BACKWARD_ROWS))
{
    group_rows_step s = {0};
    (void)rows, (void)tile_columns;
    ASC_NAME(group_backward_rows_begin)(&s, ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* the sums of the last task have left */
    for (int64_t task = asc_get_block_idx(); task < group_strip_tasks(groups, beside, shares);
         task += asc_get_block_num()) {
        s.strip = group_strip_at(task, batches, groups, width * lines, beside, together, shares);
        ASC_NAME(group_backward_rows_strip)(&s, ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
        for (int64_t batch = s.strip.begin; batch < s.strip.end; batch += together, s.slot ^= 1) {
            group_rows_enter(&s, batch, together, columns);
            ASC_NAME(group_backward_rows_in)(&s, ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
            ASC_NAME(group_backward_rows_sums)(&s, ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
            ASC_NAME(group_backward_rows_write)(&s, ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
        }
        ASC_NAME(group_backward_rows_leave)
        (&s, task % shares * partials_stride + s.strip.group * width,
         ASC_NAMES(GROUP_NORM_BACKWARD_ROWS));
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_pipeline_end();
}
