/* group_norm_rows.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* A parameter of the strip's channels, or what stands for it, as a number of each row. at,
 * scratch: as many floats. */
static inline __aicore__ void
ASC_NAME(group_rows_parameter)(__ubuf__ float *values, uint64_t staged, __gm__ void *vector,
                               int64_t is_f32, float instead, const group_strip *s, int64_t width,
                               int64_t together, __ubuf__ float *at, __ubuf__ float *scratch)
{
    const int64_t channels = s->beside * width, lines = s->lines / width;
    const int64_t each = channels * lines;
    if (!vector) {
        asc_duplicate(values, instead, (uint32_t)asc_round_up(together * each, 8));
        ASC_THEN();
        return;
    }
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)(staged, vector, is_f32, s->group * width, channels);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(values, staged, is_f32, 0.0f, asc_round_up(channels, 8));
    ASC_THEN();
    if (lines > 1)
        asc_runs_turn(values, at, scratch, each, lines, 0, -1);
    if (together > 1)
        asc_runs_turn(values, at, scratch, together * each, each, 1, each);
}

ASC_KERNEL ASC_NAME(group_norm_forward_rows)(ASC_PARAMS(GROUP_NORM_FORWARD_ROWS))
{
    const int64_t size = sizeof(ASC_T), pitch = asc_round_up(columns, ASC_LANES);
    const int64_t group_lines = width * lines, folds = pitch / ASC_LANES;
    const int64_t eights = asc_round_up(tile_rows, 8);
    __ubuf__ float *weights = ASC_SCRATCH(weights), *values = ASC_SCRATCH(values);
    __ubuf__ float *scales = ASC_SCRATCH(scales), *shifts = ASC_SCRATCH(shifts);
    __ubuf__ float *means = ASC_SCRATCH(means), *q = ASC_SCRATCH(q);
    __ubuf__ float *row_means = ASC_SCRATCH(row_means), *row_rstds = ASC_SCRATCH(row_rstds);
    __ubuf__ float *group_of = ASC_SCRATCH(group_of), *eighth = ASC_SCRATCH(eighth);
    int slot = 0;
    (void)rows, (void)tile_columns;
    asc_clear_begin();
    asc_clear(x_at, tile_rows * pitch * size);
    asc_clear(mean_at, eights * 4);
    asc_clear(rstd_at, eights * 4);
    asc_clear_copies(weights_at, 1, eights * 4);
    asc_clear_copies(values_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    const asc_runs of_group = asc_runs_of(group_lines * folds, tile_rows / group_lines,
                                          group_lines * folds, 1, asc_place(of_group_at, 0));
    const uint32_t lanes = (uint32_t)of_group.lanes;
    asc_runs_table(group_of, row_means, eights, group_lines, 0, -1);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < group_strip_tasks(groups, beside, shares);
         task += asc_get_block_num()) {
        const group_strip strip =
            group_strip_at(task, batches, groups, group_lines, beside, together, shares);
        ASC_NAME(group_rows_parameter)
        (weights, asc_place(staged_at, 0), bias, bias_f32, 0.0f, &strip, width, together,
         ASC_SCRATCH(turned), ASC_SCRATCH(scratch));
        asc_spread(shifts, weights, tile_rows);
        ASC_THEN();
        ASC_NAME(group_rows_parameter)
        (weights, asc_place(staged_at, 0), weight, weight_f32, 1.0f, &strip, width, together,
         ASC_SCRATCH(turned), ASC_SCRATCH(scratch));
        for (int64_t batch = strip.begin; batch < strip.end; batch += together, slot ^= 1) {
            const group_rows t = group_rows_at(&strip, batch, together, columns);
            const int64_t count = t.batches * t.each, n = count * pitch;
            const int64_t at = batch * groups + strip.group, found = t.batches * strip.beside;
            __ubuf__ float *mean32 = ASC_UB(float, mean_at, slot);
            __ubuf__ float *rstd32 = ASC_UB(float, rstd_at, slot);
            __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
            ASC_MAY_FILL(slot);
            group_rows_in(asc_place(x_at, slot), x, size, x_batch, x_line, &t);
            ASC_HAS_FILLED(slot);
#if ASC_16BIT
            __ubuf__ float *in = ASC_SCRATCH(x32);
            ASC_WIDEN(in, ASC_UB(ASC_T, x_at, slot), (uint32_t)n);
            ASC_THEN();
#else
            __ubuf__ float *in = ASC_UB(float, x_at, slot);
#endif
            asc_row_folds folded = {values, in, eighth};
            asc_run_sums sum = {row_means, values, eighth};
            asc_fold_rows(&folded, 1, n);
            asc_runs_sum(&of_group, &sum, 1);
            ASC_MAY_WRITE(slot);
            asc_mul_scalar(mean32, sum.sums, asc_f32(part), lanes);
            ASC_THEN();
            __ubuf__ float *of_rows =
                group_of_rows(row_means, mean32, group_of, group_lines, eights);
            ASC_THEN();
            asc_spread(means, of_rows, count);
            ASC_THEN();
            ASC_BY_ROW(asc_sub, q, in, means, count, pitch);
            ASC_THEN();
            asc_square_rows(in, q, count, pitch, columns);
            ASC_THEN();
            sum.sums = row_means;
            asc_fold_rows(&folded, 1, n);
            ASC_HAS_READ(slot);
            asc_runs_sum(&of_group, &sum, 1);
            asc_mul_scalar(rstd32, sum.sums, asc_f32(part), lanes);
            ASC_THEN();
            asc_inverse_roots(rstd32, row_rstds, lanes, asc_f32(eps));
            of_rows = group_of_rows(row_means, rstd32, group_of, group_lines, eights);
            ASC_THEN();
            asc_mul(row_rstds, of_rows, weights, (uint32_t)eights);
            ASC_THEN();
            asc_spread(scales, row_rstds, count);
            ASC_THEN();
#if ASC_16BIT
            ASC_FMA_BY_ROW(1, q, scales, shifts, count, pitch);
            ASC_THEN();
            ASC_NARROW(out, q, (uint32_t)n);
#else
            ASC_BY_ROW(asc_mul, out, q, scales, count, pitch);
            ASC_THEN();
            ASC_BY_ROW(asc_add, out, out, shifts, count, pitch);
#endif
            ASC_HAS_WRITTEN(slot);
            group_rows_out(y, asc_place(y_at, slot), size, y_batch, y_line, &t);
            if (mean)
                asc_copy_ub2gm_align(mean + at, mean32, (uint32_t)(found * 4));
            if (rstd)
                asc_copy_ub2gm_align(rstd + at, rstd32, (uint32_t)(found * 4));
            ASC_HAS_LEFT(slot);
        }
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(group_norm_backward_rows)(ASC_PARAMS(GROUP_NORM_BACKWARD_ROWS))
{
    const int64_t size = sizeof(ASC_T), pitch = asc_round_up(columns, ASC_LANES);
    const int64_t group_lines = width * lines, folds = pitch / ASC_LANES;
    const int64_t eights = asc_round_up(tile_rows, 8), bytes = tile_rows * pitch * size;
    __ubuf__ float *weights = ASC_SCRATCH(weights), *scales = ASC_SCRATCH(scales);
    __ubuf__ float *values0 = ASC_SCRATCH(values0), *values1 = ASC_SCRATCH(values1);
    __ubuf__ float *eighth0 = ASC_SCRATCH(eighth0), *eighth1 = ASC_SCRATCH(eighth1);
    __ubuf__ float *sums = ASC_SCRATCH(sums), *products = ASC_SCRATCH(products);
    __ubuf__ float *means = ASC_SCRATCH(means), *rstds = ASC_SCRATCH(rstds);
    __ubuf__ float *shifts = ASC_SCRATCH(shifts), *factors = ASC_SCRATCH(factors);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    __ubuf__ float *group_of = ASC_SCRATCH(group_of), *normal = ASC_SCRATCH(x32);
    int slot = 0;
    (void)rows, (void)tile_columns;
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
    const asc_runs of_row = asc_runs_of(folds, tile_rows, folds, 1, asc_place(of_row_at, 0));
    const asc_runs of_group = asc_runs_of(group_lines, tile_rows / group_lines, group_lines, 1,
                                          asc_place(of_group_at, 0));
    asc_runs_table(group_of, ASC_SCRATCH(row_means), eights, group_lines, 0, -1);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* the sums of the last task have left */
    for (int64_t task = asc_get_block_idx(); task < group_strip_tasks(groups, beside, shares);
         task += asc_get_block_num()) {
        const group_strip strip =
            group_strip_at(task, batches, groups, group_lines, beside, together, shares);
        ASC_NAME(group_rows_parameter)
        (weights, asc_place(staged_at, 0), weight, weight_f32, 1.0f, &strip, width, together,
         ASC_SCRATCH(turned), ASC_SCRATCH(scratch));
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
        asc_spread(scales, weights, tile_rows);
        asc_duplicate(dw, 0.0f, (uint32_t)eights);
        asc_duplicate(db, 0.0f, (uint32_t)eights);
        for (int64_t batch = strip.begin; batch < strip.end; batch += together, slot ^= 1) {
            const group_rows t = group_rows_at(&strip, batch, together, columns);
            const int64_t count = t.batches * t.each, n = count * pitch;
            const int64_t at = batch * groups + strip.group, found = t.batches * strip.beside;
            const uint32_t some = (uint32_t)count;
            __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, slot);
            ASC_MAY_FILL(slot);
            group_rows_in(asc_place(dy_at, slot), dy, size, dy_batch, dy_line, &t);
            group_rows_in(asc_place(x_at, slot), x, size, x_batch, x_line, &t);
            asc_copy_rows_in(asc_place(mean_at, slot), mean + at, 1, found * 4, 0, 0);
            asc_copy_rows_in(asc_place(rstd_at, slot), rstd + at, 1, found * 4, 0, 0);
            ASC_HAS_FILLED(slot);
#if ASC_16BIT
            __ubuf__ float *m = ASC_SCRATCH(dy32), *from = normal, *p = ASC_SCRATCH(p);
            ASC_WIDEN(m, ASC_UB(ASC_T, dy_at, slot), (uint32_t)n);
            ASC_WIDEN(normal, ASC_UB(ASC_T, x_at, slot), (uint32_t)n);
#else
            __ubuf__ float *m = ASC_UB(float, dy_at, slot), *p = out;
            __ubuf__ float *from = ASC_UB(float, x_at, slot);
#endif
            __ubuf__ float *row_means =
                group_of_rows(ASC_SCRATCH(row_means), ASC_UB(float, mean_at, slot), group_of,
                              group_lines, eights);
            __ubuf__ float *row_rstds =
                group_of_rows(ASC_SCRATCH(row_rstds), ASC_UB(float, rstd_at, slot), group_of,
                              group_lines, eights);
            ASC_THEN();
            asc_spread(means, row_means, count);
            asc_spread(rstds, row_rstds, count);
            ASC_THEN();
            ASC_BY_ROW(asc_sub, normal, from, means, count, pitch);
            ASC_MAY_WRITE(slot);
            ASC_THEN();
            asc_mul(p, m, normal, (uint32_t)n);
            ASC_THEN();
            asc_row_folds folded[2] = {{values0, m, eighth0}, {values1, p, eighth1}};
            asc_run_sums s[2] = {{sums, values0, eighth0}, {products, values1, eighth1}};
            asc_fold_rows(folded, 2, n);
            asc_runs_sum(&of_row, s, 2);
            asc_add(db, db, s[0].sums, some);
            asc_mul(s[1].sums, s[1].sums, row_rstds, some);
            ASC_THEN();
            asc_add(dw, dw, s[1].sums, some);
            ASC_THEN();
            asc_mul(values0, s[0].sums, weights, some);
            asc_mul(values1, s[1].sums, weights, some);
            ASC_THEN();
            s[0].sums = sums;
            s[1].sums = products;
            asc_runs_sum(&of_group, s, 2);
            asc_mul_scalar(s[0].sums, s[0].sums, -asc_f32(part), (uint32_t)of_group.lanes);
            asc_mul_scalar(s[1].sums, s[1].sums, -asc_f32(part), (uint32_t)of_group.lanes);
            ASC_THEN();
            group_of_rows(values0, s[0].sums, group_of, group_lines, eights);
            group_of_rows(values1, s[1].sums, group_of, group_lines, eights);
            ASC_THEN();
            asc_mul(values1, values1, row_rstds, some);
            asc_spread(shifts, values0, count);
            ASC_THEN();
            asc_spread(factors, values1, count);
#if ASC_16BIT
            ASC_FMA_BY_ROW(1, m, scales, shifts, count, pitch);
            ASC_THEN();
            ASC_BY_ROW(ASC_MUL_ADD, normal, m, factors, count, pitch);
            ASC_THEN();
            ASC_BY_ROW(asc_mul, normal, normal, rstds, count, pitch);
            ASC_THEN();
            ASC_NARROW(out, normal, (uint32_t)n);
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
            ASC_HAS_READ(slot);
            ASC_HAS_WRITTEN(slot);
            group_rows_out(dx, asc_place(dx_at, slot), size, dx_batch, dx_line, &t);
            ASC_HAS_LEFT(slot);
        }
        const int64_t channels = strip.beside * width;
        const int64_t to = task % shares * partials_stride + strip.group * width;
        group_sums g[2] = {{dw, sums, eighth0}, {db, products, eighth1}};
        group_sum_channels(g, lines, together, channels, asc_place(turned_at, 0));
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        if (dweights)
            asc_copy_ub2gm_align(dweights + to, g[0].numbers, (uint32_t)(channels * 4));
        if (dbiases)
            asc_copy_ub2gm_align(dbiases + to, g[1].numbers, (uint32_t)(channels * 4));
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_pipeline_end();
}
