/* terms.asc.h - a loss of two tensors term by term, and its gradient, of one type: all but the
 * arithmetic. Included by what asc_each_type.h includes, after
 *
 *   #define TERMS(step) ASC_NAME(kl_div##step)   the kernel, and its steps
 *   #define TERMS_ARGS KL_DIV                    TERMS_GIVEN, and what the arithmetic needs
 *   #define TERMS_TILE kl_div_tile(t, g, x32, y32, ..., n)
 *                                                the arithmetic on n elements, without ASC_THEN()
 *                                                at the end: t = the terms, if has_terms, and it is
 *                                                scratch otherwise; g = `factor` times their
 *                                                derivatives, if g is not 0.
 *                                                x32 and y32 may be used up
 */
#define TERMS_Y (ASC_16BIT && y_type == ASC_ANY_F32 ? y_wide_at : y_at)

/* What copies do not reach of the buffers that they fill; the lanes of sums are 0. */
static inline __aicore__ void TERMS(_begin)(ASC_PARAMS(TERMS_ARGS))
{
    if (tile_rows > 1) { /* what the columns leave of a pitch is computed on */
        const int64_t widest = tile_rows * asc_round_up(tile_columns, ASC_LANES);
        if (x)
            asc_clear(x_at, widest * (int64_t)sizeof(ASC_T));
        asc_clear(TERMS_Y, widest * asc_any_size(y_type));
        if (deach)
            asc_clear(deach_at, widest * 4);
    }
    if (short_columns) {
        terms_pattern(ASC_UB(int32_t, ignored_at, 0), ignore_index);
        asc_short_turns(ASC_UB(int32_t, row_of_at, 0), ASC_SCRATCH(mask), (uint32_t)tile_columns,
                        short_columns, 0, -4);
    }
    asc_duplicate(ASC_SCRATCH(lanes), 0.0f, (uint32_t)(tile_rows * ASC_LANES));
}

static inline __aicore__ void TERMS(_in)(asc_tile tile, int64_t pitch, int slot,
                                         ASC_PARAMS(TERMS_ARGS))
{
    ASC_MAY_FILL(slot);
    if (x)
        ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
    asc_tile_in(asc_place(TERMS_Y, slot), y, y_stride, asc_any_size(y_type), tile, pitch);
    if (deach)
        ASC_ROWS_IN(float, deach_at, slot, deach, deach_stride, tile, pitch);
    if (short_columns)
        asc_copy_rows_in(asc_place(labels_at, slot), labels + tile.column / short_columns, 1,
                         tile.columns / short_columns * 8, 0, 0);
    ASC_HAS_FILLED(slot);
}

/* Terms and derivatives of rows that are to be ignored become 0; either may be absent.
 * ASC_THEN() is left to the caller. */
static inline __aicore__ void TERMS(_keep)(__ubuf__ float *t, __ubuf__ float *g, asc_tile tile,
                                           int64_t pitch, uint32_t n, ASC_PARAMS(TERMS_ARGS))
{
    if (!short_columns && !labels)
        return;
    ASC_THEN();
    if (short_columns) {
        if (t)
            terms_keep(t, ASC_UB(int32_t, mask_at, 0), n);
        if (g)
            terms_keep(g, ASC_UB(int32_t, mask_at, 0), n);
        return;
    }
    for (int64_t r = 0; r < tile.rows; r++)
        if (labels[tile.row + r] == ignore_index) {
            if (t)
                asc_duplicate(t + r * pitch, 0.0f, (uint32_t)tile.columns);
            if (g)
                asc_duplicate(g + r * pitch, 0.0f, (uint32_t)tile.columns);
        }
}

/* Terms and derivatives of a tile, g of them where there are any. */
static inline __aicore__ void TERMS(_tile)(asc_tile tile, int64_t pitch, uint32_t n, int slot,
                                           float factor, ASC_PARAMS(TERMS_ARGS))
{
    const int has_terms = sums != 0 || each != 0;
    __ubuf__ float *t = ASC_SCRATCH(t);
    __ubuf__ float *y32 = asc_any_widen(ASC_SCRATCH(y32), asc_place(TERMS_Y, slot), y_type, n);
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
    TERMS(_keep)(has_terms ? t : 0, g, tile, pitch, n, ASC_NAMES(TERMS_ARGS));
    ASC_THEN();
    if (sums)
        ASC_FOLD(asc_add, ASC_SCRATCH(lanes), t, tile.rows, tile.columns, pitch);
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
}

ASC_KERNEL TERMS()(ASC_PARAMS(TERMS_ARGS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    int slot = 0;
    asc_clear_begin();
    asc_dcci_entire_all(); /* the scalar unit reads upstream and labels */
    const float share = terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    const float factor = asc_f32(scale) * share * (upstream ? upstream[0] : 1.0f);
    TERMS(_begin)(ASC_NAMES(TERMS_ARGS));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        const uint32_t n = (uint32_t)(tile.rows > 1 ? tile.rows * pitch : tile.columns);
        TERMS(_in)(tile, pitch, slot, ASC_NAMES(TERMS_ARGS));
        ASC_MAY_WRITE(slot);
        TERMS(_tile)(tile, pitch, n, slot, factor, ASC_NAMES(TERMS_ARGS));
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
        asc_add_rows(total, ASC_SCRATCH(lanes), tile_rows, ASC_LANES);
        terms_leave(sums + asc_get_block_idx() * TERMS_PARTIAL, ASC_SCRATCH(part), total);
    }
    asc_pipeline_end();
}

#undef TERMS_Y
#undef TERMS
#undef TERMS_ARGS
#undef TERMS_TILE
