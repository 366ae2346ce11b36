/* rms_norm_forward_gated.asc.h - the kernel with a gate, of one type; see asc_each_type.h. */

ASC_STEP(rms_norm_gated_forward_begin, RMS_NORM_GATED_FORWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(x_at, bytes);
    asc_clear(gate_at, bytes);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    if (!p->whole)
        asc_clear(weight_at, widest * 4);
    else if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(scale), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, widest);
}

ASC_STEP(rms_norm_gated_forward_in, RMS_NORM_GATED_FORWARD)
{
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (p->writes)
        ASC_ROWS_IN(ASC_T, gate_at, p->slot, gate, gate_stride, *p, p->pitch);
    if (p->writes && !p->whole && weight)
        ASC_NAME(asc_columns_in)
    (asc_place(weight_at, p->slot), weight, weight_f32, p->column, p->columns);
}

ASC_STEP(rms_norm_gated_forward_tile, RMS_NORM_GATED_FORWARD)
{
    const int early = ASC_16BIT && p->sums; /* nothing but what is widened is read in its copy */
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, p->slot);
    __ubuf__ float *stat = ASC_UB(float, rstd_at, p->turn), *scale = ASC_SCRATCH(scale);
    if (p->writes)
        ASC_MAY_WRITE(p->slot);
#if ASC_16BIT
    __ubuf__ float *from = ASC_SCRATCH(x32), *z = ASC_SCRATCH(z32), *q = ASC_SCRATCH(q);
    ASC_WIDEN(from, ASC_UB(ASC_T, x_at, p->slot), p->n);
    if (p->writes)
        ASC_WIDEN(z, ASC_UB(ASC_T, gate_at, p->slot), p->n);
    ASC_THEN();
#else
    __ubuf__ float *from = ASC_UB(float, x_at, p->slot), *z = ASC_UB(float, gate_at, p->slot);
    __ubuf__ float *q = out;
#endif
    if (early)
        ASC_HAS_READ(p->slot);
    rms_norm_piece_rstd(p, stat, ASC_SCRATCH(spread), ASC_SCRATCH(part), from, p->writes ? q : from,
                        ASC_SCRATCH(eighth), ASC_SCRATCH(rest), asc_f32(mean), asc_f32(eps));
    if (p->writes && !p->whole && weight)
        scale = ASC_NAME(asc_columns_piece)(scale, asc_place(weight_at, p->slot), weight_f32,
                                            asc_f32(offset), p->pitch);
    if (p->writes) {
        ASC_BY_ROW(asc_mul, q, from, ASC_SCRATCH(spread), p->rows, p->pitch);
        ASC_THEN();
        if (weight)
            ASC_BY_COLUMN(asc_mul, q, q, scale, p->rows, p->pitch);
        ASC_THEN();
        asc_silu_product(q, z, q, ASC_SCRATCH(h), ASC_SCRATCH(e), 1.0f, 1.0f, p->n);
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

ASC_STEP(rms_norm_gated_forward_out, RMS_NORM_GATED_FORWARD)
{
    ASC_NAME(rms_norm_piece_out)(p, y, y_stride, y_at, rstd, rstd_at);
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_gated_forward##step)
#define ASC_PIPELINE_ARGS RMS_NORM_GATED_FORWARD
#include "shared/asc_pipeline.asc.h"
