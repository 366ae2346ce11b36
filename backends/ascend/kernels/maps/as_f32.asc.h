/* as_f32.asc.h - elements of one type or f32 that were copied in, as f32; see asc_each_type.h. */

/* What was copied to `in` as f32: there if it is f32, else in `wide`. ASC_THEN() is left to the
 * caller. */
static inline __aicore__ __ubuf__ float *ASC_NAME(as_f32)(uint64_t in, __ubuf__ float *wide,
                                                          int64_t is_f32, uint32_t n)
{
#if ASC_16BIT
    if (!is_f32) {
        ASC_WIDEN(wide, (__ubuf__ ASC_T *)in, n);
        return wide;
    }
#endif
    (void)wide;
    (void)is_f32;
    (void)n;
    return (__ubuf__ float *)in;
}
