/* sparsemax_rows.asc.h - the kernel of one type; see asc_each_type.h. */

ASC_KERNEL ASC_NAME(sparsemax_forward_rows)(ASC_PARAMS(SPARSEMAX_FORWARD_ROWS))
{
    const int64_t size = sizeof(ASC_T), pitch = asc_round_up(columns, ASC_LANES);
    const int64_t folds = pitch / ASC_LANES;
    __ubuf__ float *d = ASC_SCRATCH(d);
    sm_job job = {0};
    sm_rows r = {0};
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
    asc_clear_copies(x_at, 1, tile_rows * pitch * size);
    asc_clear_copies(numbers_at, 7, job.most * 4);
    asc_clear_copies(sums_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    asc_clear_copies(counts_at, 1, asc_round_up(tile_rows * folds, 8) * 4);
    r.of_row = asc_runs_of(folds, tile_rows, folds, 1, asc_place(of_row_at, 0));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows) {
        const int64_t count = asc_min_of(tile_rows, rows - row);
        __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, 0);
        int64_t steps = 0;
        job.beside = r.rows = count;
        ASC_WAIT(PIPE_V, PIPE_MTE2, 0);
        asc_copy_rows_in(asc_place(x_at, 0), x + row * x_outer, count, columns * size,
                         x_outer * size, pitch * size);
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, 0);
        ASC_WAIT(PIPE_MTE2, PIPE_V, 0);
#if ASC_16BIT
        __ubuf__ float *in = d;
        ASC_WIDEN(d, ASC_UB(ASC_T, x_at, 0), (uint32_t)(count * pitch));
        ASC_THEN();
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, 0);
#else
        __ubuf__ float *in = ASC_UB(float, x_at, 0);
#endif
        sm_pad(in, count, pitch, columns);
        sm_begin_rows(&job, &r, in);
        for (int i = 0; i < SM_TOP_STEPS; i++) {
            sm_add_rows(&job, &r, r.top, pitch / 8);
            sm_step_rows(&job, &r, pitch / 8);
        }
        sm_rebase(&job);
        ASC_THEN();
        ASC_BY_ROW(asc_sub, d, in, job.base, count, pitch);
        ASC_THEN();
#if !ASC_16BIT
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, 0);
#endif
        for (sm_add_rows(&job, &r, d, pitch);
             steps < SM_SURE_STEPS || (steps < SM_MOST_STEPS && sm_moves(&job)); steps++) {
            sm_step_rows(&job, &r, pitch);
            sm_add_rows(&job, &r, d, pitch);
        }
        ASC_WAIT(PIPE_MTE3, PIPE_V, 0);
#if ASC_16BIT
        ASC_NARROW(out, r.w, (uint32_t)(count * pitch));
#else
        asc_add_scalar(out, r.w, 0.0f, (uint32_t)(count * pitch));
#endif
        ASC_NOTIFY(PIPE_V, PIPE_MTE3, 0);
        ASC_WAIT(PIPE_V, PIPE_MTE3, 0);
        asc_copy_rows_out(y + row * y_outer, asc_place(y_at, 0), count, columns * size,
                          y_outer * size, pitch * size);
        ASC_NOTIFY(PIPE_MTE3, PIPE_V, 0);
    }
    asc_pipeline_end();
}
