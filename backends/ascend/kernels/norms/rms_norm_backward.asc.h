/* rms_norm_backward.asc.h - the kernels of one type, that of whole rows here;
 * see asc_each_type.h. */
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

/* dx = m + n factor + ds, where m is rstd m already and `factors` is spread. m is used up; n is,
 * too, and for f32 it is dx. p:
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

ASC_STEP(rms_norm_backward_rows_begin, RMS_NORM_BACKWARD_ROWS)
{
    const int64_t widest = asc_round_up(columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    if (ds)
        asc_clear(ds_at, bytes);
    asc_duplicate(ASC_SCRATCH(sums), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, (uint32_t)widest);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(scale), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, widest);
}

ASC_STEP(rms_norm_backward_rows_in, RMS_NORM_BACKWARD_ROWS)
{
    ASC_ROWS_IN(ASC_T, dy_at, p->slot, dy, dy_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (ds)
        ASC_ROWS_IN(ASC_T, ds_at, p->slot, ds, ds_stride, *p, p->pitch);
    asc_copy_rows_in(asc_place(rstd_at, p->turn), rstd + p->row, 1, p->rows * 4, 0, 0);
}

ASC_STEP(rms_norm_backward_rows_tile, RMS_NORM_BACKWARD_ROWS)
{
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, p->slot);
    __ubuf__ float *rstd_in = ASC_UB(float, rstd_at, p->turn), *rstds = ASC_SCRATCH(rstds);
    __ubuf__ float *factors = ASC_SCRATCH(factors), *sums = ASC_SCRATCH(sums);
    __ubuf__ float *products = ASC_SCRATCH(p);
    ASC_MAY_WRITE(p->slot);
    asc_spread(rstds, rstd_in, p->rows);
#if ASC_16BIT
    __ubuf__ float *g = ASC_SCRATCH(dy32), *n = ASC_SCRATCH(n);
    ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, p->slot), p->n);
    ASC_WIDEN(n, ASC_UB(ASC_T, x_at, p->slot), p->n);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, n, rstds, p->rows, p->pitch);
#else
    __ubuf__ float *g = ASC_UB(float, dy_at, p->slot), *n = out;
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, ASC_UB(float, x_at, p->slot), rstds, p->rows, p->pitch);
#endif
    ASC_THEN();
    ASC_NAME(rms_norm_weigh)
    (ASC_SCRATCH(dweight), partials != 0, ASC_SCRATCH(scale), weight != 0, g, n, products, out,
     (int)llama, p->rows, p->pitch);
    asc_mul(products, g, n, p->n);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, g, g, rstds, p->rows, p->pitch);
    asc_sum_rows(sums, products, p->rows, p->pitch, p->pitch, ASC_SCRATCH(eighth),
                 ASC_SCRATCH(rest));
    rms_norm_spread(factors, sums, rstd_in, asc_f32(mean), p->rows);
    ASC_NAME(rms_norm_dx)
    (out, g, n, factors, ASC_UB(ASC_T, ds_at, p->slot), ds != 0, products, p->rows, p->pitch);
    ASC_HAS_READ(p->slot);
}

ASC_STEP(rms_norm_backward_rows_out, RMS_NORM_BACKWARD_ROWS)
{
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
}

ASC_STEP(rms_norm_backward_rows_end, RMS_NORM_BACKWARD_ROWS)
{
    if (!partials)
        return;
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(partials + asc_get_block_idx() * partials_stride, ASC_SCRATCH(dweight),
                         (uint32_t)(columns * 4));
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_backward_rows##step)
#define ASC_PIPELINE_ARGS RMS_NORM_BACKWARD_ROWS
#define ASC_PIPELINE_ENDS
#include "shared/asc_pipeline.asc.h"

/* Lines of short rows, of which there are `count`: n, which is x, becomes dx; g is dy, used up. dw,
 * scale, ds may be NULL; p and rounded: scratch. */
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

#include "rms_norm_backward_gated.asc.h"
#include "rms_norm_backward_modulated.asc.h"
#include "rms_norm_backward_wide.asc.h"
