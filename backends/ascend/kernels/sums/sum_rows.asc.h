/* sum_rows.asc.h - the kernels of one type; see asc_each_type.h. */

ASC_KERNEL ASC_NAME(sum_rows_forward)(ASC_PARAMS(SUM_ROWS_FORWARD))
{
    const int64_t tasks = sum_rows_tasks(columns, tile_columns, y_rows, chunks);
    const int64_t size = sizeof(ASC_T), y_size = asc_any_size(y_type);
    const int64_t stride = total ? columns : x_stride;
    __ubuf__ float *sum = ASC_SCRATCH(sum);
    int slot = 0;
    (void)rows;
    asc_pipeline_begin();
    const float times = sum_rows_times(asc_f32(scale), factor);
    for (int64_t i = asc_get_block_idx(); i < tasks; i += asc_get_block_num()) {
        const sum_rows_task t = sum_rows_task_at(i, count, columns, tile_columns, y_rows, chunks);
        uint32_t n = (uint32_t)t.columns;
        __gm__ char *to =
            (__gm__ char *)y + (t.chunk * y_chunk + t.r * y_stride + t.column) * y_size;
        asc_duplicate(sum, 0.0f, n);
        ASC_THEN();
        for (int64_t k = t.begin, together; k < t.end; k += together, slot ^= 1) {
            int64_t there = sum_rows_there(&t, k, columns, total);
            together = asc_min_of(tile_rows, t.end - k);
            /* the last row goes alone if it is shorter */
            if (sum_rows_there(&t, k + together - 1, columns, total) < t.columns && together > 1)
                together--;
            const int64_t pitch = asc_round_up(there, 32 / size);
            ASC_MAY_FILL(slot);
            if (there)
                asc_copy_rows_in(asc_place(x_at, slot), x + (k * y_rows + t.r) * stride + t.column,
                                 together, there * size, y_rows * stride * size, pitch * size);
            ASC_HAS_FILLED(slot);
            if (there) {
#if ASC_16BIT
                __ubuf__ float *x32 = ASC_SCRATCH(x32);
                ASC_WIDEN(x32, ASC_UB(ASC_T, x_at, slot), (uint32_t)(together * pitch));
                ASC_THEN();
#else
                __ubuf__ float *x32 = ASC_UB(float, x_at, slot);
#endif
                sum_rows_add(sum, x32, together, pitch, (uint32_t)there);
                ASC_THEN();
            }
            ASC_HAS_READ(slot);
        }
        for (int64_t halved = 0; halved < halvings; halved++) {
            n /= 2;
            asc_add(sum, sum, sum + n, n);
            ASC_THEN();
        }
        asc_mul_scalar(sum, sum, times, n);
        sum_rows_end(sum, to, asc_place(old_at, 0), asc_place(out_at, 0), y_type, accumulate, n);
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(sum_rows_backward)(ASC_PARAMS(SUM_ROWS_BACKWARD))
{
    const int64_t tasks = sum_rows_tasks(columns, tile_columns, dy_rows, chunks);
    const int64_t size = sizeof(ASC_T), dy_size = asc_any_size(dy_type);
    const int64_t stride = total ? columns : dx_stride;
    __ubuf__ int32_t *index = ASC_UB(int32_t, index_at, 0);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, 0);
    (void)rows;
    (void)tile_rows;
    asc_modes_set();
    const float times = sum_rows_times(asc_f32(scale), factor);
    if (repeats > 1)
        asc_short_turns(index, ASC_SCRATCH(spread), (uint32_t)columns, columns / repeats, 4,
                        columns / repeats * 4);
    for (int64_t i = asc_get_block_idx(); i < tasks; i += asc_get_block_num()) {
        const sum_rows_task t = sum_rows_task_at(i, count, columns, tile_columns, dy_rows, chunks);
        const uint32_t n = (uint32_t)t.columns, given = (uint32_t)(t.columns / repeats);
        __ubuf__ float *spread = ASC_SCRATCH(spread);
        asc_copy_rows_in(asc_place(dy_at, 0),
                         (__gm__ char *)dy + (t.r * dy_stride + t.column) * dy_size, 1,
                         given * dy_size, given * dy_size, asc_round_up(given * dy_size, 32));
        asc_sync();
        __ubuf__ float *x = asc_any_widen(ASC_SCRATCH(dy32), asc_place(dy_at, 0), dy_type, given);
        ASC_THEN();
        if (repeats > 1)
            asc_gather(spread, x, (__ubuf__ uint32_t *)index, n);
        else
            spread = x;
        ASC_THEN();
        asc_mul_scalar(spread, spread, times, n);
#if ASC_16BIT
        ASC_THEN();
        ASC_NARROW(out, spread, n);
#else
        ASC_THEN();
        asc_add_scalar(out, spread, 0.0f, n);
#endif
        asc_sync();
        for (int64_t k = t.begin; k < t.end; k++)
            if (sum_rows_there(&t, k, columns, total))
                asc_copy_rows_out(dx + (k * dy_rows + t.r) * stride + t.column, (uint64_t)out, 1,
                                  sum_rows_there(&t, k, columns, total) * size, 0, 0);
    }
    asc_modes_clear();
}
