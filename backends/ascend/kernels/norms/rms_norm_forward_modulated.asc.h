/* rms_norm_forward_modulated.asc.h - the kernel with a scale and a shift of groups of rows, of
 * whole rows and one type; see asc_each_type.h. */

#include "rms_norm_factor.asc.h"

static inline __aicore__ void
ASC_NAME(rms_norm_modulated_forward_begin)(int64_t pitch, ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    asc_clear_begin();
    asc_clear(x_at, tile_rows * pitch * (int64_t)sizeof(ASC_T));
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear_copies(staged_at, 1, 8 * pitch);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(weight32), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns,
     pitch);
}

/* The factor and shift of a group, when V has used those before. */
static inline __aicore__ void
ASC_NAME(rms_norm_modulated_forward_group)(int64_t group, int64_t pitch,
                                           ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    const int64_t size = sizeof(ASC_T);
    const uint64_t staged = asc_place(staged_at, 0), staged2 = staged + (uint64_t)(4 * pitch);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)
    (staged, rms_norm_row_of(scale, group, scale_stride, scale_f32, size), scale_f32, 0, columns);
    if (shift)
        ASC_NAME(asc_columns_in)
    (staged2, rms_norm_row_of(shift, group, shift_stride, shift_f32, size), shift_f32, 0, columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(rms_norm_factor)
    (ASC_SCRATCH(factor), staged, scale_f32, weight ? ASC_SCRATCH(weight32) : 0, pitch);
    if (shift)
        ASC_NAME(asc_columns_widen)
    (ASC_SCRATCH(shift32), staged2, shift_f32, 0.0f, pitch);
    ASC_THEN();
}

static inline __aicore__ void
ASC_NAME(rms_norm_modulated_forward_tile)(asc_tile tile, int slot, int64_t pitch,
                                          ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    const uint32_t n = (uint32_t)(tile.rows * pitch);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
    __ubuf__ float *stat = ASC_UB(float, rstd_at, slot), *spread = ASC_SCRATCH(spread);
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
    ASC_BY_COLUMN(asc_mul, q, q, ASC_SCRATCH(factor), tile.rows, pitch);
    ASC_THEN();
    if (shift)
        ASC_BY_COLUMN(asc_add, q, q, ASC_SCRATCH(shift32), tile.rows, pitch);
    ASC_THEN();
#if ASC_16BIT
    ASC_NARROW(out, q, n);
    ASC_THEN();
#else
    ASC_HAS_READ(slot);
#endif
}

ASC_KERNEL ASC_NAME(rms_norm_modulated_forward)(ASC_PARAMS(RMS_NORM_MODULATED_FORWARD))
{
    const rms_norm_groups g = rms_norm_groups_of(rows, height, tile_rows, columns);
    const int64_t pitch = asc_round_up(columns, ASC_LANES);
    int64_t group = -1;
    int slot = 0;
    ASC_NAME(rms_norm_modulated_forward_begin)(pitch, ASC_NAMES(RMS_NORM_MODULATED_FORWARD));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = g.share.begin; task < g.share.end; task++, slot ^= 1) {
        const asc_tile tile = rms_norm_group_tile(&g, task);
        ASC_MAY_FILL(slot);
        ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
        ASC_HAS_FILLED(slot);
        if (task / g.per_group != group)
            ASC_NAME(rms_norm_modulated_forward_group)
        (task / g.per_group, pitch, ASC_NAMES(RMS_NORM_MODULATED_FORWARD));
        group = task / g.per_group;
        ASC_NAME(rms_norm_modulated_forward_tile)
        (tile, slot, pitch, ASC_NAMES(RMS_NORM_MODULATED_FORWARD));
        ASC_HAS_WRITTEN(slot);
        ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, pitch);
        if (rstd)
            asc_copy_ub2gm_align(rstd + tile.row, ASC_UB(float, rstd_at, slot),
                                 (uint32_t)(tile.rows * 4));
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}
