/* layer_norm.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

ASC_KERNEL ASC_NAME(layer_norm_forward)(ASC_PARAMS(LAYER_NORM_FORWARD))
{
    const int whole = tile_columns >= columns;
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    __ubuf__ float *scale = ASC_SCRATCH(scale), *shift = ASC_SCRATCH(shift), *q = ASC_SCRATCH(q);
    norm_rows r = {0};
    int slot = 0, turn = 0;
    r.sum = ASC_SCRATCH(sum);
    r.squares = ASC_SCRATCH(squares);
    r.piece = ASC_SCRATCH(piece);
    r.means = ASC_SCRATCH(means);
    r.rstds = ASC_SCRATCH(rstds);
    r.eighth = ASC_SCRATCH(eighth);
    r.rest = ASC_SCRATCH(rest);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(mean_at, asc_round_up(tile_rows, 8) * 4);
    asc_clear(rstd_at, asc_round_up(tile_rows, 8) * 4);
    if (!whole) {
        asc_clear(weight_at, widest * 4);
        asc_clear(bias_at, widest * 4);
    }
    if (whole && weight)
        ASC_NAME(asc_columns_load)
    (scale, asc_place(x_at, 0), weight, weight_f32, 0.0f, columns, widest);
    if (whole && bias)
        ASC_NAME(asc_columns_load)
    (shift, asc_place(x_at, 1), bias, bias_f32, 0.0f, columns, widest);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows, turn ^= 1) {
        asc_tile tile = {row, asc_min_of(tile_rows, rows - row), 0, 0};
        r.mean = ASC_UB(float, mean_at, turn);
        r.rstd = ASC_UB(float, rstd_at, turn);
        if (whole)
            ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
        for (; tile.column < columns; tile.column += tile_columns) {
            tile.columns = asc_min_of(tile_columns, columns - tile.column);
            const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
            ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
            ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
            ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
#if ASC_16BIT
            __ubuf__ float *from = ASC_SCRATCH(x32);
            ASC_WIDEN(from, ASC_UB(ASC_T, x_at, slot), (uint32_t)(tile.rows * pitch));
            ASC_THEN();
#else
            __ubuf__ float *from = ASC_UB(float, x_at, slot);
#endif
            layer_norm_moments(&r, from, q, tile.column == 0, tile.rows, pitch, tile.columns);
            ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
            if (!whole)
                slot ^= 1;
        }
        norm_statistics(&r, whole, tile.rows, asc_f32(part), asc_f32(eps));
        for (tile.column = 0; tile.column < columns; tile.column += tile_columns, slot ^= 1) {
            tile.columns = asc_min_of(tile_columns, columns - tile.column);
            const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
            __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
            __ubuf__ float *by = scale, *plus = shift;
            if (!whole) {
                ASC_WAIT(PIPE_V, PIPE_MTE2, slot);
                ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
                if (weight)
                    ASC_NAME(asc_columns_in)
                (asc_place(weight_at, slot), weight, weight_f32, tile.column, tile.columns);
                if (bias)
                    ASC_NAME(asc_columns_in)
                (asc_place(bias_at, slot), bias, bias_f32, tile.column, tile.columns);
                ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);
                ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
                ASC_WAIT(PIPE_MTE3, PIPE_V, slot);
                if (weight)
                    by = ASC_NAME(asc_columns_piece)(scale, asc_place(weight_at, slot), weight_f32,
                                                     0.0f, pitch);
                if (bias)
                    plus = ASC_NAME(asc_columns_piece)(shift, asc_place(bias_at, slot), bias_f32,
                                                       0.0f, pitch);
#if ASC_16BIT
                __ubuf__ float *from = ASC_SCRATCH(x32);
                ASC_WIDEN(from, ASC_UB(ASC_T, x_at, slot), (uint32_t)(tile.rows * pitch));
                ASC_THEN();
#else
                __ubuf__ float *from = ASC_UB(float, x_at, slot);
#endif
                ASC_BY_ROW(asc_sub, q, from, r.means, tile.rows, pitch);
                ASC_THEN();
            }
#if ASC_16BIT
            __ubuf__ float *to = q;
#else
            __ubuf__ float *to = out;
#endif
            ASC_BY_ROW(asc_mul, to, q, r.rstds, tile.rows, pitch);
            ASC_THEN();
            layer_norm_affine(to, weight ? by : 0, bias ? plus : 0, tile.rows, pitch);
            if (!whole)
                ASC_NOTIFY(PIPE_V, PIPE_MTE2, slot);
#if ASC_16BIT
            ASC_NARROW(out, q, (uint32_t)(tile.rows * pitch));
#endif
            ASC_NOTIFY(PIPE_V, PIPE_MTE3, slot);
            ASC_WAIT(PIPE_V, PIPE_MTE3, slot);
            ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, pitch);
            if (mean && tile.column == 0)
                asc_copy_ub2gm_align(mean + row, r.mean, (uint32_t)(tile.rows * 4));
            if (rstd && tile.column == 0)
                asc_copy_ub2gm_align(rstd + row, r.rstd, (uint32_t)(tile.rows * 4));
            ASC_NOTIFY(PIPE_MTE3, PIPE_V, slot);
        }
    }
    asc_pipeline_end();
}

#define ASC_SHORT ASC_NAME(layer_norm_forward_short)
#define ASC_SHORT_ARGS LAYER_NORM_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, x32)
#define ASC_SHORT_RESULTS ASC_WRITE(mean) ASC_WRITE(rstd)
#define ASC_SHORT_FIRST                                                                     \
    if (weight)                                                                             \
        ASC_NAME(asc_columns_spread)                                                        \
    (ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), weight, weight_f32, 0.0f, \
     columns);                                                                              \
    if (bias)                                                                               \
        ASC_NAME(asc_columns_spread)                                                        \
    (ASC_SCRATCH(shift), ASC_SCRATCH(values), asc_place(x_at, 1), bias, bias_f32, 0.0f, columns);
#define ASC_SHORT_TILE                                                                             \
    layer_norm_forward_lines(ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(y), ASC_UB(float, mean_at, slot), \
                             ASC_UB(float, rstd_at, slot), ASC_SCRATCH(ones),                      \
                             weight ? ASC_SCRATCH(scale) : 0, bias ? ASC_SCRATCH(shift) : 0,       \
                             asc_f32(part), asc_f32(eps), columns, lanes)
#include "shared/asc_short.asc.h"

#include "layer_norm_backward.asc.h"
