/* poly_norm.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

ASC_KERNEL ASC_NAME(poly_norm_forward)(ASC_PARAMS(POLY_NORM_FORWARD))
{
    const int whole = tile_columns >= columns;
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    __ubuf__ float *w = ASC_SCRATCH(parameters), *b = w + 8, *staged = w + 16;
    __ubuf__ float *blocks = ASC_SCRATCH(blocks), *second = ASC_SCRATCH(second);
    int slot = 0, turn = 0;
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(rstd_at, asc_round_up(tile_rows * POLY_NORM_POWERS, 8) * 4);
    ASC_NAME(asc_parameters)(w, staged, weight, weight_f32, POLY_NORM_POWERS);
    ASC_NAME(asc_parameters)(b, staged, bias, bias_f32, 1);
    const float plus = b[0];
    asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID2);
    asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID2);
    asc_duplicate(b, plus, 8);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows, turn ^= 1) {
        asc_tile tile = {row, asc_min_of(tile_rows, rows - row), 0, 0};
        const int64_t values = tile.rows * POLY_NORM_POWERS;
        __ubuf__ float *stat = ASC_UB(float, rstd_at, turn);
        for (int writes = 0; writes <= !whole; writes++)
            for (tile.column = 0; tile.column < columns; tile.column += tile_columns, slot ^= 1) {
                const int first = tile.column == 0;
                tile.columns = asc_min_of(tile_columns, columns - tile.column);
                const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
                ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
                ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
                ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
                ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
                if (whole || writes)
                    ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
#if ASC_16BIT
                __ubuf__ float *from = ASC_SCRATCH(x32), *to = second;
                ASC_WIDEN(from, ASC_UB(ASC_T, x_at, slot), (uint32_t)(tile.rows * pitch));
                ASC_THEN();
#else
                __ubuf__ float *from = ASC_UB(float, x_at, slot), *to = ASC_UB(float, y_at, slot);
#endif
                if (!writes) {
                    asc_row_sums sums[POLY_NORM_POWERS] = {
                        {0, 0, ASC_SCRATCH(b0), ASC_SCRATCH(a0), 0},
                        {0, 0, ASC_SCRATCH(b1), ASC_SCRATCH(a1), 0},
                        {0, 0, ASC_SCRATCH(b2), ASC_SCRATCH(a2), 0}};
                    poly_norm_moments(stat, ASC_SCRATCH(piece), sums, from, second,
                                      ASC_SCRATCH(fourth), first, tile.rows, pitch, tile.columns);
                }
                if (!whole && !writes) {
                    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
                    continue;
                }
                if (first) {
                    asc_mul_scalar(stat, stat, asc_f32(part), (uint32_t)values);
                    ASC_THEN();
                    asc_rstd(stat, blocks, values, asc_f32(eps));
                    for (int k = 0; k < POLY_NORM_POWERS; k++)
                        poly_norm_scale(blocks, k, w[k], tile.rows);
                    ASC_THEN();
                }
                poly_norm_polynomial(to, from, blocks, b, poly_norm_blocks(), tile.rows, pitch);
                ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
#if ASC_16BIT
                ASC_NARROW(ASC_UB(ASC_T, y_at, slot), to, (uint32_t)(tile.rows * pitch));
#endif
                ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
                ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
                ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, pitch);
                if (rstd && first)
                    asc_copy_ub2gm_align(rstd + row * POLY_NORM_POWERS, stat,
                                         (uint32_t)(values * 4));
                ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
            }
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(poly_norm_backward)(ASC_PARAMS(POLY_NORM_BACKWARD))
{
    const int whole = tile_columns >= columns;
    const int64_t bytes =
        tile_rows * asc_round_up(tile_columns, ASC_LANES) * (int64_t)sizeof(ASC_T);
    __ubuf__ float *w = ASC_SCRATCH(parameters), *piece = ASC_SCRATCH(piece);
    __ubuf__ float *p1 = ASC_SCRATCH(first), *p2 = ASC_SCRATCH(second), *p3 = ASC_SCRATCH(third);
    __ubuf__ float *linear = ASC_SCRATCH(blocks), *cubic = ASC_SCRATCH(factors);
    __ubuf__ float *values = ASC_SCRATCH(sums), *dys = ASC_SCRATCH(dys);
    __ubuf__ float *dw = ASC_SCRATCH(dweight), *db = ASC_SCRATCH(dbias);
    int slot = 0, turn = 0;
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(rstd_at, asc_round_up(tile_rows * POLY_NORM_POWERS, 8) * 4);
    asc_duplicate(values, 0.0f, (uint32_t)asc_round_up(tile_rows * POLY_NORM_POWERS, 8));
    asc_duplicate(dw, 0.0f, 8 * POLY_NORM_POWERS);
    asc_duplicate(db, 0.0f, (uint32_t)tile_rows);
    ASC_NAME(asc_parameters)(w, w + 16, weight, weight_f32, POLY_NORM_POWERS);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows, turn ^= 1) {
        asc_tile tile = {row, asc_min_of(tile_rows, rows - row), 0, 0};
        for (int writes = 0; writes <= !whole; writes++)
            for (tile.column = 0; tile.column < columns; tile.column += tile_columns, slot ^= 1) {
                const int begins = tile.column == 0;
                tile.columns = asc_min_of(tile_columns, columns - tile.column);
                const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
                const uint32_t n = (uint32_t)(tile.rows * pitch);
                ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
                ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
                ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
                if (begins && !writes)
                    asc_copy_rows_in(asc_place(rstd_at, turn), rstd + row * POLY_NORM_POWERS, 1,
                                     tile.rows * POLY_NORM_POWERS * 4, 0, 0);
                ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
                ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
#if ASC_16BIT
                __ubuf__ float *g = ASC_SCRATCH(dy32), *a = ASC_SCRATCH(x32), *to = p1;
                ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, slot), n);
                ASC_WIDEN(a, ASC_UB(ASC_T, x_at, slot), n);
                ASC_THEN();
#else
                __ubuf__ float *g = ASC_UB(float, dy_at, slot), *a = ASC_UB(float, x_at, slot);
                __ubuf__ float *to = ASC_UB(float, dx_at, slot);
#endif
                poly_norm_products(p1, p2, writes ? 0 : p3, g, a, n);
                if (!writes) {
                    __ubuf__ float *sum = begins ? values : piece;
                    asc_row_sums sums[] = {
                        {sum, p3, ASC_SCRATCH(a0), ASC_SCRATCH(b0), POLY_NORM_POWERS},
                        {sum + 1, p2, ASC_SCRATCH(a1), ASC_SCRATCH(b1), POLY_NORM_POWERS},
                        {sum + 2, p1, ASC_SCRATCH(a2), ASC_SCRATCH(b2), POLY_NORM_POWERS},
                        {begins ? dys : piece + 8, g, ASC_SCRATCH(a3), ASC_SCRATCH(b3), 1}};
                    asc_sum_rows_of(sums, 4, tile.rows, pitch, tile.columns);
                    if (!begins) {
                        asc_add(values, values, piece, POLY_NORM_POWERS);
                        asc_add(dys, dys, piece + 8, 1);
                    }
                }
                if (!whole && !writes) {
                    ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
                    continue;
                }
                if (begins) {
                    asc_add(db, db, dys, (uint32_t)tile.rows);
                    poly_norm_factors(linear, cubic, dw, values, ASC_UB(float, rstd_at, turn), w,
                                      dweights != 0, tile.rows, asc_f32(part));
                }
                ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
                poly_norm_dx(to, p1, p2, p3, g, a, linear, cubic, poly_norm_blocks(), tile.rows,
                             pitch);
                ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
#if ASC_16BIT
                ASC_NARROW(ASC_UB(ASC_T, dx_at, slot), to, n);
#endif
                ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
                ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
                ASC_ROWS_OUT(ASC_T, dx, dx_stride, tile, dx_at, slot, pitch);
                ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
            }
    }
    ASC_THEN();                                                 /* p1 is scratch now */
    asc_datablock_reduce_max(values, dw, 8 * POLY_NORM_POWERS); /* of eight that are equal */
    asc_sum_rows(dys, db, 1, asc_round_up(tile_rows, 8), tile_rows, p1, p2);
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    asc_sync_notify(PIPE_V, PIPE_MTE3, EVENT_ID2);
    asc_sync_wait(PIPE_V, PIPE_MTE3, EVENT_ID2);
    if (dweights)
        asc_copy_ub2gm_align(dweights + asc_get_block_idx() * partials_stride, values,
                             POLY_NORM_POWERS * 4);
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + asc_get_block_idx() * partials_stride, dys, 4);
    asc_pipeline_end();
}

#define ASC_SHORT ASC_NAME(poly_norm_forward_short)
#define ASC_SHORT_ARGS POLY_NORM_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, y32)
#define ASC_SHORT_RESULTS ASC_WRITE(rstd)
#define ASC_SHORT_EACH POLY_NORM_POWERS
#define ASC_SHORT_FIRST                                                                            \
    __ubuf__ float *w = ASC_SCRATCH(parameters), *b = w + 8;                                       \
    const asc_short three = asc_short_of(POLY_NORM_POWERS, lanes, asc_place(three_in_at, 0),       \
                                         asc_place(three_out_at, 0), ASC_SCRATCH(turned_scratch)); \
    ASC_NAME(asc_parameters)(w, w + 16, weight, weight_f32, POLY_NORM_POWERS);                     \
    ASC_NAME(asc_parameters)(b, w + 16, bias, bias_f32, 1);                                        \
    const float plus = b[0];                                                                       \
    asc_sync_notify(PIPE_S, PIPE_V, EVENT_ID2);                                                    \
    asc_sync_wait(PIPE_S, PIPE_V, EVENT_ID2);                                                      \
    asc_duplicate(b, plus, 8);
#define ASC_SHORT_TILE                                                                    \
    poly_norm_forward_lines(ASC_SCRATCH(y32), ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(y),     \
                            ASC_SCRATCH(stat), ASC_SCRATCH(factors), w, b, asc_f32(part), \
                            asc_f32(eps), columns, lanes);                                \
    asc_short_out(&three, ASC_UB(float, rstd_at, slot), ASC_SCRATCH(stat));               \
    ASC_THEN()
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(poly_norm_backward_short)
#define ASC_SHORT_ARGS POLY_NORM_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, first)
#define ASC_SHORT_VALUES ASC_READ(rstd)
#define ASC_SHORT_EACH POLY_NORM_POWERS
#define ASC_SHORT_FIRST                                                                            \
    __ubuf__ float *w = ASC_SCRATCH(parameters), *dw = ASC_SCRATCH(dweight);                       \
    __ubuf__ float *db = ASC_SCRATCH(dbias);                                                       \
    const asc_short three = asc_short_of(POLY_NORM_POWERS, lanes, asc_place(three_in_at, 0),       \
                                         asc_place(three_out_at, 0), ASC_SCRATCH(turned_scratch)); \
    asc_duplicate(dw, 0.0f, POLY_NORM_POWERS *ASC_LANES);                                          \
    asc_duplicate(db, 0.0f, ASC_LANES);                                                            \
    ASC_NAME(asc_parameters)(w, w + 16, weight, weight_f32, POLY_NORM_POWERS);
#define ASC_SHORT_TILE                                                                          \
    asc_short_in(&three, ASC_SCRATCH(stat), ASC_UB(float, rstd_at, slot));                      \
    ASC_THEN();                                                                                 \
    poly_norm_backward_lines(ASC_SCRATCH(first), ASC_SCRATCH(second), ASC_SHORT_SCRATCH(dx),    \
                             ASC_SCRATCH(dy32), ASC_SCRATCH(x32), ASC_SCRATCH(stat),            \
                             ASC_SCRATCH(sums), ASC_SCRATCH(factors), dw, db, w, asc_f32(part), \
                             columns, lanes, count)
#define ASC_SHORT_LAST                                                                  \
    if (dweights)                                                                       \
        asc_short_sums_out(dweights + asc_get_block_idx() * partials_stride, w + 8, dw, \
                           POLY_NORM_POWERS);                                           \
    if (dbiases)                                                                        \
        asc_short_sums_out(dbiases + asc_get_block_idx() * partials_stride, w + 16, db, 1);
#include "shared/asc_short.asc.h"
