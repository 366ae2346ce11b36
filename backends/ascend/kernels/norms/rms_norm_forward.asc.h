/* rms_norm_forward.asc.h - the kernels of one type, that of whole rows here; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* The f32 to be normalised, of n elements copied in: x; fused: s = x + residual. q: scratch. What was copied in is not needed
 * any more, but for an x of f32 that is not fused. */
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

ASC_KERNEL ASC_NAME(rms_norm_forward_rows)(ASC_PARAMS(RMS_NORM_FORWARD_ROWS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t pitch = asc_round_up(columns, ASC_LANES);
    const int64_t tile_bytes = tile_rows * pitch * (int64_t)sizeof(ASC_T);
    const int fused = residual != 0, weighted = weight != 0;
    __ubuf__ float *scale = ASC_UB(float, scale_at, 0), *spread = ASC_UB(float, spread_at, 0);
    __ubuf__ float *eighth = ASC_UB(float, eighth_at, 0), *rest = ASC_UB(float, rest_at, 0);
    int slot = 0;
    asc_clear_begin();
    asc_clear(x_at, tile_bytes);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    if (fused)
        asc_clear(residual_at, tile_bytes);
    if (weighted)
        ASC_NAME(asc_columns_load)
    (scale, asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, pitch);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * pitch);
        __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
        __ubuf__ float *stat = ASC_UB(float, rstd_at, slot);
#if ASC_16BIT
        __ubuf__ float *q = ASC_UB(float, q_at, 0);
#else
        __ubuf__ float *q = out;
#endif
        ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
        ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
        if (fused)
            ASC_ROWS_IN(ASC_T, residual_at, slot, residual, residual_stride, tile, pitch);
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
        __ubuf__ float *from = ASC_NAME(rms_norm_take)(
            ASC_UB(ASC_T, x_at, slot), ASC_UB(ASC_T, residual_at, slot), ASC_UB(ASC_T, s_at, slot),
            ASC_UB(float, x32_at, 0), q, fused, n);
        const int taken = ASC_16BIT || fused;
        if (taken)
            ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
        asc_mul(q, from, from, n);
        ASC_THEN();
        asc_sum_rows(stat, q, tile.rows, pitch, pitch, eighth, rest);
        rms_norm_rstd(stat, spread, tile.rows, asc_f32(mean), asc_f32(eps));
        ASC_NAME(rms_norm_normalise)
        (q, from, spread, out, llama && weighted, tile.rows, pitch);
        ASC_NAME(rms_norm_finish)(out, q, scale, weighted, tile.rows, pitch);
        if (!taken)
            ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
        ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
        ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, pitch);
        if (fused)
            ASC_ROWS_OUT(ASC_T, s, s_stride, tile, s_at, slot, pitch);
        if (rstd)
            asc_copy_ub2gm_align(rstd + tile.row, stat, (uint32_t)(tile.rows * 4));
        ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
    }
    asc_pipeline_end();
}

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

#include "rms_norm_forward_wide.asc.h"
