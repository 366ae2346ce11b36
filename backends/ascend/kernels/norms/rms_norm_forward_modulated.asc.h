/* rms_norm_forward_modulated.asc.h - the kernel with a scale and a shift of groups of rows, of one
 * type; see asc_each_type.h. */

#include "rms_norm_factor.asc.h"

ASC_STEP(rms_norm_modulated_forward_begin, RMS_NORM_MODULATED_FORWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    if (!p->whole) {
        asc_clear(pieces_at, 12 * widest);
        return;
    }
    asc_clear_copies(staged_at, 1, 8 * widest);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(weight32), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns,
     widest);
}

/* The scale and shift of a group, as far as a piece has them, to where they are staged. */
static inline __aicore__ void
ASC_NAME(rms_norm_modulated_forward_stage)(const asc_piece *p, uint64_t staged, int64_t widest,
                                           ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    const int64_t size = sizeof(ASC_T);
    ASC_NAME(asc_columns_in)
    (staged, rms_norm_row_of(scale, p->group, scale_stride, scale_f32, size), scale_f32, p->column,
     p->columns);
    if (shift)
        ASC_NAME(asc_columns_in)
    (staged + (uint64_t)(4 * widest),
     rms_norm_row_of(shift, p->group, shift_stride, shift_f32, size), shift_f32, p->column,
     p->columns);
}

ASC_STEP(rms_norm_modulated_forward_in, RMS_NORM_MODULATED_FORWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (p->sums)
        return;
    ASC_NAME(rms_norm_modulated_forward_stage)
    (p, asc_place(pieces_at, p->slot), widest, ASC_NAMES(RMS_NORM_MODULATED_FORWARD));
    if (weight)
        ASC_NAME(asc_columns_in)
    (asc_place(pieces_at, p->slot) + (uint64_t)(8 * widest), weight, weight_f32, p->column,
     p->columns);
}

/* What rows are multiplied by, and what is added to them: of whole rows once for a group, when V
 * has used those before. */
static inline __aicore__ void
ASC_NAME(rms_norm_modulated_forward_columns)(const asc_piece *p,
                                             ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const uint64_t staged = p->whole ? asc_place(staged_at, 0) : asc_place(pieces_at, p->slot);
    __ubuf__ float *weight32 = weight ? ASC_SCRATCH(weight32) : 0;
    if (p->whole) {
        ASC_FENCE(PIPE_V, PIPE_MTE2);
        ASC_NAME(rms_norm_modulated_forward_stage)
        (p, staged, widest, ASC_NAMES(RMS_NORM_MODULATED_FORWARD));
        ASC_FENCE(PIPE_MTE2, PIPE_V);
    } else if (weight) {
        weight32 = ASC_NAME(asc_columns_piece)(weight32, staged + (uint64_t)(8 * widest),
                                               weight_f32, asc_f32(offset), p->pitch);
    }
    ASC_NAME(rms_norm_factor)(ASC_SCRATCH(factor), staged, scale_f32, weight32, p->pitch);
    if (shift)
        ASC_NAME(asc_columns_widen)
    (ASC_SCRATCH(shift32), staged + (uint64_t)(4 * widest), shift_f32, 0.0f, p->pitch);
    ASC_THEN();
}

ASC_STEP(rms_norm_modulated_forward_tile, RMS_NORM_MODULATED_FORWARD)
{
    const int early = ASC_16BIT && p->sums; /* nothing but what is widened is read in its copy */
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, p->slot);
    __ubuf__ float *stat = ASC_UB(float, rstd_at, p->turn), *spread = ASC_SCRATCH(spread);
    if (p->writes && (!p->whole || p->begins))
        ASC_NAME(rms_norm_modulated_forward_columns)(p, ASC_NAMES(RMS_NORM_MODULATED_FORWARD));
    if (p->writes)
        ASC_MAY_WRITE(p->slot);
#if ASC_16BIT
    __ubuf__ float *from = ASC_SCRATCH(x32), *q = ASC_SCRATCH(q);
    ASC_WIDEN(from, ASC_UB(ASC_T, x_at, p->slot), p->n);
    ASC_THEN();
#else
    __ubuf__ float *from = ASC_UB(float, x_at, p->slot), *q = out;
#endif
    if (early)
        ASC_HAS_READ(p->slot);
    rms_norm_piece_rstd(p, stat, ASC_SCRATCH(spread), ASC_SCRATCH(part), from, p->writes ? q : from,
                        ASC_SCRATCH(eighth), ASC_SCRATCH(rest), asc_f32(mean), asc_f32(eps));
    if (p->writes) {
        ASC_BY_ROW(asc_mul, q, from, spread, p->rows, p->pitch);
        ASC_THEN();
        ASC_BY_COLUMN(asc_mul, q, q, ASC_SCRATCH(factor), p->rows, p->pitch);
        ASC_THEN();
        if (shift)
            ASC_BY_COLUMN(asc_add, q, q, ASC_SCRATCH(shift32), p->rows, p->pitch);
        ASC_THEN();
    }
    if (!early)
        ASC_HAS_READ(p->slot);
#if ASC_16BIT
    if (p->writes) {
        ASC_NARROW(out, q, p->n);
        ASC_THEN();
    }
#endif
}

ASC_STEP(rms_norm_modulated_forward_out, RMS_NORM_MODULATED_FORWARD)
{
    ASC_NAME(rms_norm_piece_out)(p, y, y_stride, y_at, rstd, rstd_at);
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_modulated_forward##step)
#define ASC_PIPELINE_ARGS RMS_NORM_MODULATED_FORWARD
#define ASC_PIPELINE_GROUPS height
#include "shared/asc_pipeline.asc.h"
