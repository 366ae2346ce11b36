/* rms_norm_backward.asc.h - the kernels of one type, that of whole rows here; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* p = g n, n rounded if `llama`. rounded: scratch. */
static inline __aicore__ void ASC_NAME(rms_norm_summands)(__ubuf__ float *p, __ubuf__ float *g,
                                                          __ubuf__ float *n,
                                                          __ubuf__ ASC_T *rounded, int llama,
                                                          uint32_t all)
{
    __ubuf__ float *factor = n;
#if ASC_16BIT
    if (llama) {
        ASC_NARROW(rounded, n, all);
        ASC_THEN();
        ASC_WIDEN(p, rounded, all);
        ASC_THEN();
        factor = p;
    }
#else
    (void)rounded;
    (void)llama;
#endif
    asc_mul(p, g, factor, all);
    ASC_THEN();
}

/* dw += the rows of n g, n rounded if `llama`; then g = m. p: scratch, of f32; rounded: scratch. */
static inline __aicore__ void ASC_NAME(rms_norm_weigh)(__ubuf__ float *dw, int summed,
                                                       __ubuf__ float *scale, int weighted,
                                                       __ubuf__ float *g, __ubuf__ float *n,
                                                       __ubuf__ float *p, __ubuf__ ASC_T *rounded,
                                                       int llama, int64_t rows, int64_t pitch)
{
    const uint32_t all = (uint32_t)(rows * pitch);
    if (summed) {
        ASC_NAME(rms_norm_summands)(p, g, n, rounded, llama, all);
        asc_add_rows(dw, p, rows, pitch);
    }
    if (weighted)
        ASC_BY_COLUMN(asc_mul, g, g, scale, rows, pitch);
    ASC_THEN();
}

/* dx = m + n factor + ds, where m is rstd m already and `factors` is spread. m is used up; n is, too, and for f32 it is dx. p:
 * scratch. */
static inline __aicore__ void ASC_NAME(rms_norm_dx)(__ubuf__ ASC_T *dx, __ubuf__ float *m,
                                                    __ubuf__ float *n, __ubuf__ float *factors,
                                                    __ubuf__ ASC_T *ds, int has_ds,
                                                    __ubuf__ float *p, int64_t rows, int64_t pitch)
{
    const uint32_t all = (uint32_t)(rows * pitch);
    if (has_ds) {
#if ASC_16BIT
        ASC_WIDEN(p, ds, all);
        ASC_THEN();
#else
        p = ds;
#endif
        asc_add(m, m, p, all);
        ASC_THEN();
    }
    ASC_BY_ROW(ASC_MUL_ADD, n, m, factors, rows, pitch);
    ASC_THEN();
#if ASC_16BIT
    ASC_NARROW(dx, n, all);
    ASC_THEN();
#else
    (void)dx;
#endif
}

ASC_KERNEL ASC_NAME(rms_norm_backward_rows)(ASC_PARAMS(RMS_NORM_BACKWARD_ROWS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t pitch = asc_round_up(columns, ASC_LANES);
    const int64_t tile_bytes = tile_rows * pitch * (int64_t)sizeof(ASC_T);
    __ubuf__ float *scale = ASC_UB(float, scale_at, 0), *dw = ASC_UB(float, dweight_at, 0);
    __ubuf__ float *rstds = ASC_UB(float, rstds_at, 0), *factors = ASC_UB(float, factors_at, 0);
    __ubuf__ float *p = ASC_UB(float, p_at, 0), *sums = ASC_UB(float, sums_at, 0);
    __ubuf__ float *eighth = ASC_UB(float, eighth_at, 0), *rest = ASC_UB(float, rest_at, 0);
    int slot = 0;
    asc_clear_begin();
    asc_clear(dy_at, tile_bytes);
    asc_clear(x_at, tile_bytes);
    if (ds)
        asc_clear(ds_at, tile_bytes);
    asc_duplicate(sums, 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    asc_duplicate(dw, 0.0f, (uint32_t)pitch);
    if (weight)
        ASC_NAME(asc_columns_load)
    (scale, asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, pitch);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t all = (uint32_t)(tile.rows * pitch);
        __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, slot);
        __ubuf__ float *rstd_in = ASC_UB(float, rstd_at, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
        ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
        ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
        if (ds)
            ASC_ROWS_IN(ASC_T, ds_at, slot, ds, ds_stride, tile, pitch);
        asc_copy_rows_in(asc_place(rstd_at, slot), rstd + tile.row, 1, tile.rows * 4, 0, 0);
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
        ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
        asc_spread(rstds, rstd_in, tile.rows);
#if ASC_16BIT
        __ubuf__ float *g = ASC_UB(float, dy32_at, 0), *n = ASC_UB(float, n_at, 0);
        ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, slot), all);
        ASC_WIDEN(n, ASC_UB(ASC_T, x_at, slot), all);
        ASC_THEN();
        ASC_BY_ROW(asc_mul, n, n, rstds, tile.rows, pitch);
#else
        __ubuf__ float *g = ASC_UB(float, dy_at, slot), *n = out;
        ASC_THEN();
        ASC_BY_ROW(asc_mul, n, ASC_UB(float, x_at, slot), rstds, tile.rows, pitch);
#endif
        ASC_THEN();
        ASC_NAME(rms_norm_weigh)
        (dw, partials != 0, scale, weight != 0, g, n, p, out, (int)llama, tile.rows, pitch);
        asc_mul(p, g, n, all);
        ASC_THEN();
        ASC_BY_ROW(asc_mul, g, g, rstds, tile.rows, pitch);
        asc_sum_rows(sums, p, tile.rows, pitch, pitch, eighth, rest);
        rms_norm_spread(factors, sums, rstd_in, asc_f32(mean), tile.rows);
        ASC_NAME(rms_norm_dx)
        (out, g, n, factors, ASC_UB(ASC_T, ds_at, slot), ds != 0, p, tile.rows, pitch);
        ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
        ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
        ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
        ASC_ROWS_OUT(ASC_T, dx, dx_stride, tile, dx_at, slot, pitch);
        ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
    }
    if (partials) {
        asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID2);
        asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID2);
        asc_copy_ub2gm_align(partials + asc_get_block_idx() * partials_stride, dw,
                             (uint32_t)(columns * 4));
    }
    asc_pipeline_end();
}

/* Lines of short rows, of which there are `count`: n, which is x, becomes dx; g is dy, used up. dw, scale, ds may be NULL; p and rounded:
 * scratch. */
static inline __aicore__ void ASC_NAME(rms_norm_backward_lines)(
    __ubuf__ float *g, __ubuf__ float *ds, __ubuf__ float *n, __ubuf__ float *rstd,
    __ubuf__ float *sum, __ubuf__ float *dw, __ubuf__ float *scale, __ubuf__ float *p,
    __ubuf__ ASC_T *rounded, int llama, float mean, int64_t columns, int64_t lanes, int64_t count)
{
    const uint32_t all = (uint32_t)(columns * lanes);
    ASC_BY_COLUMN(asc_mul, n, n, rstd, columns, lanes);
    ASC_THEN();
    if (dw) {
        ASC_NAME(rms_norm_summands)(p, g, n, rounded, llama, all);
        asc_short_add(dw, p, columns, lanes, count);
    }
    if (scale)
        ASC_BY_ROW(asc_mul, g, g, scale, columns, lanes);
    ASC_THEN();
    asc_mul(p, g, n, all);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, g, g, rstd, columns, lanes);
    asc_short_sum(sum, p, columns, lanes);
    asc_mul_scalar(sum, sum, -mean, (uint32_t)lanes);
    if (ds)
        asc_add(g, g, ds, all);
    ASC_THEN();
    asc_mul(sum, sum, rstd, (uint32_t)lanes);
    ASC_THEN();
    ASC_BY_COLUMN(ASC_MUL_ADD, n, g, sum, columns, lanes);
    ASC_THEN();
}

#define ASC_SHORT ASC_NAME(rms_norm_backward_short)
#define ASC_SHORT_ARGS RMS_NORM_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(ds) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, x32)
#define ASC_SHORT_VALUES ASC_READ(rstd)
#define ASC_SHORT_FIRST                                                               \
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, (uint32_t)(columns * ASC_LANES));       \
    if (weight)                                                                       \
        ASC_NAME(asc_columns_spread)                                                  \
    (ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, \
     asc_f32(offset), columns);
#define ASC_SHORT_TILE                                                                    \
    ASC_NAME(rms_norm_backward_lines)                                                     \
    (ASC_SCRATCH(dy32), ds ? ASC_SCRATCH(ds32) : 0, ASC_SCRATCH(x32),                     \
     ASC_UB(float, rstd_at, slot), ASC_SCRATCH(sum), partials ? ASC_SCRATCH(dweight) : 0, \
     weight ? ASC_SCRATCH(scale) : 0, ASC_SHORT_SCRATCH(dx), ASC_UB(ASC_T, dx_at, slot),  \
     (int)llama, asc_f32(mean), columns, lanes, count)
#define ASC_SHORT_LAST                                                                            \
    if (partials)                                                                                 \
        asc_short_sums_out(partials + asc_get_block_idx() * partials_stride, ASC_SCRATCH(values), \
                           ASC_SCRATCH(dweight), columns);
#include "shared/asc_short.asc.h"

#include "rms_norm_backward_wide.asc.h"
