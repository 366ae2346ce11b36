/* group_norm_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */

ASC_KERNEL ASC_NAME(group_norm_backward)(ASC_PARAMS(GROUP_NORM_BACKWARD))
{
    const group_norm_shape shape = {width, lines, columns, tile_rows, tile_columns};
    const int64_t size = sizeof(ASC_T), tiles = group_norm_tiles(&shape);
    const int64_t bytes = tile_rows * asc_round_up(tile_columns, ASC_LANES) * size;
    const int step = lines == 1;
    __ubuf__ float *numbers = ASC_SCRATCH(numbers), *p = ASC_SCRATCH(p);
    __ubuf__ float *means = numbers + GROUP_NORM_MEANS, *rstds = numbers + GROUP_NORM_RSTDS;
    __ubuf__ float *sum = numbers + GROUP_NORM_SUM, *product = numbers + GROUP_NORM_SQUARES;
    __ubuf__ float *of_one = numbers + GROUP_NORM_OF_ONE;
    __ubuf__ float *of_normal = numbers + GROUP_NORM_OF_NORMAL;
    __ubuf__ float *scales = ASC_SCRATCH(scales), *wide = ASC_SCRATCH(wide);
    __ubuf__ float *sums = ASC_SCRATCH(sums), *products = ASC_SCRATCH(products);
    __ubuf__ float *all_sums = ASC_SCRATCH(sums_of), *all_products = ASC_SCRATCH(products_of);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    int slot = 0, turn = 0;
    (void)rows;
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(weight_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(mean_at, 32);
    asc_clear(rstd_at, 32);
    asc_duplicate(numbers, 0.0f, GROUP_NORM_MEANS);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* dw and db have left */
    for (int64_t group = asc_get_block_idx(); group < batches * groups;
         group += asc_get_block_num(), turn ^= 1) {
        const int64_t channels = group % groups * width, batch = group / groups;
        const int64_t from = batch * x_batch + channels * lines * x_line;
        const int64_t from_dy = batch * dy_batch + channels * lines * dy_line;
        const int64_t to = batch * dx_batch + channels * lines * dx_line;
        int begins = 1; /* no set of channels has been added up */
        for (int writes = 0; writes <= 1; writes++)
            for (int64_t i = 0; i < tiles; i++, slot ^= 1) {
                const group_norm_tile t = group_norm_tile_at(&shape, i);
                const uint32_t n = (uint32_t)(t.rows * t.pitch), values = (uint32_t)t.values;
                ASC_MAY_FILL(slot);
                group_norm_in(asc_place(dy_at, slot), (__gm__ char *)dy, size, from_dy, dy_line,
                              &t);
                group_norm_in(asc_place(x_at, slot), (__gm__ char *)x, size, from, x_line, &t);
                if (weight)
                    ASC_NAME(asc_columns_in)
                (asc_place(weight_at, slot), weight, weight_f32, channels + t.channel, t.values);
                if (i == 0 && !writes) {
                    asc_copy_rows_in(asc_place(mean_at, turn), mean + group, 1, 4, 0, 0);
                    asc_copy_rows_in(asc_place(rstd_at, turn), rstd + group, 1, 4, 0, 0);
                }
                ASC_HAS_FILLED(slot);
                if (i == 0 && !writes) {
                    asc_spread(means, ASC_UB(float, mean_at, turn), 1);
                    asc_spread(rstds, ASC_UB(float, rstd_at, turn), 1);
                }
#if ASC_16BIT
                __ubuf__ float *m = ASC_SCRATCH(dy32), *normal = ASC_SCRATCH(x32);
                ASC_WIDEN(m, ASC_UB(ASC_T, dy_at, slot), n);
                ASC_WIDEN(normal, ASC_UB(ASC_T, x_at, slot), n);
#else
                __ubuf__ float *m = ASC_UB(float, dy_at, slot), *normal = ASC_UB(float, x_at, slot);
#endif
                ASC_NAME(group_norm_blocks)
                (scales, wide, asc_place(weight_at, slot), weight != 0, weight_f32, 1.0f, t.values);
                ASC_BY_ONE(asc_sub, normal, normal, means, t.rows, t.pitch);
                ASC_THEN();
                if (!writes) {
                    __ubuf__ float *to_sum = t.first && step ? all_sums : sums;
                    __ubuf__ float *to_product = t.first && step ? all_products : products;
                    asc_row_sums s[2] = {{to_sum, m, ASC_SCRATCH(a0), ASC_SCRATCH(b0), 1},
                                         {to_product, p, ASC_SCRATCH(a1), ASC_SCRATCH(b1), 1}};
                    asc_mul(p, m, normal, n);
                    ASC_THEN();
                    asc_sum_rows_of(s, 2, t.rows, t.pitch, t.columns);
                    if (!step) { /* lines of one channel */
                        group_norm_total(numbers, GROUP_NORM_PIECE, sums, t.rows);
                        asc_add_scalar(sums, numbers + GROUP_NORM_PIECE, 0.0f, 1);
                        ASC_THEN();
                        group_norm_total(numbers, GROUP_NORM_PIECE, products, t.rows);
                        asc_add_scalar(products, numbers + GROUP_NORM_PIECE, 0.0f, 1);
                        ASC_THEN();
                    }
                    if (t.first && !step) {
                        asc_add_scalar(all_sums, sums, 0.0f, 1);
                        asc_add_scalar(all_products, products, 0.0f, 1);
                    } else if (!t.first) {
                        asc_add(all_sums, all_sums, sums, values);
                        asc_add(all_products, all_products, products, values);
                    }
                    ASC_THEN();
                }
                if (!writes && t.last) {
                    const int64_t at = batch * partials_stride + channels + t.channel;
                    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
                    asc_add_scalar(db, all_sums, 0.0f, values);
                    group_norm_times(dw, all_products, rstds, t.values);
                    asc_mul(sums, all_sums, wide, values);
                    ASC_THEN();
                    ASC_FENCE(PIPE_V, PIPE_MTE3);
                    if (dweights)
                        asc_copy_ub2gm_align(dweights + at, dw, values * 4);
                    if (dbiases)
                        asc_copy_ub2gm_align(dbiases + at, db, values * 4);
                    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
                    asc_mul(products, dw, wide, values);
                    group_norm_add(numbers, GROUP_NORM_SUM, sums, t.values, begins);
                    group_norm_add(numbers, GROUP_NORM_SQUARES, products, t.values, begins);
                    begins = 0;
                }
                if (!writes) {
                    ASC_HAS_READ(slot);
                    continue;
                }
                if (i == 0) { /* what dx takes of 1 and of x - mean */
                    asc_mul_scalar(sum, sum, -asc_f32(part), 8);
                    asc_mul_scalar(product, product, -asc_f32(part), 8);
                    ASC_THEN();
                    asc_mul(product, product, rstds, 8);
                    asc_spread(of_one, sum, 1);
                    ASC_THEN();
                    asc_spread(of_normal, product, 1);
                }
                __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, slot);
                ASC_BY_ROW_OF(step, asc_mul, m, m, scales, t.rows, t.pitch);
                ASC_THEN();
                ASC_BY_ONE(asc_add, m, m, of_one, t.rows, t.pitch);
                ASC_MAY_WRITE(slot);
#if ASC_16BIT
                ASC_THEN();
                ASC_BY_ONE(ASC_MUL_ADD, normal, m, of_normal, t.rows, t.pitch);
                ASC_THEN();
                ASC_BY_ONE(asc_mul, normal, normal, rstds, t.rows, t.pitch);
                ASC_THEN();
                ASC_NARROW(out, normal, n);
#else
                ASC_BY_ONE(asc_mul, out, normal, of_normal, t.rows, t.pitch);
                ASC_THEN();
                asc_add(out, m, out, n);
                ASC_THEN();
                ASC_BY_ONE(asc_mul, out, out, rstds, t.rows, t.pitch);
#endif
                ASC_THEN();
                ASC_HAS_READ(slot);
                ASC_HAS_WRITTEN(slot);
                group_norm_out((__gm__ char *)dx, asc_place(dx_at, slot), size, to, dx_line, &t);
                ASC_HAS_LEFT(slot);
            }
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    asc_pipeline_end();
}
