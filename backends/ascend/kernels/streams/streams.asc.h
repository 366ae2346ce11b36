/* streams.asc.h - rows of tiles of tokens, of one type; see asc_each_type.h. */

/* A piece of n columns of `rows` rows of a tensor, to row `at` of a tile. */
static inline __aicore__ void ASC_NAME(streams_in)(const streams_walk *w, int64_t place, int slot,
                                                   int64_t at, __gm__ ASC_T *tensor, int64_t stride,
                                                   int64_t first, int64_t rows, int64_t column,
                                                   int64_t n)
{
    const int64_t size = sizeof(ASC_T);
    asc_copy_rows_in(asc_place(place, slot) + (uint64_t)(at * w->pitch * size),
                     tensor + first * stride + column, rows, n * size, stride * size,
                     w->pitch * size);
}

static inline __aicore__ void ASC_NAME(streams_out)(const streams_walk *w, int64_t place, int slot,
                                                    int64_t at, __gm__ ASC_T *tensor,
                                                    int64_t stride, int64_t first, int64_t rows,
                                                    int64_t column, int64_t n)
{
    const int64_t size = sizeof(ASC_T);
    asc_copy_rows_out(tensor + first * stride + column,
                      asc_place(place, slot) + (uint64_t)(at * w->pitch * size), rows, n * size,
                      stride * size, w->pitch * size);
}

/* The first `rows` rows of a tile as f32: `wide`, or where they were copied to; ends with
 * ASC_THEN(). */
static inline __aicore__ __ubuf__ float *ASC_NAME(streams_widen)(const streams_walk *w,
                                                                 int64_t place, int slot,
                                                                 __ubuf__ float *wide, int64_t rows)
{
#if ASC_16BIT
    ASC_WIDEN(wide, ASC_UB(ASC_T, place, slot), (uint32_t)(rows * w->pitch));
    ASC_THEN();
    return wide;
#else
    (void)w;
    (void)wide;
    (void)rows;
    return ASC_UB(float, place, slot);
#endif
}

/* Rows of f32 to row `at` of what is copied out; ends with ASC_THEN(). */
static inline __aicore__ void ASC_NAME(streams_narrow)(const streams_walk *w, int64_t place,
                                                       int slot, int64_t at, __ubuf__ float *from,
                                                       int64_t rows)
{
    __ubuf__ ASC_T *to = ASC_UB(ASC_T, place, slot) + at * w->pitch;
#if ASC_16BIT
    ASC_NARROW(to, from, (uint32_t)(rows * w->pitch));
#else
    asc_add_scalar(to, from, 0.0f, (uint32_t)(rows * w->pitch));
#endif
    ASC_THEN();
}
