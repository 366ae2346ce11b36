/* grouped_sums.asc.h - the kernel of one type; see asc_each_type.h. */

/* Rows j to j + n of a piece to UB, `pitch` elements apart. */
static inline __aicore__ void ASC_NAME(grouped_sums_bring)(uint64_t to, __gm__ ASC_T *x,
                                                           int64_t stride, __gm__ int64_t *gather,
                                                           int64_t top_k, int64_t j, int64_t n,
                                                           int64_t columns, int64_t pitch)
{
    const int64_t size = (int64_t)sizeof(ASC_T);
    if (!gather) {
        asc_copy_rows_in(to, x + j * stride, n, columns * size, stride * size, pitch * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        asc_copy_rows_in(to + (uint64_t)(i * pitch * size), x + gather[j + i] / top_k * stride, 1,
                         columns * size, columns * size, pitch * size);
}

ASC_KERNEL ASC_NAME(grouped_sums)(ASC_PARAMS(GROUPED_SUMS))
{
    const int64_t pieces = (columns + tile_columns - 1) / tile_columns;
    const int64_t y_size = asc_any_size(y_type);
    __ubuf__ float *sum = ASC_SCRATCH(sum);
    int slot = 0;
    (void)rows;
    asc_pipeline_begin();
    asc_dcci_entire_all(); /* the scalar unit reads boundaries, numbers and weights */
    for (int64_t i = asc_get_block_idx(); i < groups * pieces; i += asc_get_block_num()) {
        const int64_t group = i / pieces, column = i % pieces * tile_columns;
        const int64_t there = asc_min_of(tile_columns, columns - column), end = offset[group + 1];
        const int64_t pitch = asc_round_up(there, 32 / (int64_t)sizeof(ASC_T));
        const uint32_t n = (uint32_t)there;
        __gm__ char *to = (__gm__ char *)y + (group * y_stride + column) * y_size;
        asc_duplicate(sum, 0.0f, n);
        ASC_THEN();
        for (int64_t j = offset[group], together; j < end; j += together, slot ^= 1) {
            together = asc_min_of(tile_rows, end - j);
            ASC_MAY_FILL(slot);
            ASC_NAME(grouped_sums_bring)
            (asc_place(x_at, slot), x + column, x_stride, gather, top_k, j, together, there, pitch);
            ASC_HAS_FILLED(slot);
#if ASC_16BIT
            __ubuf__ float *x32 = ASC_SCRATCH(x32);
            ASC_WIDEN(x32, ASC_UB(ASC_T, x_at, slot), (uint32_t)(together * pitch));
            ASC_THEN();
#else
            __ubuf__ float *x32 = ASC_UB(float, x_at, slot);
#endif
            for (int64_t r = 0; r < together && weights; r++)
                asc_mul_scalar(x32 + r * pitch, x32 + r * pitch, weights[gather[j + r]],
                               (uint32_t)pitch);
            ASC_THEN();
            sum_rows_add(sum, x32, together, pitch, n);
            ASC_THEN();
            ASC_HAS_READ(slot);
        }
        sum_rows_end(sum, to, asc_place(old_at, 0), asc_place(out_at, 0), y_type, accumulate, n);
    }
    asc_pipeline_end();
}
