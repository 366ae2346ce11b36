/* rms_norm_forward_modulated.asc.h - the kernel with a scale and a shift of groups of rows, of
 * whole rows and one type; see asc_each_type.h. */

#include "rms_norm_factor.asc.h"

ASC_KERNEL ASC_NAME(rms_norm_modulated_forward)(ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    const rms_norm_groups g = rms_norm_groups_of(rows, height, tile_rows, columns);
    const int64_t pitch = asc_round_up(columns, ASC_LANES), size = sizeof(ASC_T);
    const uint64_t staged = asc_place(staged_at, 0), staged2 = staged + (uint64_t)(4 * pitch);
    __ubuf__ float *factor = ASC_SCRATCH(factor), *shift32 = ASC_SCRATCH(shift32);
    __ubuf__ float *weight32 = weight ? ASC_SCRATCH(weight32) : 0, *spread = ASC_SCRATCH(spread);
    int64_t group = -1;
    int slot = 0;
    (void)tile_columns;
    asc_clear_begin();
    asc_clear(x_at, tile_rows * pitch * size);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear_copies(staged_at, 1, 8 * pitch);
    if (weight)
        ASC_NAME(asc_columns_load)
    (weight32, asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns, pitch);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = g.share.begin; task < g.share.end; task++, slot ^= 1) {
        const asc_tile tile = rms_norm_group_tile(&g, task);
        const uint32_t n = (uint32_t)(tile.rows * pitch);
        const int changes = task / g.per_group != group;
        __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
        __ubuf__ float *stat = ASC_UB(float, rstd_at, slot);
        group = task / g.per_group;
        ASC_MAY_FILL(slot);
        ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
        if (changes) {
            ASC_FENCE(PIPE_V, PIPE_MTE2); /* V has used what was staged before */
            ASC_NAME(asc_columns_in)
            (staged, rms_norm_row_of(scale, group, scale_stride, scale_f32, size), scale_f32, 0,
             columns);
            if (shift)
                ASC_NAME(asc_columns_in)
            (staged2, rms_norm_row_of(shift, group, shift_stride, shift_f32, size), shift_f32, 0,
             columns);
        }
        ASC_HAS_FILLED(slot);
        if (changes) {
            ASC_NAME(rms_norm_factor)(factor, staged, scale_f32, weight32, pitch);
            if (shift)
                ASC_NAME(asc_columns_widen)(shift32, staged2, shift_f32, 0.0f, pitch);
            ASC_THEN();
        }
        ASC_MAY_WRITE(slot);
#if ASC_16BIT
        __ubuf__ float *from = ASC_SCRATCH(x32), *q = ASC_SCRATCH(q);
        ASC_WIDEN(from, ASC_UB(ASC_T, x_at, slot), n);
        ASC_THEN();
        ASC_HAS_READ(slot);
#else
        __ubuf__ float *from = ASC_UB(float, x_at, slot), *q = out;
#endif
        asc_mul(q, from, from, n);
        ASC_THEN();
        asc_sum_rows(stat, q, tile.rows, pitch, pitch, ASC_SCRATCH(eighth), ASC_SCRATCH(rest));
        rms_norm_rstd(stat, spread, tile.rows, asc_f32(mean), asc_f32(eps));
        ASC_BY_ROW(asc_mul, q, from, spread, tile.rows, pitch);
        ASC_THEN();
        ASC_BY_COLUMN(asc_mul, q, q, factor, tile.rows, pitch);
        ASC_THEN();
        if (shift)
            ASC_BY_COLUMN(asc_add, q, q, shift32, tile.rows, pitch);
        ASC_THEN();
#if ASC_16BIT
        ASC_NARROW(out, q, n);
        ASC_THEN();
#else
        ASC_HAS_READ(slot);
#endif
        ASC_HAS_WRITTEN(slot);
        ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, pitch);
        if (rstd)
            asc_copy_ub2gm_align(rstd + tile.row, stat, (uint32_t)(tile.rows * 4));
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}
