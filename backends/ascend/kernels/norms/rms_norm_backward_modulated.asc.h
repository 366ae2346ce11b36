/* rms_norm_backward_modulated.asc.h - the kernels with a scale of groups of rows, of one type; see
 * asc_each_type.h. dx is as without a scale, with weight (1 + scale) in place of the weight. */

#include "rms_norm_factor.asc.h"

ASC_STEP(rms_norm_modulated_backward_begin, RMS_NORM_MODULATED_BACKWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    asc_duplicate(ASC_SCRATCH(row_sums), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    if (!p->whole) {
        asc_clear(pieces_at, 8 * widest);
        asc_clear(sums_in_at, 8 * widest);
        return;
    }
    asc_clear_copies(staged_at, 1, 4 * widest);
    asc_duplicate(ASC_SCRATCH(products), 0.0f, (uint32_t)widest);
    asc_duplicate(ASC_SCRATCH(shifts), 0.0f, (uint32_t)widest);
    if (weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(weight32), asc_place(x_at, 0), weight, weight_f32, asc_f32(offset), columns,
     widest);
}

ASC_STEP(rms_norm_modulated_backward_in, RMS_NORM_MODULATED_BACKWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const uint64_t staged = asc_place(pieces_at, p->slot);
    ASC_ROWS_IN(ASC_T, dy_at, p->slot, dy, dy_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (p->first && p->sums)
        asc_copy_rows_in(asc_place(rstd_at, p->turn), rstd + p->row, 1, p->rows * 4, 0, 0);
    if (p->whole)
        return;
    ASC_NAME(asc_columns_in)
    (staged, rms_norm_row_of(scale, p->group, scale_stride, scale_f32, sizeof(ASC_T)), scale_f32,
     p->column, p->columns);
    if (weight)
        ASC_NAME(asc_columns_in)
    (staged + (uint64_t)(4 * widest), weight, weight_f32, p->column, p->columns);
    if (p->writes && sums)
        rms_norm_sums_in(p, asc_place(sums_in_at, p->slot),
                         rms_norm_group_sums(p, sums, sums_stride), 2, sums_stride, p->pitch);
}

/* What dy is multiplied by: of whole rows once for a group, when V has used that before. */
static inline __aicore__ void
ASC_NAME(rms_norm_modulated_backward_factor)(const asc_piece *p,
                                             ASC_PARAMS(RMS_NORM_MODULATED_BACKWARD))
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const uint64_t staged = p->whole ? asc_place(staged_at, 0) : asc_place(pieces_at, p->slot);
    __ubuf__ float *weight32 = weight ? ASC_SCRATCH(weight32) : 0;
    if (p->whole) {
        ASC_FENCE(PIPE_V, PIPE_MTE2);
        ASC_NAME(asc_columns_in)
        (staged, rms_norm_row_of(scale, p->group, scale_stride, scale_f32, sizeof(ASC_T)),
         scale_f32, 0, columns);
        ASC_FENCE(PIPE_MTE2, PIPE_V);
    } else if (weight) {
        weight32 = ASC_NAME(asc_columns_piece)(weight32, staged + (uint64_t)(4 * widest),
                                               weight_f32, asc_f32(offset), p->pitch);
    }
    ASC_NAME(rms_norm_factor)(ASC_SCRATCH(factor), staged, scale_f32, weight32, p->pitch);
}

/* The sums of dy n and of dy, of which n and dy are those of a piece; dy becomes m. */
static inline __aicore__ void
ASC_NAME(rms_norm_modulated_backward_weigh)(const asc_piece *p, __ubuf__ float *m,
                                            __ubuf__ float *n, __ubuf__ ASC_T *out,
                                            ASC_PARAMS(RMS_NORM_MODULATED_BACKWARD))
{
    const int summed = p->writes && sums;
    __ubuf__ float *products = ASC_SCRATCH(products), *shifts = ASC_SCRATCH(shifts);
    if (!p->whole) {
        products = ASC_UB(float, sums_out_at, p->slot);
        shifts = products + p->pitch;
    }
    if (summed && !p->whole)
        rms_norm_sums_begin(p, products, ASC_UB(float, sums_in_at, p->slot), 2, p->pitch);
    if (summed)
        asc_add_rows(shifts, m, p->rows, p->pitch);
    ASC_THEN();
    ASC_NAME(rms_norm_weigh)
    (products, summed, ASC_SCRATCH(factor), 1, m, n, ASC_SCRATCH(p), out, 0, p->rows, p->pitch);
}

ASC_STEP(rms_norm_modulated_backward_tile, RMS_NORM_MODULATED_BACKWARD)
{
    __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, p->slot);
    __ubuf__ float *rstd_in = ASC_UB(float, rstd_at, p->turn), *rstds = ASC_SCRATCH(rstds);
    __ubuf__ float *row_sums = ASC_SCRATCH(row_sums), *terms = ASC_SCRATCH(p);
    if (!p->whole || p->begins)
        ASC_NAME(rms_norm_modulated_backward_factor)(p, ASC_NAMES(RMS_NORM_MODULATED_BACKWARD));
    if (p->writes)
        ASC_MAY_WRITE(p->slot);
    if (p->first && p->sums)
        asc_spread(rstds, rstd_in, p->rows);
#if ASC_16BIT
    __ubuf__ float *m = ASC_SCRATCH(dy32), *n = ASC_SCRATCH(n), *x32 = n;
    ASC_WIDEN(m, ASC_UB(ASC_T, dy_at, p->slot), p->n);
    ASC_WIDEN(n, ASC_UB(ASC_T, x_at, p->slot), p->n);
#else
    __ubuf__ float *m = ASC_UB(float, dy_at, p->slot), *x32 = ASC_UB(float, x_at, p->slot);
    __ubuf__ float *n = p->writes ? out : x32;
#endif
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, x32, rstds, p->rows, p->pitch);
    ASC_NAME(rms_norm_modulated_backward_weigh)
    (p, m, n, out, ASC_NAMES(RMS_NORM_MODULATED_BACKWARD));
    if (p->sums)
        asc_mul(terms, m, n, p->n);
    ASC_THEN();
    if (p->writes)
        ASC_BY_ROW(asc_mul, m, m, rstds, p->rows, p->pitch);
    if (p->sums)
        rms_norm_add_part(p, row_sums, ASC_SCRATCH(part), terms, ASC_SCRATCH(eighth),
                          ASC_SCRATCH(rest));
    if (p->sums && p->last)
        rms_norm_spread(ASC_SCRATCH(factors), row_sums, rstd_in, asc_f32(mean), p->rows);
    ASC_THEN();
    if (p->writes)
        ASC_NAME(rms_norm_dx)
    (out, m, n, ASC_SCRATCH(factors), (__ubuf__ ASC_T *)0, 0, terms, p->rows, p->pitch);
    ASC_HAS_READ(p->slot);
}

ASC_STEP(rms_norm_modulated_backward_out, RMS_NORM_MODULATED_BACKWARD)
{
    __gm__ float *to = sums ? rms_norm_group_sums(p, sums, sums_stride) : 0;
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
    if (sums && !p->whole)
        rms_norm_sums_out(p, to, asc_place(sums_out_at, p->slot), 2, sums_stride, p->pitch);
    else if (sums && p->ends)
        rms_norm_leave_sums(to, sums_stride, ASC_SCRATCH(products), ASC_SCRATCH(shifts), columns,
                            p->pitch);
}

#define ASC_PIPELINE(step) ASC_NAME(rms_norm_modulated_backward##step)
#define ASC_PIPELINE_ARGS RMS_NORM_MODULATED_BACKWARD
#define ASC_PIPELINE_GROUPS height
#include "shared/asc_pipeline.asc.h"

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
