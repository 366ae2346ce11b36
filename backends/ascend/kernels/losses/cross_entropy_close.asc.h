/* cross_entropy_close.asc.h - gradients of logits, cast to their type; see asc_each_type.h. */

/* Gradients in f32 as a piece of dlogits, in the piece's buffer. */
static inline __aicore__ void ASC_NAME(ce_close)(__ubuf__ ASC_T *piece, __ubuf__ float *dx,
                                                 int64_t out, uint32_t n)
{
#if ASC_16BIT
    (void)out;
    ASC_NARROW(piece, dx, n);
#else
    if (out == CE_OUT_BF16)
        asc_float2bfloat16_rn((__ubuf__ bfloat16_t *)piece, dx, n);
    else if (out == CE_OUT_F16)
        asc_float2half_rn((__ubuf__ half *)piece, dx, n);
#endif
    ASC_THEN();
}
