/* rms_norm_forward.asc.h - the kernels of one type, that of whole rows here;
 * see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* The f32 to be normalised, of n elements copied in: x; fused: s = x + residual. q: scratch. What
 * was copied in is not needed any more, but for an x of f32 that is not fused. */
static inline __aicore__ __ubuf__ float *
ASC_NAME(rms_norm_take)(__ubuf__ ASC_T *x, __ubuf__ ASC_T *residual, __ubuf__ ASC_T *s,
                        __ubuf__ float *x32, __ubuf__ float *q, int fused, uint32_t n)
{
#if ASC_16BIT
    ASC_WIDEN(x32, x, n);
    if (fused) {
        ASC_WIDEN(q, residual, n);
        ASC_THEN();
        asc_add(x32, x32, q, n);
        ASC_THEN();
        ASC_NARROW(s, x32, n);
        ASC_THEN();
        ASC_WIDEN(x32, s, n);
    }
    ASC_THEN();
    return x32;
#else
    (void)x32;
    (void)q;
    if (!fused)
        return x;
    asc_add(s, x, residual, n);
    ASC_THEN();
    return s;
#endif
}

/* q = x rstd, rounded if `llama`; rounded: scratch. */
static inline __aicore__ void ASC_NAME(rms_norm_normalise)(__ubuf__ float *q, __ubuf__ float *x,
                                                           __ubuf__ float *spread,
                                                           __ubuf__ ASC_T *rounded, int llama,
                                                           int64_t rows, int64_t pitch)
{
    ASC_BY_ROW(asc_mul, q, x, spread, rows, pitch);
    ASC_THEN();
#if ASC_16BIT
    if (llama) {
        ASC_NARROW(rounded, q, (uint32_t)(rows * pitch));
        ASC_THEN();
        ASC_WIDEN(q, rounded, (uint32_t)(rows * pitch));
        ASC_THEN();
    }
#else
    (void)rounded;
    (void)llama;
#endif
}

/* y = q scale; for f32 q is y. */
static inline __aicore__ void ASC_NAME(rms_norm_finish)(__ubuf__ ASC_T *y, __ubuf__ float *q,
                                                        __ubuf__ float *scale, int weighted,
                                                        int64_t rows, int64_t pitch)
{
    if (weighted) {
        ASC_BY_COLUMN(asc_mul, q, q, scale, rows, pitch);
        ASC_THEN();
    }
#if ASC_16BIT
    ASC_NARROW(y, q, (uint32_t)(rows * pitch));
    ASC_THEN();
#else
    (void)y;
#endif
}

ASC_STEP(rms_norm_forward_rows_begin, RMS_NORM_FORWARD_ROWS)
{
    const int64_t widest = asc_round_up(columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(x_at, bytes);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    if (residual)
        asc_clear(residual_at, bytes);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(scale), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, widest);
}

ASC_STEP(rms_norm_forward_rows_in, RMS_NORM_FORWARD_ROWS)
{
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (residual)
        ASC_ROWS_IN(ASC_T, residual_at, p->slot, residual, residual_stride, *p, p->pitch);
}

ASC_STEP(rms_norm_forward_rows_tile, RMS_NORM_FORWARD_ROWS)
{
    const int fused = residual != 0, weighted = weight != 0, taken = ASC_16BIT || fused;
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, p->slot);
    __ubuf__ float *stat = ASC_UB(float, rstd_at, p->turn), *spread = ASC_SCRATCH(spread);
#if ASC_16BIT
    __ubuf__ float *q = ASC_SCRATCH(q);
#else
    __ubuf__ float *q = out;
#endif
    ASC_MAY_WRITE(p->slot);
    __ubuf__ float *from =
        ASC_NAME(rms_norm_take)(ASC_UB(ASC_T, x_at, p->slot), ASC_UB(ASC_T, residual_at, p->slot),
                                ASC_UB(ASC_T, s_at, p->slot), ASC_SCRATCH(x32), q, fused, p->n);
    if (taken)
        ASC_HAS_READ(p->slot);
    asc_mul(q, from, from, p->n);
    ASC_THEN();
    asc_sum_rows(stat, q, p->rows, p->pitch, p->pitch, ASC_SCRATCH(eighth), ASC_SCRATCH(rest));
    rms_norm_rstd(stat, spread, p->rows, asc_f32(mean), asc_f32(eps));
    ASC_NAME(rms_norm_normalise)
    (q, from, spread, out, llama && weighted, p->rows, p->pitch);
    ASC_NAME(rms_norm_finish)(out, q, ASC_SCRATCH(scale), weighted, p->rows, p->pitch);
    if (!taken)
        ASC_HAS_READ(p->slot);
}

ASC_STEP(rms_norm_forward_rows_out, RMS_NORM_FORWARD_ROWS)
{
    ASC_ROWS_OUT(ASC_T, y, y_stride, *p, y_at, p->slot, p->pitch);
    if (residual)
        ASC_ROWS_OUT(ASC_T, s, s_stride, *p, s_at, p->slot, p->pitch);
    if (rstd)
        asc_copy_ub2gm_align(rstd + p->row, ASC_UB(float, rstd_at, p->turn),
                             (uint32_t)(p->rows * 4));
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_forward_rows##step)
#define ASC_PIPELINE_ARGS RMS_NORM_FORWARD_ROWS
#include "shared/asc_pipeline.asc.h"

/* Lines of short rows: x becomes s if that is there, q becomes y. values: of the rows. */
static inline __aicore__ void
ASC_NAME(rms_norm_forward_lines)(__ubuf__ float *x, __ubuf__ float *residual, __ubuf__ ASC_T *s,
                                 __ubuf__ float *q, __ubuf__ float *stat, __ubuf__ float *ones,
                                 __ubuf__ float *scale, __ubuf__ ASC_T *rounded, int llama,
                                 float mean, float eps, int64_t columns, int64_t lanes)
{
    const uint32_t n = (uint32_t)(columns * lanes);
    if (residual) {
        asc_add(x, x, residual, n);
        ASC_THEN();
#if ASC_16BIT
        ASC_NARROW(s, x, n);
        ASC_THEN();
        ASC_WIDEN(x, s, n);
        ASC_THEN();
#else
        (void)s;
#endif
    }
    asc_mul(q, x, x, n);
    ASC_THEN();
    asc_short_sum(stat, q, columns, lanes);
    asc_mul_scalar(stat, stat, mean, (uint32_t)lanes);
    ASC_THEN();
    asc_inverse_roots(stat, ones, (uint32_t)lanes, eps);
    ASC_BY_COLUMN(asc_mul, q, x, stat, columns, lanes);
    ASC_THEN();
#if ASC_16BIT
    if (llama && scale) {
        ASC_NARROW(rounded, q, n);
        ASC_THEN();
        ASC_WIDEN(q, rounded, n);
        ASC_THEN();
    }
#else
    (void)rounded;
    (void)llama;
#endif
    if (scale)
        ASC_BY_ROW(asc_mul, q, q, scale, columns, lanes);
    ASC_THEN();
}

#define ASC_SHORT ASC_NAME(rms_norm_forward_short)
#define ASC_SHORT_ARGS RMS_NORM_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x) ASC_READ(residual)
#define ASC_SHORT_WRITES ASC_WRITE(y, q) ASC_WRITE(s, x32)
#define ASC_SHORT_RESULTS ASC_WRITE(rstd)
#define ASC_SHORT_FIRST                                                               \
    if (weight)                                                                       \
        ASC_NAME(asc_columns_spread)                                                  \
    (ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, \
     asc_f32(offset), columns);
#define ASC_SHORT_TILE                                                                      \
    ASC_NAME(rms_norm_forward_lines)                                                        \
    (ASC_SCRATCH(x32), residual ? ASC_SCRATCH(residual32) : 0, ASC_UB(ASC_T, s_at, slot),   \
     ASC_SCRATCH(q), ASC_UB(float, rstd_at, slot), ASC_SCRATCH(ones),                       \
     weight ? ASC_SCRATCH(scale) : 0, ASC_UB(ASC_T, y_at, slot), (int)llama, asc_f32(mean), \
     asc_f32(eps), columns, lanes)
#include "shared/asc_short.asc.h"

/* y of a piece leaves, and rstd with the first of its rows. */
static inline __aicore__ void ASC_NAME(rms_norm_piece_out)(const asc_piece *p, __gm__ ASC_T *y,
                                                           int64_t y_stride, int64_t y_at,
                                                           __gm__ float *rstd, int64_t rstd_at)
{
    ASC_ROWS_OUT(ASC_T, y, y_stride, *p, y_at, p->slot, p->pitch);
    if (rstd && p->first)
        asc_copy_ub2gm_align(rstd + p->row, ASC_UB(float, rstd_at, p->turn),
                             (uint32_t)(p->rows * 4));
}

#include "rms_norm_forward_gated.asc.h"
#include "rms_norm_forward_modulated.asc.h"
#include "rms_norm_forward_wide.asc.h"
