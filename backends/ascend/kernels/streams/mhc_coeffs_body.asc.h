/* mhc_coeffs_body.asc.h - what reads x, of one type, on one of `blocks` vector cores; see
 * asc_each_type.h. */

/* A piece's squares to the lanes of its token. */
static inline __aicore__ void ASC_NAME(mhc_add_squares)(__ubuf__ float *lanes, int64_t x_at,
                                                        int slot, __ubuf__ float *x32, int64_t n)
{
#if ASC_16BIT
    ASC_WIDEN(x32, ASC_UB(ASC_T, x_at, slot), (uint32_t)n);
    ASC_HAS_READ(slot);
    ASC_THEN();
#else
    x32 = ASC_UB(float, x_at, slot);
#endif
    asc_mul(x32, x32, x32, (uint32_t)n);
    ASC_THEN();
    asc_add_to_lanes(lanes, x32, n);
#if !ASC_16BIT
    ASC_HAS_READ(slot);
#endif
    ASC_THEN();
}

/* Tasks block, block + blocks, ... */
static inline __aicore__ void ASC_NAME(mhc_squares_body)(int64_t block, int64_t blocks,
                                                         ASC_PARAMS(MHC_SQUARES))
{
    __ubuf__ float *lanes = ASC_SCRATCH(lanes), *sums = ASC_SCRATCH(sums);
#if ASC_16BIT
    __ubuf__ float *x32 = ASC_SCRATCH(x32);
#else
    __ubuf__ float *x32 = 0;
#endif
    const uint32_t parts = ASC_PARTS * MHC_SQUARES_AT_ONCE;
    int slot = 0;
    (void)rows;
    (void)tile_rows;
    asc_pipeline_begin();
    for (int64_t first = block * MHC_SQUARES_AT_ONCE; first < tokens;
         first += blocks * MHC_SQUARES_AT_ONCE) {
        const int64_t count = asc_min_of(MHC_SQUARES_AT_ONCE, tokens - first);
        asc_duplicate(lanes, 0.0f, parts * ASC_LANES);
        ASC_THEN();
        for (int64_t r = 0; r < count * segments; r++)
            for (int64_t c = 0; c < columns; c += tile_columns, slot ^= 1) {
                const int64_t n = asc_min_of(tile_columns, columns - c), bytes = n * sizeof(ASC_T);
                ASC_MAY_FILL(slot);
                asc_copy_rows_in(asc_place(x_at, slot), x + (first * segments + r) * x_stride + c,
                                 1, bytes, bytes, bytes);
                ASC_HAS_FILLED(slot);
                ASC_NAME(mhc_add_squares)
                (lanes + r / segments * ASC_SUM_LANES, x_at, slot, x32, n);
            }
        ASC_MAY_WRITE(0);
        asc_repeat_reduce_sum(sums, lanes, parts * ASC_LANES);
        ASC_THEN();
        asc_pair_reduce_sum(lanes, sums, parts);
        ASC_THEN();
        asc_pair_reduce_sum(sums, lanes, parts / 2);
        ASC_THEN(); /* lanes are the next tokens' */
        ASC_HAS_WRITTEN(0);
        asc_copy_ub2gm_align(squares + first, sums, (uint32_t)(count * 4));
        ASC_HAS_LEFT(0);
    }
    asc_pipeline_end();
}

static inline __aicore__ void ASC_NAME(mhc_coeffs_dx_body)(int64_t block, int64_t blocks,
                                                           ASC_PARAMS(MHC_COEFFS_DX))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    int slot = 0;
    asc_clear_begin(); /* a row of p may end before one of x does */
    asc_clear(p_at, tile_rows * asc_round_up(tile_columns, 32 / (int64_t)sizeof(ASC_T)) * 4);
    asc_pipeline_begin();
    asc_dcci_entire_all(); /* the scalar unit reads pull */
    for (int64_t task = block; task < grid.tasks; task += blocks, slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const int64_t pitch = asc_pitch(tile, sizeof(ASC_T));
        const uint32_t n = (uint32_t)(tile.rows * pitch);
        __ubuf__ float *sum = ASC_UB(float, p_at, slot);
        ASC_MAY_FILL(slot);
        ASC_LOAD(ASC_T, x_at, slot, x, x_stride, tile);
        asc_copy_rows_in(asc_place(p_at, slot), p + tile.row * columns + tile.column, tile.rows,
                         tile.columns * 4, columns * 4, pitch * 4);
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
        __ubuf__ float *wide = ASC_SCRATCH(x32);
        ASC_WIDEN(wide, ASC_UB(ASC_T, x_at, slot), n);
        ASC_THEN();
#else
        __ubuf__ float *wide = ASC_UB(float, x_at, slot);
#endif
        for (int64_t r = 0; r < tile.rows; r++)
            asc_axpy(sum + r * pitch, wide + r * pitch, pull[(tile.row + r) / segments],
                     (uint32_t)tile.columns);
        ASC_THEN();
        ASC_MAY_WRITE(slot);
#if ASC_16BIT
        ASC_NARROW(ASC_UB(ASC_T, dx_at, slot), sum, n);
#else
        asc_add_scalar(ASC_UB(float, dx_at, slot), sum, 0.0f, n);
#endif
        ASC_HAS_READ(slot);
        ASC_THEN();
        ASC_HAS_WRITTEN(slot);
        ASC_STORE(ASC_T, dx, dx_stride, tile, dx_at, slot);
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}
