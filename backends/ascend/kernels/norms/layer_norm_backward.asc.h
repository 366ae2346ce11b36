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

ASC_KERNEL ASC_NAME(layer_norm_backward)(ASC_PARAMS(LAYER_NORM_BACKWARD))
{
    const int whole = tile_columns >= columns;
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    __ubuf__ float *scale = ASC_SCRATCH(scale), *p = ASC_SCRATCH(p);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    __ubuf__ float *means = ASC_SCRATCH(means), *rstds = ASC_SCRATCH(rstds);
    layer_norm_products r = {0};
    int slot = 0, turn = 0;
    r.sum = ASC_SCRATCH(sum);
    r.product = ASC_SCRATCH(product);
    r.piece = ASC_SCRATCH(piece);
    r.sums = ASC_SCRATCH(sums);
    r.products = ASC_SCRATCH(products);
    r.eighth = ASC_SCRATCH(eighth);
    r.rest = ASC_SCRATCH(rest);
    r.eighth2 = ASC_SCRATCH(eighth2);
    r.rest2 = ASC_SCRATCH(rest2);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(mean_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    asc_duplicate(r.sum, 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    asc_duplicate(r.product, 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    if (!whole)
        asc_clear(weight_at, widest * 4);
    if (dweights)
        asc_duplicate(dw, 0.0f, (uint32_t)widest);
    if (dbiases)
        asc_duplicate(db, 0.0f, (uint32_t)widest);
    if (whole && weight)
        ASC_NAME(asc_columns_load)
    (scale, asc_place(x_at, 0), weight, weight_f32, 0.0f, columns, widest);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows, turn ^= 1) {
        asc_tile tile = {row, asc_min_of(tile_rows, rows - row), 0, 0};
        for (int writes = 0; writes <= !whole; writes++)
            for (tile.column = 0; tile.column < columns; tile.column += tile_columns, slot ^= 1) {
                const int first = tile.column == 0, begins = first && !writes;
                tile.columns = asc_min_of(tile_columns, columns - tile.column);
                const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
                const uint32_t n = (uint32_t)(tile.rows * pitch);
                __ubuf__ float *by = scale;
                ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
                ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
                ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
                if (begins) {
                    asc_copy_rows_in(asc_place(mean_at, turn), mean + row, 1, tile.rows * 4, 0, 0);
                    asc_copy_rows_in(asc_place(rstd_at, turn), rstd + row, 1, tile.rows * 4, 0, 0);
                }
                if (!whole && weight)
                    ASC_NAME(asc_columns_in)
                (asc_place(weight_at, slot), weight, weight_f32, tile.column, tile.columns);
                ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
                ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
                if (begins) {
                    asc_spread(means, ASC_UB(float, mean_at, turn), tile.rows);
                    asc_spread(rstds, ASC_UB(float, rstd_at, turn), tile.rows);
                }
                LAYER_NORM_TAKE(m, normal, slot, n);
                ASC_THEN();
                if (!whole && weight)
                    by = ASC_NAME(asc_columns_piece)(scale, asc_place(weight_at, slot), weight_f32,
                                                     0.0f, pitch);
                layer_norm_normalise(normal, normal, means, rstds, tile.rows, pitch);
                if (dweights) {
                    asc_mul(p, m, normal, n);
                    ASC_THEN();
                    asc_add_rows(dw, p, tile.rows, pitch);
                }
                if (dbiases)
                    asc_add_rows(db, m, tile.rows, pitch);
                ASC_THEN();
                if (weight)
                    ASC_BY_COLUMN(asc_mul, m, m, by, tile.rows, pitch);
                ASC_THEN();
                if (!writes)
                    layer_norm_add_products(&r, p, m, normal, first, tile.rows, pitch,
                                            tile.columns);
                if (!whole && !writes) {
                    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
                    continue;
                }
                if (first)
                    layer_norm_factors(&r, tile.rows, asc_f32(part));
                __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, slot);
                ASC_BY_ROW(asc_add, m, m, r.sums, tile.rows, pitch);
                ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
#if ASC_16BIT
                ASC_THEN();
                ASC_BY_ROW(ASC_MUL_ADD, normal, m, r.products, tile.rows, pitch);
                ASC_THEN();
                ASC_BY_ROW(asc_mul, normal, normal, rstds, tile.rows, pitch);
                ASC_THEN();
                ASC_NARROW(out, normal, n);
#else
                ASC_BY_ROW(asc_mul, out, normal, r.products, tile.rows, pitch);
                ASC_THEN();
                asc_add(out, m, out, n);
                ASC_THEN();
                ASC_BY_ROW(asc_mul, out, out, rstds, tile.rows, pitch);
#endif
                ASC_THEN();
                ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
                ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
                ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
                ASC_ROWS_OUT(ASC_T, dx, dx_stride, tile, dx_at, slot, pitch);
                ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
            }
    }
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID2);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID2);
    if (dweights)
        asc_copy_ub2gm_align(dweights + asc_get_block_idx() * partials_stride, dw,
                             (uint32_t)(columns * 4));
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + asc_get_block_idx() * partials_stride, db,
                             (uint32_t)(columns * 4));
    asc_pipeline_end();
}

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
        asc_tile tile = {rows * group / groups, 0, task % strips * tile_columns, 0};
        tile.columns = asc_min_of(tile_columns, columns - tile.column);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID0);
        asc_duplicate(dw, 0.0f, (uint32_t)pitch);
        asc_duplicate(db, 0.0f, (uint32_t)pitch);
        for (; tile.row < end; tile.row += tile_rows, slot ^= 1) {
            tile.rows = asc_min_of(tile_rows, end - tile.row);
            const uint32_t n = (uint32_t)(tile.rows * pitch);
            ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
            ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
            asc_copy_rows_in(asc_place(mean_at, slot), mean + tile.row, 1, tile.rows * 4, 0, 0);
            asc_copy_rows_in(asc_place(rstd_at, slot), rstd + tile.row, 1, tile.rows * 4, 0, 0);
            ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
            ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
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
            ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
        }
        asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID0);
        asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID0);
        const int64_t at = group * partials_stride + tile.column;
        if (dweights)
            asc_copy_ub2gm_align(dweights + at, dw, (uint32_t)(tile.columns * 4));
        if (dbiases)
            asc_copy_ub2gm_align(dbiases + at, db, (uint32_t)(tile.columns * 4));
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID0);
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
