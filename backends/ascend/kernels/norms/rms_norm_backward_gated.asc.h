/* rms_norm_backward_gated.asc.h - the kernel with a gate, of whole rows and one type; see
 * asc_each_type.h. With u = n (offset + weight), dgate = dy u silu'(gate), and all else is as
 * without a gate, of dy silu(gate) in place of dy. */

ASC_STEP(rms_norm_gated_backward_begin, RMS_NORM_GATED_BACKWARD)
{
    const int64_t widest = asc_round_up(columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(gate_at, bytes);
    asc_duplicate(ASC_SCRATCH(sums), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
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
    asc_copy_rows_in(asc_place(rstd_at, p->turn), rstd + p->row, 1, p->rows * 4, 0, 0);
}

ASC_STEP(rms_norm_gated_backward_tile, RMS_NORM_GATED_BACKWARD)
{
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, p->slot), *out2 = ASC_UB(ASC_T, dgate_at, p->slot);
    __ubuf__ float *rstd_in = ASC_UB(float, rstd_at, p->turn), *rstds = ASC_SCRATCH(rstds);
    __ubuf__ float *products = ASC_SCRATCH(p), *u = ASC_SCRATCH(u);
    ASC_MAY_WRITE(p->slot);
    asc_spread(rstds, rstd_in, p->rows);
#if ASC_16BIT
    __ubuf__ float *g = ASC_SCRATCH(dy32), *z = ASC_SCRATCH(z32), *n = ASC_SCRATCH(n);
    __ubuf__ float *dz = g, *x32 = n;
    ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, p->slot), p->n);
    ASC_WIDEN(z, ASC_UB(ASC_T, gate_at, p->slot), p->n);
    ASC_WIDEN(n, ASC_UB(ASC_T, x_at, p->slot), p->n);
#else
    __ubuf__ float *g = ASC_UB(float, dy_at, p->slot), *z = ASC_UB(float, gate_at, p->slot);
    __ubuf__ float *n = out, *dz = out2, *x32 = ASC_UB(float, x_at, p->slot);
#endif
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, x32, rstds, p->rows, p->pitch);
    ASC_THEN();
    if (weight)
        ASC_BY_COLUMN(asc_mul, u, n, ASC_SCRATCH(scale), p->rows, p->pitch);
    else
        asc_mul_scalar(u, n, 1.0f, p->n);
    ASC_THEN();
    asc_silu_gradients(dz, z, (__ubuf__ float *)0, g, z, u, ASC_SCRATCH(h), ASC_SCRATCH(k),
                       ASC_SCRATCH(e), 1.0f, 1.0f, p->n);
#if ASC_16BIT
    ASC_NARROW(out2, dz, p->n);
    ASC_THEN();
#else
    (void)out2;
#endif
    ASC_NAME(rms_norm_weigh)
    (ASC_SCRATCH(dweight), partials != 0, ASC_SCRATCH(scale), weight != 0, z, n, products, out, 0,
     p->rows, p->pitch);
    asc_mul(products, z, n, p->n);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, z, z, rstds, p->rows, p->pitch);
    asc_sum_rows(ASC_SCRATCH(sums), products, p->rows, p->pitch, p->pitch, ASC_SCRATCH(eighth),
                 ASC_SCRATCH(rest));
    rms_norm_spread(ASC_SCRATCH(factors), ASC_SCRATCH(sums), rstd_in, asc_f32(mean), p->rows);
    ASC_NAME(rms_norm_dx)
    (out, z, n, ASC_SCRATCH(factors), (__ubuf__ ASC_T *)0, 0, products, p->rows, p->pitch);
    ASC_HAS_READ(p->slot);
}

ASC_STEP(rms_norm_gated_backward_out, RMS_NORM_GATED_BACKWARD)
{
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
    if (dgate)
        ASC_ROWS_OUT(ASC_T, dgate, dgate_stride, *p, dgate_at, p->slot, p->pitch);
}

ASC_STEP(rms_norm_gated_backward_end, RMS_NORM_GATED_BACKWARD)
{
    if (!partials)
        return;
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(partials + asc_get_block_idx() * partials_stride, ASC_SCRATCH(dweight),
                         (uint32_t)(columns * 4));
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_gated_backward##step)
#define ASC_PIPELINE_ARGS RMS_NORM_GATED_BACKWARD
#define ASC_PIPELINE_ENDS
#include "shared/asc_pipeline.asc.h"
