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

/* What is updated, as f32: the parameters' copy in f32 if they have one, and themselves else, which
 * lie in `narrow`. ASC_THEN() is left to the caller. */
static inline __aicore__ __ubuf__ float *ASC_NAME(updated_as_f32)(__ubuf__ ASC_T *narrow,
                                                                  __ubuf__ float *master,
                                                                  int copied, __ubuf__ float *wide,
                                                                  uint32_t n)
{
    if (copied)
        return master;
    return ASC_NAME(as_f32)((uint64_t)narrow, wide, !ASC_16BIT, n);
}

/* The parameters in their own type, of what has been updated. */
static inline __aicore__ void ASC_NAME(updated_out)(__ubuf__ ASC_T *narrow, __ubuf__ float *updated,
                                                    int copied, uint32_t n)
{
#if ASC_16BIT
    (void)copied;
    ASC_NARROW(narrow, updated, n);
    ASC_THEN();
#else
    if (copied)
        asc_copy((__ubuf__ uint32_t *)narrow, (__ubuf__ uint32_t *)updated, n);
#endif
}
