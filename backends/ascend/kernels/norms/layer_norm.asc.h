/* layer_norm.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* Moments and what they become; sums and blocks lie where the list has them. */
#define LAYER_NORM_ROWS(r)                    \
    norm_rows r;                              \
    r.mean = ASC_UB(float, mean_at, p->turn); \
    r.rstd = ASC_UB(float, rstd_at, p->turn); \
    r.sum = ASC_SCRATCH(sum);                 \
    r.squares = ASC_SCRATCH(squares);         \
    r.piece = ASC_SCRATCH(piece);             \
    r.means = ASC_SCRATCH(means);             \
    r.rstds = ASC_SCRATCH(rstds);             \
    r.eighth = ASC_SCRATCH(eighth);           \
    r.rest = ASC_SCRATCH(rest)

ASC_STEP(layer_norm_forward_begin, LAYER_NORM_FORWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(mean_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    if (!p->whole) {
        asc_clear(weight_at, widest * 4);
        asc_clear(bias_at, widest * 4);
    }
    if (p->whole && weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(scale), asc_place(x_at, 0), weight, weight_f32, 0.0f, columns, widest);
    if (p->whole && bias)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(shift), asc_place(x_at, 1), bias, bias_f32, 0.0f, columns, widest);
}

ASC_STEP(layer_norm_forward_in, LAYER_NORM_FORWARD)
{
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (p->sums)
        return;
    if (weight)
        ASC_NAME(asc_columns_in)
    (asc_place(weight_at, p->slot), weight, weight_f32, p->column, p->columns);
    if (bias)
        ASC_NAME(asc_columns_in)
    (asc_place(bias_at, p->slot), bias, bias_f32, p->column, p->columns);
}

ASC_STEP(layer_norm_forward_tile, LAYER_NORM_FORWARD)
{
    __ubuf__ float *scale = ASC_SCRATCH(scale), *shift = ASC_SCRATCH(shift), *q = ASC_SCRATCH(q);
    LAYER_NORM_ROWS(r);
    if (p->writes)
        ASC_MAY_WRITE(p->slot);
    if (p->writes && !p->whole && weight)
        scale = ASC_NAME(asc_columns_piece)(scale, asc_place(weight_at, p->slot), weight_f32, 0.0f,
                                            p->pitch);
    if (p->writes && !p->whole && bias)
        shift = ASC_NAME(asc_columns_piece)(shift, asc_place(bias_at, p->slot), bias_f32, 0.0f,
                                            p->pitch);
#if ASC_16BIT
    __ubuf__ float *from = ASC_SCRATCH(x32), *to = q;
    ASC_WIDEN(from, ASC_UB(ASC_T, x_at, p->slot), p->n);
    ASC_THEN();
#else
    __ubuf__ float *from = ASC_UB(float, x_at, p->slot), *to = ASC_UB(float, y_at, p->slot);
#endif
    if (p->sums) {
        layer_norm_moments(&r, from, q, p->first, p->rows, p->pitch, p->columns);
        ASC_HAS_READ(p->slot);
    }
    if (p->sums && p->last)
        norm_statistics(&r, p->whole, p->rows, asc_f32(part), asc_f32(eps));
    if (!p->writes)
        return;
    if (!p->whole) {
        ASC_BY_ROW(asc_sub, q, from, r.means, p->rows, p->pitch);
        ASC_THEN();
    }
    ASC_BY_ROW(asc_mul, to, q, r.rstds, p->rows, p->pitch);
    ASC_THEN();
    norm_affine(to, weight ? scale : 0, bias ? shift : 0, 0, p->rows, p->pitch);
    if (!p->whole)
        ASC_HAS_READ(p->slot);
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, y_at, p->slot), q, p->n);
#endif
}

ASC_STEP(layer_norm_forward_out, LAYER_NORM_FORWARD)
{
    ASC_ROWS_OUT(ASC_T, y, y_stride, *p, y_at, p->slot, p->pitch);
    if (mean && p->first)
        asc_copy_ub2gm_align(mean + p->row, ASC_UB(float, mean_at, p->turn),
                             (uint32_t)(p->rows * 4));
    if (rstd && p->first)
        asc_copy_ub2gm_align(rstd + p->row, ASC_UB(float, rstd_at, p->turn),
                             (uint32_t)(p->rows * 4));
}

#undef LAYER_NORM_ROWS

#define ASC_PIPELINE(step) ASC_NAME(layer_norm_forward##step)
#define ASC_PIPELINE_ARGS LAYER_NORM_FORWARD
#include "shared/asc_pipeline.asc.h"

#define ASC_SHORT ASC_NAME(layer_norm_forward_short)
#define ASC_SHORT_ARGS LAYER_NORM_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, x32)
#define ASC_SHORT_RESULTS ASC_WRITE(mean) ASC_WRITE(rstd)
#define ASC_SHORT_FIRST                                                                     \
    if (weight)                                                                             \
        ASC_NAME(asc_columns_spread)                                                        \
    (ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, 0.0f, \
     columns);                                                                              \
    if (bias)                                                                               \
        ASC_NAME(asc_columns_spread)                                                        \
    (ASC_SCRATCH(shift), ASC_SCRATCH(values), asc_place(x_at, 1), bias, bias_f32, 0.0f, columns);
#define ASC_SHORT_TILE                                                                             \
    layer_norm_forward_lines(ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(y), ASC_UB(float, mean_at, slot), \
                             ASC_UB(float, rstd_at, slot), ASC_SCRATCH(ones),                      \
                             weight ? ASC_SCRATCH(scale) : 0, bias ? ASC_SCRATCH(shift) : 0,       \
                             asc_f32(part), asc_f32(eps), columns, lanes)
#include "shared/asc_short.asc.h"

#include "layer_norm_backward.asc.h"
