/* rms_norm_backward_modulated.asc.h - the kernels with a scale of groups of rows, of whole rows and
 * one type; see asc_each_type.h. dx is as without a scale, with weight (1 + scale) in place of the
 * weight. */

#include "rms_norm_factor.asc.h"

static inline __aicore__ void
ASC_NAME(rms_norm_modulated_backward_begin)(int64_t pitch, ASC_PARAMS(RMS_NORM_MODULATED_BACKWARD))
{
    const int64_t bytes = tile_rows * pitch * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear_copies(staged_at, 1, 4 * pitch);
    asc_duplicate(ASC_SCRATCH(row_sums), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    asc_duplicate(ASC_SCRATCH(products), 0.0f, (uint32_t)pitch);
    asc_duplicate(ASC_SCRATCH(shifts), 0.0f, (uint32_t)pitch);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(weight32), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns,
     pitch);
}

/* The factor of a group, when V has used that before. */
static inline __aicore__ void
ASC_NAME(rms_norm_modulated_backward_group)(int64_t group, int64_t pitch,
                                            ASC_PARAMS(RMS_NORM_MODULATED_BACKWARD))
{
    const uint64_t staged = asc_place(staged_at, 0);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)
    (staged, rms_norm_row_of(scale, group, scale_stride, scale_f32, sizeof(ASC_T)), scale_f32, 0,
     columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(rms_norm_factor)
    (ASC_SCRATCH(factor), staged, scale_f32, weight ? ASC_SCRATCH(weight32) : 0, pitch);
}

static inline __aicore__ void
ASC_NAME(rms_norm_modulated_backward_tile)(asc_tile tile, int slot, int64_t pitch,
                                           ASC_PARAMS(RMS_NORM_MODULATED_BACKWARD))
{
    const uint32_t all = (uint32_t)(tile.rows * pitch);
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, slot);
    __ubuf__ float *rstd_in = ASC_UB(float, rstd_at, slot), *rstds = ASC_SCRATCH(rstds);
    __ubuf__ float *row_sums = ASC_SCRATCH(row_sums), *terms = ASC_SCRATCH(p);
    ASC_MAY_WRITE(slot);
    asc_spread(rstds, rstd_in, tile.rows);
#if ASC_16BIT
    __ubuf__ float *m = ASC_SCRATCH(dy32), *n = ASC_SCRATCH(n), *x32 = n;
    ASC_WIDEN(m, ASC_UB(ASC_T, dy_at, slot), all);
    ASC_WIDEN(n, ASC_UB(ASC_T, x_at, slot), all);
#else
    __ubuf__ float *m = ASC_UB(float, dy_at, slot), *n = out, *x32 = ASC_UB(float, x_at, slot);
#endif
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, x32, rstds, tile.rows, pitch);
    if (sums)
        asc_add_rows(ASC_SCRATCH(shifts), m, tile.rows, pitch);
    ASC_THEN();
    ASC_NAME(rms_norm_weigh)
    (ASC_SCRATCH(products), sums != 0, ASC_SCRATCH(factor), 1, m, n, terms, out, 0, tile.rows,
     pitch);
    asc_mul(terms, m, n, all);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, m, m, rstds, tile.rows, pitch);
    asc_sum_rows(row_sums, terms, tile.rows, pitch, pitch, ASC_SCRATCH(eighth), ASC_SCRATCH(rest));
    rms_norm_spread(ASC_SCRATCH(factors), row_sums, rstd_in, asc_f32(mean), tile.rows);
    ASC_NAME(rms_norm_dx)
    (out, m, n, ASC_SCRATCH(factors), (__ubuf__ ASC_T *)0, 0, terms, tile.rows, pitch);
    ASC_HAS_READ(slot);
}

ASC_KERNEL ASC_NAME(rms_norm_modulated_backward)(ASC_PARAMS(RMS_NORM_MODULATED_BACKWARD))
{
    const rms_norm_groups g = rms_norm_groups_of(rows, height, tile_rows, columns);
    const int64_t pitch = asc_round_up(columns, ASC_LANES), block = asc_get_block_idx();
    int64_t group = -1;
    int slot = 0;
    ASC_NAME(rms_norm_modulated_backward_begin)(pitch, ASC_NAMES(RMS_NORM_MODULATED_BACKWARD));
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = g.share.begin; task < g.share.end; task++, slot ^= 1) {
        const asc_tile tile = rms_norm_group_tile(&g, task);
        const int changes = task / g.per_group != group;
        if (changes && sums && group >= 0)
            rms_norm_leave_sums(sums + (group + block) * 2 * sums_stride, sums_stride,
                                ASC_SCRATCH(products), ASC_SCRATCH(shifts), columns, pitch);
        group = task / g.per_group;
        ASC_MAY_FILL(slot);
        ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
        ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
        asc_copy_rows_in(asc_place(rstd_at, slot), rstd + tile.row, 1, tile.rows * 4, 0, 0);
        ASC_HAS_FILLED(slot);
        if (changes)
            ASC_NAME(rms_norm_modulated_backward_group)
        (group, pitch, ASC_NAMES(RMS_NORM_MODULATED_BACKWARD));
        ASC_NAME(rms_norm_modulated_backward_tile)
        (tile, slot, pitch, ASC_NAMES(RMS_NORM_MODULATED_BACKWARD));
        ASC_HAS_WRITTEN(slot);
        ASC_ROWS_OUT(ASC_T, dx, dx_stride, tile, dx_at, slot, pitch);
        ASC_HAS_LEFT(slot);
    }
    if (sums && group >= 0)
        rms_norm_leave_sums(sums + (group + block) * 2 * sums_stride, sums_stride,
                            ASC_SCRATCH(products), ASC_SCRATCH(shifts), columns, pitch);
    asc_pipeline_end();
}

/* A piece of a row of dscale or dshift, from where it is computed. */
static inline __aicore__ void ASC_NAME(rms_norm_group_out)(__gm__ char *to, int64_t is_f32,
                                                           __ubuf__ float *from, uint64_t out,
                                                           asc_tile tile, uint32_t n)
{
    const int64_t size = is_f32 ? 4 : (int64_t)sizeof(ASC_T);
#if ASC_16BIT
    if (!is_f32)
        ASC_NARROW((__ubuf__ ASC_T *)out, from, n);
    else
#endif
        asc_mul_scalar((__ubuf__ float *)out, from, 1.0f, n);
    ASC_THEN();
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_rows_out((__gm__ void *)(to + tile.column * size), out, 1, tile.columns * size,
                      tile.columns * size, tile.columns * size);
}

/* The sums of the blocks that had rows of a group, of a tile's columns. Returns the next slot. */
static inline __aicore__ int ASC_NAME(rms_norm_groups_sums)(int64_t group, asc_tile tile,
                                                            uint32_t n, int slot,
                                                            ASC_PARAMS(RMS_NORM_GROUPS))
{
    const int64_t widest = asc_round_up(tile_columns, 16), tasks = groups * per_group;
    const int64_t begin = group * per_group, end = begin + per_group;
    const int64_t first = tasks ? ((begin + 1) * blocks - 1) / tasks : 0;
    const int64_t last = tasks ? (end * blocks - 1) / tasks : -1; /* no rows: no block */
    __ubuf__ float *products = ASC_SCRATCH(products), *shifts = ASC_SCRATCH(shifts);
    asc_duplicate(products, 0.0f, n);
    asc_duplicate(shifts, 0.0f, n);
    for (int64_t block = first; block <= last; block++, slot ^= 1) {
        __gm__ float *from = sums + (group + block) * 2 * sums_stride + tile.column;
        const uint64_t part = asc_place(part_at, slot);
        ASC_MAY_FILL(slot);
        asc_copy_rows_in(part, from, 1, tile.columns * 4, 0, 0);
        asc_copy_rows_in(part + (uint64_t)(4 * widest), from + sums_stride, 1, tile.columns * 4, 0,
                         0);
        ASC_HAS_FILLED(slot);
        ASC_THEN();
        asc_add(products, products, (__ubuf__ float *)part, n);
        asc_add(shifts, shifts, (__ubuf__ float *)part + widest, n);
        ASC_HAS_READ(slot);
    }
    ASC_THEN();
    return slot;
}

/* What the sums of a group become; dweight's are added up. */
static inline __aicore__ void ASC_NAME(rms_norm_groups_out)(int64_t group, asc_tile tile,
                                                            uint32_t n, ASC_PARAMS(RMS_NORM_GROUPS))
{
    const int64_t size = sizeof(ASC_T);
    const uint64_t staged = asc_place(staged_at, 0);
    __ubuf__ float *products = ASC_SCRATCH(products), *shifts = ASC_SCRATCH(shifts);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *scale32 = ASC_SCRATCH(scale32);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)
    (staged, rms_norm_row_of(scale, group, scale_stride, scale_f32, size), scale_f32, tile.column,
     tile.columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(scale32, staged, scale_f32, 1.0f, n);
    ASC_FENCE(PIPE_MTE3, PIPE_V); /* what was written before has left */
    ASC_THEN();
    asc_mul(scale32, scale32, products, n);
    ASC_THEN();
    asc_mul(products, products, ASC_SCRATCH(weight32), n);
    asc_add(dw, dw, scale32, n);
    ASC_THEN();
    if (dscale)
        ASC_NAME(rms_norm_group_out)
    (rms_norm_row_of(dscale, group, dscale_stride, dscale_f32, size), dscale_f32, products,
     asc_place(out_at, 0), tile, n);
    if (dshift)
        ASC_NAME(rms_norm_group_out)
    (rms_norm_row_of(dshift, group, dshift_stride, dshift_f32, size), dshift_f32, shifts,
     asc_place(out_at, 1), tile, n);
}

ASC_KERNEL ASC_NAME(rms_norm_groups)(ASC_PARAMS(RMS_NORM_GROUPS))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    const int64_t widest = asc_round_up(tile_columns, 16);
    const uint64_t staged = asc_place(staged_at, 0);
    int slot = 0;
    asc_clear_begin();
    asc_clear(part_at, 8 * widest);
    asc_clear_copies(staged_at, 1, 4 * widest);
    asc_pipeline_begin();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)asc_round_up(tile.columns, 16);
        asc_duplicate(ASC_SCRATCH(dweight), 0.0f, n);
        asc_duplicate(ASC_SCRATCH(weight32), 1.0f, n);
        if (weight) {
            ASC_FENCE(PIPE_V, PIPE_MTE2);
            ASC_NAME(asc_columns_in)(staged, weight, weight_f32, tile.column, tile.columns);
            ASC_FENCE(PIPE_MTE2, PIPE_V);
            ASC_NAME(asc_columns_widen)
            (ASC_SCRATCH(weight32), staged, weight_f32, asc_f32(offset), n);
        }
        for (int64_t group = 0; group < groups; group++) {
            ASC_THEN();
            slot = ASC_NAME(rms_norm_groups_sums)(group, tile, n, slot, ASC_NAMES(RMS_NORM_GROUPS));
            ASC_NAME(rms_norm_groups_out)(group, tile, n, ASC_NAMES(RMS_NORM_GROUPS));
        }
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        if (dweight)
            asc_copy_ub2gm_align(dweight + tile.column, ASC_SCRATCH(dweight),
                                 (uint32_t)(tile.columns * 4));
        ASC_FENCE(PIPE_MTE3, PIPE_V);
    }
    asc_pipeline_end();
}
