/* rms_norm_backward_gated.asc.h - the kernel with a gate, of one type; see asc_each_type.h. With u
 * = n (offset + weight), dgate = dy u silu'(gate), and all else is as without a gate, of dy
 * silu(gate) in place of dy. */

ASC_STEP(rms_norm_gated_backward_begin, RMS_NORM_GATED_BACKWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(gate_at, bytes);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    asc_duplicate(ASC_SCRATCH(sums), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    if (!p->whole) {
        asc_clear(weight_at, widest * 4);
        asc_clear(dweight_in_at, widest * 4);
        return;
    }
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, (uint32_t)widest);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(scale), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, widest);
}

ASC_STEP(rms_norm_gated_backward_in, RMS_NORM_GATED_BACKWARD)
{
    ASC_ROWS_IN(ASC_T, dy_at, p->slot, dy, dy_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, gate_at, p->slot, gate, gate_stride, *p, p->pitch);
    if (p->first && p->sums)
        asc_copy_rows_in(asc_place(rstd_at, p->turn), rstd + p->row, 1, p->rows * 4, 0, 0);
    if (!p->whole && weight)
        ASC_NAME(asc_columns_in)
    (asc_place(weight_at, p->slot), weight, weight_f32, p->column, p->columns);
    if (!p->sums && partials)
        rms_norm_sums_in(p, asc_place(dweight_in_at, p->slot),
                         partials + asc_get_block_idx() * partials_stride, 1, partials_stride,
                         p->pitch);
}

/* A piece as f32; n = x rstd. dz: where dgate is to be. */
typedef struct ASC_NAME(rms_norm_gated) {
    __ubuf__ float *g, *z, *n, *dz, *scale;
} ASC_NAME(rms_norm_gated);

static inline __aicore__ ASC_NAME(rms_norm_gated)
    ASC_NAME(rms_norm_gated_take)(const asc_piece *p, ASC_PARAMS(RMS_NORM_GATED_BACKWARD))
{
    ASC_NAME(rms_norm_gated) t;
#if ASC_16BIT
    t.g = t.dz = ASC_SCRATCH(dy32);
    t.z = ASC_SCRATCH(z32);
    t.n = ASC_SCRATCH(n);
    __ubuf__ float *x32 = t.n;
    ASC_WIDEN(t.g, ASC_UB(ASC_T, dy_at, p->slot), p->n);
    ASC_WIDEN(t.z, ASC_UB(ASC_T, gate_at, p->slot), p->n);
    ASC_WIDEN(t.n, ASC_UB(ASC_T, x_at, p->slot), p->n);
#else
    __ubuf__ float *x32 = ASC_UB(float, x_at, p->slot);
    t.g = ASC_UB(float, dy_at, p->slot);
    t.z = ASC_UB(float, gate_at, p->slot);
    t.n = p->writes ? ASC_UB(float, dx_at, p->slot) : x32;
    t.dz = ASC_UB(float, dgate_at, p->slot);
#endif
    t.scale = ASC_SCRATCH(scale);
    if (p->first && p->sums)
        asc_spread(ASC_SCRATCH(rstds), ASC_UB(float, rstd_at, p->turn), p->rows);
    ASC_THEN();
    if (!p->whole && weight)
        t.scale = ASC_NAME(asc_columns_piece)(t.scale, asc_place(weight_at, p->slot), weight_f32,
                                              asc_f32(offset), p->pitch);
    ASC_BY_ROW(asc_mul, t.n, x32, ASC_SCRATCH(rstds), p->rows, p->pitch);
    ASC_THEN();
    return t;
}

/* dgate, in its copy; z = dy silu(gate). */
static inline __aicore__ void ASC_NAME(rms_norm_gated_dgate)(const asc_piece *p,
                                                             const ASC_NAME(rms_norm_gated) * t,
                                                             ASC_PARAMS(RMS_NORM_GATED_BACKWARD))
{
    __ubuf__ float *u = ASC_SCRATCH(u);
    if (weight)
        ASC_BY_COLUMN(asc_mul, u, t->n, t->scale, p->rows, p->pitch);
    else
        asc_mul_scalar(u, t->n, 1.0f, p->n);
    ASC_THEN();
    asc_silu_gradients(t->dz, t->z, (__ubuf__ float *)0, t->g, t->z, u, ASC_SCRATCH(h),
                       ASC_SCRATCH(k), ASC_SCRATCH(e), 1.0f, 1.0f, p->n);
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, dgate_at, p->slot), t->dz, p->n);
    ASC_THEN();
#endif
}

ASC_STEP(rms_norm_gated_backward_tile, RMS_NORM_GATED_BACKWARD)
{
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, p->slot);
    __ubuf__ float *terms = ASC_SCRATCH(p), *sums = ASC_SCRATCH(sums);
    __ubuf__ float *dw = p->whole ? ASC_SCRATCH(dweight) : ASC_UB(float, dweight_out_at, p->slot);
    if (p->writes)
        ASC_MAY_WRITE(p->slot);
    const ASC_NAME(rms_norm_gated) t =
        ASC_NAME(rms_norm_gated_take)(p, ASC_NAMES(RMS_NORM_GATED_BACKWARD));
    if (p->writes)
        ASC_NAME(rms_norm_gated_dgate)(p, &t, ASC_NAMES(RMS_NORM_GATED_BACKWARD));
    else
        asc_silu_product(t.z, t.z, t.g, ASC_SCRATCH(h), ASC_SCRATCH(e), 1.0f, 1.0f, p->n);
    if (!p->sums && partials)
        rms_norm_sums_begin(p, dw, ASC_UB(float, dweight_in_at, p->slot), 1, p->pitch);
    ASC_NAME(rms_norm_weigh)
    (dw, p->writes && partials, t.scale, weight != 0, t.z, t.n, terms, out, 0, p->rows, p->pitch);
    if (p->sums)
        asc_mul(terms, t.z, t.n, p->n);
    ASC_THEN();
    if (p->writes)
        ASC_BY_ROW(asc_mul, t.z, t.z, ASC_SCRATCH(rstds), p->rows, p->pitch);
    if (p->sums)
        rms_norm_add_part(p, sums, ASC_SCRATCH(part), terms, ASC_SCRATCH(eighth),
                          ASC_SCRATCH(rest));
    if (p->sums && p->last)
        rms_norm_spread(ASC_SCRATCH(factors), sums, ASC_UB(float, rstd_at, p->turn), asc_f32(mean),
                        p->rows);
    ASC_THEN();
    if (p->writes)
        ASC_NAME(rms_norm_dx)
    (out, t.z, t.n, ASC_SCRATCH(factors), (__ubuf__ ASC_T *)0, 0, terms, p->rows, p->pitch);
    ASC_HAS_READ(p->slot);
}

ASC_STEP(rms_norm_gated_backward_out, RMS_NORM_GATED_BACKWARD)
{
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
    if (dgate)
        ASC_ROWS_OUT(ASC_T, dgate, dgate_stride, *p, dgate_at, p->slot, p->pitch);
    if (!p->whole && partials)
        rms_norm_sums_out(p, partials + asc_get_block_idx() * partials_stride,
                          asc_place(dweight_out_at, p->slot), 1, partials_stride, p->pitch);
}

ASC_STEP(rms_norm_gated_backward_end, RMS_NORM_GATED_BACKWARD)
{
    if (!partials || !p->whole)
        return;
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(partials + asc_get_block_idx() * partials_stride, ASC_SCRATCH(dweight),
                         (uint32_t)(columns * 4));
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_gated_backward##step)
#define ASC_PIPELINE_ARGS RMS_NORM_GATED_BACKWARD
#define ASC_PIPELINE_ENDS
#include "shared/asc_pipeline.asc.h"
