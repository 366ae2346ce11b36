/* asc_columns.asc.h - a vector of the columns, of the type of the data or f32, as f32; of one type:
 * see asc_each_type.h. */

/* vector[column...] to where it is staged, as it is. */
static inline __aicore__ void ASC_NAME(asc_columns_in)(uint64_t staged, __gm__ void *vector,
                                                       int64_t is_f32, int64_t column,
                                                       int64_t columns)
{
    const int64_t size = is_f32 ? 4 : (int64_t)sizeof(ASC_T), bytes = columns * size;
    asc_copy_rows_in(staged, (__gm__ char *)vector + column * size, 1, bytes, bytes, bytes);
}

/* dst = offset + what is staged; ASC_THEN() is left to the caller. */
static inline __aicore__ void ASC_NAME(asc_columns_widen)(__ubuf__ float *dst, uint64_t staged,
                                                          int64_t is_f32, float offset,
                                                          int64_t pitch)
{
#if ASC_16BIT
    if (!is_f32) {
        ASC_WIDEN(dst, (__ubuf__ ASC_T *)staged, (uint32_t)pitch);
        if (offset == 0.0f)
            return;
        ASC_THEN();
        staged = (uint64_t)dst;
    }
#endif
    asc_add_scalar(dst, (__ubuf__ float *)staged, offset, (uint32_t)pitch);
}

/* The same of a piece: where it is staged if it is f32, else in `wide`; ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *ASC_NAME(asc_columns_piece)(__ubuf__ float *wide,
                                                                     uint64_t staged,
                                                                     int64_t is_f32, float offset,
                                                                     int64_t pitch)
{
    __ubuf__ float *dst = is_f32 ? (__ubuf__ float *)staged : wide;
    if (is_f32 && offset == 0.0f)
        return dst;
    ASC_NAME(asc_columns_widen)(dst, staged, is_f32, offset, pitch);
    ASC_THEN();
    return dst;
}

/* The same of whole rows, once, before the first tile; ASC_THEN() is left to the caller. x: a
 * buffer of the data, which is clear, and is left so beyond the columns. */
static inline __aicore__ void ASC_NAME(asc_columns_load)(__ubuf__ float *dst, uint64_t x,
                                                         __gm__ void *vector, int64_t is_f32,
                                                         float offset, int64_t columns,
                                                         int64_t pitch)
{
    const uint64_t staged = is_f32 ? (uint64_t)dst : x;
    asc_duplicate(dst, 0.0f, (uint32_t)pitch);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)(staged, vector, is_f32, 0, columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(dst, staged, is_f32, offset, pitch);
}

/* The same as a block a column, for tiles of lines (asc_short.h); values: 64 floats.
 * Ends with ASC_THEN(). */
static inline __aicore__ void ASC_NAME(asc_columns_spread)(__ubuf__ float *blocks,
                                                           __ubuf__ float *values, uint64_t x,
                                                           __gm__ void *vector, int64_t is_f32,
                                                           float offset, int64_t columns)
{
    ASC_NAME(asc_columns_load)(values, x, vector, is_f32, offset, columns, ASC_LANES);
    ASC_THEN();
    asc_spread(blocks, values, columns);
    ASC_THEN();
}

/* n parameters as f32, at most 8, where the scalar unit and V may read them. staged: 32
 * bytes of scratch. */
static inline __aicore__ void ASC_NAME(asc_parameters)(__ubuf__ float *to, __ubuf__ float *staged,
                                                       __gm__ void *from, int64_t is_f32, int64_t n)
{
    asc_duplicate(staged, 0.0f, 8);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)((uint64_t)staged, from, is_f32, 0, n);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(to, (uint64_t)staged, is_f32, 0.0f, 8);
    ASC_FENCE(PIPE_V, PIPE_S);
}
