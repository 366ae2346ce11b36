/* layer_norm_backward.asc.h - the backward kernels of one type; see asc_each_type.h. */

/* x and dy of n elements as f32. */
#if ASC_16BIT
#define LAYER_NORM_TAKE(m, normal, slot, count)                        \
    __ubuf__ float *m = ASC_SCRATCH(dy32), *normal = ASC_SCRATCH(x32); \
    ASC_WIDEN(m, ASC_UB(ASC_T, dy_at, slot), count);                   \
    ASC_WIDEN(normal, ASC_UB(ASC_T, x_at, slot), count)
#else
#define LAYER_NORM_TAKE(m, normal, slot, count) \
    __ubuf__ float *m = ASC_UB(float, dy_at, slot), *normal = ASC_UB(float, x_at, slot)
#endif

ASC_STEP(layer_norm_backward_begin, LAYER_NORM_BACKWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    const uint32_t values = (uint32_t)asc_round_up(tile_rows, 8);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(mean_at, values * 4);
    asc_clear(rstd_at, values * 4);
    asc_duplicate(ASC_SCRATCH(sum), 0.0f, values);
    asc_duplicate(ASC_SCRATCH(product), 0.0f, values);
    if (!p->whole)
        asc_clear(weight_at, widest * 4);
    if (dweights)
        asc_duplicate(ASC_SCRATCH(dweight), 0.0f, (uint32_t)widest);
    if (dbiases)
        asc_duplicate(ASC_SCRATCH(dbias), 0.0f, (uint32_t)widest);
    if (p->whole && weight)
        ASC_NAME(asc_columns_load)
    (ASC_SCRATCH(scale), asc_place(x_at, 0), weight, weight_f32, 0.0f, columns, widest);
}

ASC_STEP(layer_norm_backward_in, LAYER_NORM_BACKWARD)
{
    ASC_ROWS_IN(ASC_T, dy_at, p->slot, dy, dy_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (p->first && p->sums) {
        asc_copy_rows_in(asc_place(mean_at, p->turn), mean + p->row, 1, p->rows * 4, 0, 0);
        asc_copy_rows_in(asc_place(rstd_at, p->turn), rstd + p->row, 1, p->rows * 4, 0, 0);
    }
    if (!p->whole && weight)
        ASC_NAME(asc_columns_in)
    (asc_place(weight_at, p->slot), weight, weight_f32, p->column, p->columns);
}

/* dx = rstd (m + n products + sums); n: as it was taken, a copy in or scratch. */
static inline __aicore__ void ASC_NAME(layer_norm_dx)(const asc_piece *p, __ubuf__ ASC_T *dx,
                                                      __ubuf__ float *m, __ubuf__ float *n,
                                                      const layer_norm_products *r,
                                                      __ubuf__ float *rstds)
{
    ASC_BY_ROW(asc_add, m, m, r->sums, p->rows, p->pitch);
    ASC_MAY_WRITE(p->slot);
#if ASC_16BIT
    ASC_THEN();
    ASC_BY_ROW(ASC_MUL_ADD, n, m, r->products, p->rows, p->pitch);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, n, n, rstds, p->rows, p->pitch);
    ASC_THEN();
    ASC_NARROW(dx, n, p->n);
#else
    ASC_BY_ROW(asc_mul, dx, n, r->products, p->rows, p->pitch);
    ASC_THEN();
    asc_add(dx, m, dx, p->n);
    ASC_THEN();
    ASC_BY_ROW(asc_mul, dx, dx, rstds, p->rows, p->pitch);
#endif
    ASC_THEN();
}

ASC_STEP(layer_norm_backward_tile, LAYER_NORM_BACKWARD)
{
    const layer_norm_products r = {ASC_SCRATCH(sum),  ASC_SCRATCH(product),  ASC_SCRATCH(piece),
                                   ASC_SCRATCH(sums), ASC_SCRATCH(products), ASC_SCRATCH(eighth),
                                   ASC_SCRATCH(rest), ASC_SCRATCH(eighth2),  ASC_SCRATCH(rest2)};
    __ubuf__ float *scale = ASC_SCRATCH(scale), *products = ASC_SCRATCH(p);
    __ubuf__ float *means = ASC_SCRATCH(means), *rstds = ASC_SCRATCH(rstds);
    if (p->first && p->sums) {
        asc_spread(means, ASC_UB(float, mean_at, p->turn), p->rows);
        asc_spread(rstds, ASC_UB(float, rstd_at, p->turn), p->rows);
    }
    LAYER_NORM_TAKE(m, normal, p->slot, p->n);
    ASC_THEN();
    if (!p->whole && weight)
        scale = ASC_NAME(asc_columns_piece)(scale, asc_place(weight_at, p->slot), weight_f32, 0.0f,
                                            p->pitch);
    layer_norm_normalise(normal, normal, means, rstds, p->rows, p->pitch);
    if (dweights) {
        asc_mul(products, m, normal, p->n);
        ASC_THEN();
        asc_add_rows(ASC_SCRATCH(dweight), products, p->rows, p->pitch);
    }
    if (dbiases)
        asc_add_rows(ASC_SCRATCH(dbias), m, p->rows, p->pitch);
    ASC_THEN();
    if (weight)
        ASC_BY_COLUMN(asc_mul, m, m, scale, p->rows, p->pitch);
    ASC_THEN();
    if (p->sums)
        layer_norm_add_products(&r, products, m, normal, p->first, p->rows, p->pitch, p->columns);
    if (p->sums && p->last)
        layer_norm_factors(&r, p->rows, asc_f32(part));
    if (p->writes)
        ASC_NAME(layer_norm_dx)(p, ASC_UB(ASC_T, dx_at, p->slot), m, normal, &r, rstds);
    ASC_HAS_READ(p->slot);
}

ASC_STEP(layer_norm_backward_out, LAYER_NORM_BACKWARD)
{
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
}

ASC_STEP(layer_norm_backward_end, LAYER_NORM_BACKWARD)
{
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    if (dweights)
        asc_copy_ub2gm_align(dweights + asc_get_block_idx() * partials_stride, ASC_SCRATCH(dweight),
                             (uint32_t)(columns * 4));
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + asc_get_block_idx() * partials_stride, ASC_SCRATCH(dbias),
                             (uint32_t)(columns * 4));
}

#define ASC_PIPELINE(step) ASC_NAME(layer_norm_backward##step)
#define ASC_PIPELINE_ARGS LAYER_NORM_BACKWARD
#define ASC_PIPELINE_ENDS
#include "shared/asc_pipeline.asc.h"

ASC_KERNEL ASC_NAME(layer_norm_columns)(ASC_PARAMS(LAYER_NORM_COLUMNS))
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    __ubuf__ float *means = ASC_SCRATCH(means), *rstds = ASC_SCRATCH(rstds);
    int slot = 0;
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(mean_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    asc_pipeline_begin(); /* of MTE3's flags the first alone is used: the sums have left */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t group = task / strips, end = rows * (group + 1) / groups;
        asc_tile tile = asc_strip(task, strips, groups, rows, columns, tile_columns);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        ASC_MAY_WRITE(0);
        asc_duplicate(dw, 0.0f, (uint32_t)pitch);
        asc_duplicate(db, 0.0f, (uint32_t)pitch);
        for (; tile.row < end; tile.row += tile_rows, slot ^= 1) {
            tile.rows = asc_min_of(tile_rows, end - tile.row);
            const uint32_t n = (uint32_t)(tile.rows * pitch);
            ASC_MAY_FILL(slot);
            ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
            asc_copy_rows_in(asc_place(mean_at, slot), mean + tile.row, 1, tile.rows * 4, 0, 0);
            asc_copy_rows_in(asc_place(rstd_at, slot), rstd + tile.row, 1, tile.rows * 4, 0, 0);
            ASC_HAS_FILLED(slot);
            asc_spread(means, ASC_UB(float, mean_at, slot), tile.rows);
            asc_spread(rstds, ASC_UB(float, rstd_at, slot), tile.rows);
            LAYER_NORM_TAKE(m, normal, slot, n);
            ASC_THEN();
            layer_norm_normalise(normal, normal, means, rstds, tile.rows, pitch);
            asc_mul(normal, m, normal, n);
            ASC_THEN();
            asc_add_rows(dw, normal, tile.rows, pitch);
            asc_add_rows(db, m, tile.rows, pitch);
            ASC_THEN();
            ASC_HAS_READ(slot);
        }
        ASC_HAS_WRITTEN(0);
        const int64_t at = group * partials_stride + tile.column;
        if (dweights)
            asc_copy_ub2gm_align(dweights + at, dw, (uint32_t)(tile.columns * 4));
        if (dbiases)
            asc_copy_ub2gm_align(dbiases + at, db, (uint32_t)(tile.columns * 4));
        ASC_HAS_LEFT(0);
    }
    asc_pipeline_end();
}

#undef LAYER_NORM_TAKE

#define ASC_SHORT ASC_NAME(layer_norm_backward_short)
#define ASC_SHORT_ARGS LAYER_NORM_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, x32)
#define ASC_SHORT_VALUES ASC_READ(mean) ASC_READ(rstd)
#define ASC_SHORT_FIRST                                                                     \
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, (uint32_t)(columns * ASC_LANES));             \
    asc_duplicate(ASC_SCRATCH(dbias), 0.0f, (uint32_t)(columns * ASC_LANES));               \
    if (weight)                                                                             \
        ASC_NAME(asc_columns_spread)                                                        \
    (ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, 0.0f, \
     columns);
#define ASC_SHORT_TILE                                                                            \
    layer_norm_backward_lines(                                                                    \
        ASC_SCRATCH(dy32), ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(dx), ASC_UB(float, mean_at, slot), \
        ASC_UB(float, rstd_at, slot), ASC_SCRATCH(sum), ASC_SCRATCH(product),                     \
        dweights ? ASC_SCRATCH(dweight) : 0, dbiases ? ASC_SCRATCH(dbias) : 0,                    \
        weight ? ASC_SCRATCH(scale) : 0, asc_f32(part), columns, lanes, count)
#define ASC_SHORT_LAST                                                                            \
    if (dweights)                                                                                 \
        asc_short_sums_out(dweights + asc_get_block_idx() * partials_stride, ASC_SCRATCH(values), \
                           ASC_SCRATCH(dweight), columns);                                        \
    if (dbiases)                                                                                  \
        asc_short_sums_out(dbiases + asc_get_block_idx() * partials_stride, ASC_SCRATCH(biases),  \
                           ASC_SCRATCH(dbias), columns);
#include "shared/asc_short.asc.h"
