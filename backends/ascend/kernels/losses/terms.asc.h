/* terms.asc.h - a loss of two tensors term by term, and its gradient, of one type: all but the
 * arithmetic. Included by what asc_each_type.h includes, after
 *
 *   #define TERMS ASC_NAME(kl_div)               the kernel
 *   #define TERMS_ARGS KL_DIV                    TERMS_GIVEN, and what the arithmetic needs
 *   #define TERMS_TILE kl_div_tile(t, g, x32, y32, ..., n)
 *                                                the arithmetic on n elements, without ASC_THEN()
 *                                                at the end: t = the terms, if has_terms, and it is
 *                                                scratch otherwise; g = `factor` times their
 *                                                derivatives, if g is not 0.
 *                                                x32 and y32 may be used up
 */
ASC_KERNEL TERMS(ASC_PARAMS(TERMS_ARGS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t y_size = asc_any_size(y_type);
    const int64_t y_in = ASC_16BIT && y_type == ASC_ANY_F32 ? y_wide_at : y_at;
    const int has_terms = sums != 0 || each != 0;
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *t = ASC_SCRATCH(t);
    int slot = 0;
    asc_clear_begin();
    asc_dcci_entire_all(); /* the scalar unit reads upstream and labels */
    const float share = terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    const float factor = asc_f32(scale) * share * (upstream ? upstream[0] : 1.0f);
    if (tile_rows > 1) { /* what the columns leave of a pitch is computed on */
        const int64_t widest = tile_rows * asc_round_up(tile_columns, ASC_LANES);
        if (x)
            asc_clear(x_at, widest * (int64_t)sizeof(ASC_T));
        asc_clear(y_in, widest * y_size);
        if (deach)
            asc_clear(deach_at, widest * 4);
    }
    if (short_columns) {
        terms_pattern(ASC_UB(int32_t, ignored_at, 0), ignore_index);
        asc_short_turns(ASC_UB(int32_t, row_of_at, 0), ASC_SCRATCH(mask), (uint32_t)tile_columns,
                        short_columns, 0, -4);
    }
    asc_duplicate(lanes, 0.0f, (uint32_t)(tile_rows * ASC_LANES));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        const uint32_t n = (uint32_t)(tile.rows > 1 ? tile.rows * pitch : tile.columns);
        ASC_MAY_FILL(slot);
        if (x)
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
        asc_tile_in(asc_place(y_in, slot), y, y_stride, y_size, tile, pitch);
        if (deach)
            ASC_ROWS_IN(float, deach_at, slot, deach, deach_stride, tile, pitch);
        if (short_columns)
            asc_copy_rows_in(asc_place(labels_at, slot), labels + tile.column / short_columns, 1,
                             tile.columns / short_columns * 8, 0, 0);
        ASC_HAS_FILLED(slot);
        ASC_MAY_WRITE(slot);
        __ubuf__ float *y32 = asc_any_widen(ASC_SCRATCH(y32), asc_place(y_in, slot), y_type, n);
#if ASC_16BIT
        __ubuf__ float *x32 = ASC_SCRATCH(x32), *g = d ? ASC_SCRATCH(d32) : 0;
        if (x)
            ASC_WIDEN(x32, ASC_UB(ASC_T, x_at, slot), n);
#else
        __ubuf__ float *x32 = ASC_UB(float, x_at, slot), *g = d ? ASC_UB(float, d_at, slot) : 0;
#endif
        ASC_THEN();
        if (short_columns)
            terms_mask_elements(ASC_UB(int32_t, mask_at, 0), ASC_UB(int32_t, kept_at, 0),
                                ASC_UB(int64_t, labels_at, slot), ASC_UB(int32_t, row_of_at, 0),
                                ASC_UB(int32_t, ignored_at, 0), n / (uint32_t)short_columns, n);
        TERMS_TILE;
        if (short_columns) {
            ASC_THEN();
            if (has_terms)
                terms_keep(t, ASC_UB(int32_t, mask_at, 0), n);
            if (g)
                terms_keep(g, ASC_UB(int32_t, mask_at, 0), n);
        } else if (labels) {
            ASC_THEN();
            for (int64_t r = 0; r < tile.rows; r++)
                if (labels[tile.row + r] == ignore_index) {
                    if (has_terms)
                        asc_duplicate(t + r * pitch, 0.0f, (uint32_t)tile.columns);
                    if (g)
                        asc_duplicate(g + r * pitch, 0.0f, (uint32_t)tile.columns);
                }
        }
        ASC_THEN();
        if (sums)
            ASC_FOLD(asc_add, lanes, t, tile.rows, tile.columns, pitch);
        if (each)
            asc_mul_scalar(ASC_UB(float, each_at, slot), t, asc_f32(term), n);
        if (deach)
            asc_mul(g, g, ASC_UB(float, deach_at, slot), n);
        ASC_THEN();
        ASC_HAS_READ(slot);
#if ASC_16BIT
        if (d)
            ASC_NARROW(ASC_UB(ASC_T, d_at, slot), g, n);
#endif
        ASC_HAS_WRITTEN(slot);
        if (d)
            ASC_ROWS_OUT(ASC_T, d, d_stride, tile, d_at, slot, pitch);
        if (each)
            ASC_ROWS_OUT(float, each, each_stride, tile, each_at, slot, pitch);
        ASC_HAS_LEFT(slot);
    }
    if (sums) {
        __ubuf__ float *total = ASC_SCRATCH(total);
        asc_duplicate(total, 0.0f, ASC_LANES);
        ASC_THEN();
        asc_add_rows(total, lanes, tile_rows, ASC_LANES);
        terms_leave(sums + asc_get_block_idx() * TERMS_PARTIAL, ASC_SCRATCH(part), total);
    }
    asc_pipeline_end();
}

#undef TERMS
#undef TERMS_ARGS
#undef TERMS_TILE
