/* rms_norm_factor.asc.h - what the rows of a group are multiplied by, of one type; see
 * asc_each_type.h. */

/* factor = weight (1 + scale) of a group; weight32 may be NULL. staged: where scale has been copied
 * to. */
static inline __aicore__ void ASC_NAME(rms_norm_factor)(__ubuf__ float *factor, uint64_t staged,
                                                        int64_t is_f32, __ubuf__ float *weight32,
                                                        int64_t pitch)
{
    ASC_NAME(asc_columns_widen)(factor, staged, is_f32, 1.0f, pitch);
    ASC_THEN();
    if (weight32)
        asc_mul(factor, factor, weight32, (uint32_t)pitch);
    ASC_THEN();
}
