/* sparsemax_rows.asc.h - the kernel of one type; see asc_each_type.h. */

/* Rows as f32: those of x, or widened in d. Ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *
ASC_NAME(sm_rows_of)(__ubuf__ float *d, uint64_t x, int64_t rows, int64_t pitch, int64_t columns)
{
#if ASC_16BIT
    ASC_WIDEN(d, (__ubuf__ ASC_T *)x, (uint32_t)(rows * pitch));
    ASC_THEN();
    sm_pad(d, rows, pitch, columns);
    return d;
#else
    (void)d;
    sm_pad((__ubuf__ float *)x, rows, pitch, columns);
    return (__ubuf__ float *)x;
#endif
}

ASC_KERNEL ASC_NAME(sparsemax_forward_rows)(ASC_PARAMS(SPARSEMAX_FORWARD_ROWS))
{
    const int64_t size = sizeof(ASC_T), pitch = asc_round_up(columns, ASC_LANES);
    const int64_t folds = pitch / ASC_LANES;
    __ubuf__ float *d = ASC_SCRATCH(d);
    sm_job job = {0};
    sm_rows r = {0};
    int slot = 0;
    (void)tile_columns;
    job.most = asc_round_up(tile_rows, 8);
    job.numbers = ASC_SCRATCH(numbers); /* copies lie one behind the other */
    job.base = ASC_SCRATCH(base);
    job.tau = ASC_SCRATCH(tau);
    r.pitch = pitch;
    r.w = ASC_SCRATCH(w);
    r.top = ASC_SCRATCH(top);
    r.eighth = ASC_SCRATCH(eighth);
    r.sums = ASC_SCRATCH(sums);
    r.counts = ASC_SCRATCH(counts);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * pitch * size);
    asc_clear_copies(numbers_at, 7, job.most * 4);
    asc_clear_copies(sums_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    asc_clear_copies(counts_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    r.of_row = asc_runs_of(folds, tile_rows, folds, 1, asc_place(of_row_at, 0));
    sm_set_room(&r, tile_rows);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows, slot ^= 1) {
        const int64_t count = asc_min_of(tile_rows, rows - row);
        __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, 0);
        job.beside = r.rows = count;
        ASC_MAY_FILL(slot);
        asc_copy_rows_in(asc_place(x_at, slot), x + row * x_outer, count, columns * size,
                         x_outer * size, pitch * size);
        ASC_HAS_FILLED(slot);
        __ubuf__ float *in = ASC_NAME(sm_rows_of)(d, asc_place(x_at, slot), count, pitch, columns);
        sm_begin_rows(&job, &r, in);
        for (int i = 0; i < SM_TOP_STEPS; i++)
            sm_add_step_rows(&job, &r, r.top, pitch / 8);
        ASC_BY_ROW(asc_sub, d, in, job.base, count, pitch);
        ASC_THEN();
        for (int i = 0; i < SM_SURE_STEPS; i++)
            sm_add_step_rows(&job, &r, d, pitch);
        sm_add_rows(&job, &r, d, pitch);
        for (int steps = SM_SURE_STEPS; steps < SM_MOST_STEPS && sm_moves(&job); steps++) {
            sm_step_rows(&job, &r, pitch);
            sm_add_rows(&job, &r, d, pitch);
        }
        sm_rebase(&job);
        in = ASC_NAME(sm_rows_of)(d, asc_place(x_at, slot), count, pitch, columns);
        ASC_BY_ROW(asc_sub, d, in, job.base, count, pitch);
        ASC_THEN();
        sm_add_step_rows(&job, &r, d, pitch);
        ASC_HAS_READ(slot);
        ASC_MAY_WRITE(0);
#if ASC_16BIT
        ASC_BY_ROW(asc_sub_relu, r.w, d, job.tau, count, pitch);
        ASC_THEN();
        ASC_NARROW(out, r.w, (uint32_t)(count * pitch));
#else
        ASC_BY_ROW(asc_sub_relu, out, d, job.tau, count, pitch);
#endif
        ASC_HAS_WRITTEN(0);
        asc_copy_rows_out(y + row * y_outer, asc_place(y_at, 0), count, columns * size,
                          y_outer * size, pitch * size);
        ASC_HAS_LEFT(0);
    }
    asc_pipeline_end();
}
