/* rms_norm.asc.h - the weight as forward and backward take it, of one type; see asc_each_type.h. */

/* weight[column...] to where it is staged, as it is. */
static inline __aicore__ void ASC_NAME(rms_norm_weight_in)(uint64_t staged, __gm__ void *weight,
                                                           int64_t is_f32, int64_t column,
                                                           int64_t columns)
{
    const int64_t size = is_f32 ? 4 : (int64_t)sizeof(ASC_T), bytes = columns * size;
    asc_rows_in(staged, (__gm__ char *)weight + column * size, 1, bytes, bytes, bytes);
}

/* scale = offset + weight; ASC_THEN() is left to the caller. */
static inline __aicore__ void ASC_NAME(rms_norm_scale)(__ubuf__ float *scale, uint64_t staged,
                                                       int64_t is_f32, float offset, int64_t pitch)
{
#if ASC_16BIT
    if (!is_f32) {
        ASC_WIDEN(scale, (__ubuf__ ASC_T *)staged, (uint32_t)pitch);
        if (offset == 0.0f)
            return;
        ASC_THEN();
        staged = (uint64_t)scale;
    }
#endif
    asc_add_scalar(scale, (__ubuf__ float *)staged, offset, (uint32_t)pitch);
}

/* The scale of a piece: where the weight is staged if it is f32, else in `wide`; ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *ASC_NAME(rms_norm_piece_scale)(__ubuf__ float *wide,
                                                                        uint64_t staged,
                                                                        int64_t is_f32,
                                                                        float offset, int64_t pitch)
{
    __ubuf__ float *scale = is_f32 ? (__ubuf__ float *)staged : wide;
    if (is_f32 && offset == 0.0f)
        return scale;
    ASC_NAME(rms_norm_scale)(scale, staged, is_f32, offset, pitch);
    ASC_THEN();
    return scale;
}

/* The scale of whole rows, once, before the first tile. x: the first buffer of it, which is clear, and is left so
 * beyond the columns. */
static inline __aicore__ void ASC_NAME(rms_norm_load_scale)(__ubuf__ float *scale, uint64_t x,
                                                            __gm__ void *weight, int64_t is_f32,
                                                            float offset, int64_t columns,
                                                            int64_t pitch)
{
    const uint64_t staged = is_f32 ? (uint64_t)scale : x;
    asc_duplicate(scale, 0.0f, (uint32_t)pitch);
    asc_sync_notify(PIPE_V, PIPE_MTE2, EVENT_ID2);
    asc_sync_wait(PIPE_V, PIPE_MTE2, EVENT_ID2);
    ASC_NAME(rms_norm_weight_in)(staged, weight, is_f32, 0, columns);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID2);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID2);
    ASC_NAME(rms_norm_scale)(scale, staged, is_f32, offset, pitch);
}
