/* dyt.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* A vector's part of a strip, when what was computed with the last one has ended. ASC_THEN() is left to the caller. */
static inline __aicore__ void ASC_NAME(dyt_vector)(__ubuf__ float *to, uint64_t staged,
                                                   __gm__ void *from, int64_t is_f32, asc_tile t)
{
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)(staged, from, is_f32, t.column, t.columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(to, staged, is_f32, 0.0f, asc_round_up(t.columns, ASC_LANES));
}

ASC_KERNEL ASC_NAME(dyt_forward)(ASC_PARAMS(DYT_FORWARD))
{
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    __ubuf__ float *a = ASC_SCRATCH(parameters), *two = a + 16;
    __ubuf__ float *by = ASC_SCRATCH(gamma), *plus = ASC_SCRATCH(beta);
    int slot = 0;
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(staged_at, widest * 4);
    asc_duplicate(two, -2.0f, 8);
    ASC_NAME(asc_parameters)(a, a + 8, alpha, alpha_f32, 1);
    const float factor = a[0];
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t end = rows * (task / strips + 1) / groups;
        asc_tile tile = dyt_strip(task, strips, groups, rows, columns, tile_columns);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        ASC_NAME(dyt_vector)(by, asc_place(staged_at, 0), gamma, gamma_f32, tile);
        if (beta)
            ASC_NAME(dyt_vector)(plus, asc_place(staged_at, 1), beta, beta_f32, tile);
        for (; tile.row < end; tile.row += tile_rows, slot ^= 1) {
            tile.rows = asc_min_of(tile_rows, end - tile.row);
            const uint32_t n = (uint32_t)(tile.rows * pitch);
            __ubuf__ ASC_T *out = ASC_UB(ASC_T, y_at, slot);
            ASC_MAY_FILL(slot);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
            ASC_HAS_FILLED(slot);
            ASC_MAY_WRITE(slot);
#if ASC_16BIT
            __ubuf__ float *u = ASC_SCRATCH(x32), *t = ASC_SCRATCH(y32);
            ASC_WIDEN(u, ASC_UB(ASC_T, x_at, slot), n);
            ASC_THEN();
#else
            __ubuf__ float *u = ASC_UB(float, x_at, slot), *t = out;
#endif
            dyt_argument(u, u, factor, n);
            dyt_quotient(t, u, ASC_SCRATCH(c), two, n);
            dyt_tanh(t, t, u, ASC_SCRATCH(h), ASC_SCRATCH(c), n);
            ASC_HAS_READ(slot);
            if (beta)
                ASC_FMA_BY_COLUMN(t, by, plus, tile.rows, pitch);
            else
                ASC_BY_COLUMN(asc_mul, t, t, by, tile.rows, pitch);
            ASC_THEN();
#if ASC_16BIT
            ASC_NARROW(out, t, n);
#endif
            ASC_HAS_WRITTEN(slot);
            ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, pitch);
            ASC_HAS_LEFT(slot);
        }
    }
    asc_pipeline_end();
}

ASC_KERNEL ASC_NAME(dyt_backward)(ASC_PARAMS(DYT_BACKWARD))
{
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    __ubuf__ float *parameters = ASC_SCRATCH(parameters), *two = parameters + 16;
    __ubuf__ float *by = ASC_SCRATCH(gamma), *lanes = ASC_SCRATCH(lanes);
    __ubuf__ float *dg = ASC_SCRATCH(dgamma), *db = ASC_SCRATCH(dbeta);
    __ubuf__ float *u = ASC_SCRATCH(u), *h = ASC_SCRATCH(h), *slope = ASC_SCRATCH(slope);
    int slot = 0;
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear_copies(staged_at, 1, widest * 4);
    asc_duplicate(two, -2.0f, 8);
    asc_duplicate(lanes, 0.0f, (uint32_t)(tile_rows * ASC_LANES));
    ASC_NAME(asc_parameters)(parameters, parameters + 8, alpha, alpha_f32, 1);
    const float factor = parameters[0];
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* the sums have left */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t group = task / strips, end = rows * (group + 1) / groups;
        asc_tile tile = dyt_strip(task, strips, groups, rows, columns, tile_columns);
        const int64_t pitch = asc_round_up(tile.columns, ASC_LANES);
        ASC_NAME(dyt_vector)(by, asc_place(staged_at, 0), gamma, gamma_f32, tile);
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
        asc_duplicate(dg, 0.0f, (uint32_t)pitch);
        asc_duplicate(db, 0.0f, (uint32_t)pitch);
        for (; tile.row < end; tile.row += tile_rows, slot ^= 1) {
            tile.rows = asc_min_of(tile_rows, end - tile.row);
            const uint32_t n = (uint32_t)(tile.rows * pitch);
            __ubuf__ ASC_T *out = ASC_UB(ASC_T, dx_at, slot);
            ASC_MAY_FILL(slot);
            ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, pitch);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, pitch);
            ASC_HAS_FILLED(slot);
            ASC_MAY_WRITE(slot);
#if ASC_16BIT
            __ubuf__ float *g = ASC_SCRATCH(dy32), *a = ASC_SCRATCH(x32), *t = ASC_SCRATCH(t);
            ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, slot), n);
            ASC_WIDEN(a, ASC_UB(ASC_T, x_at, slot), n);
            ASC_HAS_READ(slot);
            ASC_THEN();
#else
            __ubuf__ float *g = ASC_UB(float, dy_at, slot), *a = ASC_UB(float, x_at, slot);
            __ubuf__ float *t = out;
#endif
            dyt_argument(u, a, factor, n);
            dyt_quotient(t, u, slope, two, n); /* 1 - tanh^2 = 4 E / (E + 1)^2 */
            asc_mul(slope, t, slope, n);
            ASC_THEN();
            asc_mul(slope, slope, slope, n);
            if (dbetas)
                asc_add_rows(db, g, tile.rows, pitch);
            ASC_THEN();
            if (dgammas) {
                dyt_tanh(t, t, u, h, ASC_SCRATCH(c), n);
                asc_mul(h, g, t, n);
                ASC_THEN();
                asc_add_rows(dg, h, tile.rows, pitch);
            }
            ASC_BY_COLUMN(asc_mul, g, g, by, tile.rows, pitch);
            ASC_THEN();
            asc_mul(g, g, slope, n);
            ASC_THEN();
            if (dalphas) {
                asc_mul(u, a, g, n);
                ASC_THEN();
                ASC_FOLD(asc_add, lanes, u, tile.rows, tile.columns, pitch);
            }
            asc_mul_scalar(t, g, factor, n);
            ASC_THEN();
#if ASC_16BIT
            ASC_NARROW(out, t, n);
#else
            ASC_HAS_READ(slot);
#endif
            ASC_HAS_WRITTEN(slot);
            ASC_ROWS_OUT(ASC_T, dx, dx_stride, tile, dx_at, slot, pitch);
            ASC_HAS_LEFT(slot);
        }
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        const int64_t at = group * partials_stride + tile.column;
        if (dgammas)
            asc_copy_ub2gm_align(dgammas + at, dg, (uint32_t)(tile.columns * 4));
        if (dbetas)
            asc_copy_ub2gm_align(dbetas + at, db, (uint32_t)(tile.columns * 4));
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    if (dalphas) {
        __ubuf__ float *total = parameters + ASC_LANES, *sum = parameters + 32;
        asc_duplicate(total, 0.0f, ASC_LANES);
        ASC_THEN();
        asc_add_rows(total, lanes, tile_rows, ASC_LANES);
        ASC_THEN();
        asc_repeat_reduce_sum(sum, total, ASC_LANES);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        asc_copy_ub2gm_align(dalphas + asc_get_block_idx() * DYT_PARTIAL, sum, 4);
    }
    asc_pipeline_end();
}

#define ASC_SHORT ASC_NAME(dyt_forward_short)
#define ASC_SHORT_ARGS DYT_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, t)
#define ASC_SHORT_FIRST                                                                           \
    __ubuf__ float *parameters = ASC_SCRATCH(parameters);                                         \
    asc_duplicate(parameters + 16, -2.0f, 8);                                                     \
    ASC_NAME(asc_parameters)(parameters, parameters + 8, alpha, alpha_f32, 1);                    \
    const float factor = parameters[0];                                                           \
    ASC_NAME(asc_columns_spread)                                                                  \
    (ASC_SCRATCH(scale), ASC_SCRATCH(values), asc_place(x_at, 0), gamma, gamma_f32, 0.0f,         \
     columns);                                                                                    \
    if (beta)                                                                                     \
        ASC_NAME(asc_columns_spread)                                                              \
    (ASC_SCRATCH(shift), ASC_SCRATCH(values), asc_place(x_at, 1), beta, beta_f32, 0.0f, columns); \
    (void)groups;
#define ASC_SHORT_TILE                                                                            \
    dyt_forward_lines(ASC_SCRATCH(t), ASC_SCRATCH(x32), ASC_SCRATCH(h), ASC_SHORT_SCRATCH(y),     \
                      parameters + 16, ASC_SCRATCH(scale), beta ? ASC_SCRATCH(shift) : 0, factor, \
                      columns, lanes)
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(dyt_backward_short)
#define ASC_SHORT_ARGS DYT_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, dy32)
#define ASC_SHORT_FIRST                                                                  \
    __ubuf__ float *parameters = ASC_SCRATCH(parameters);                                \
    dyt_lines d;                                                                         \
    d.dg = dgammas ? ASC_SCRATCH(dgamma) : 0;                                            \
    d.db = dbetas ? ASC_SCRATCH(dbeta) : 0;                                              \
    d.da = dalphas ? ASC_SCRATCH(dalpha) : 0;                                            \
    d.scale = ASC_SCRATCH(scale);                                                        \
    d.two = parameters + 16;                                                             \
    d.t = ASC_SCRATCH(t);                                                                \
    d.u = ASC_SCRATCH(u);                                                                \
    d.h = ASC_SCRATCH(h);                                                                \
    d.slope = ASC_SCRATCH(slope);                                                        \
    d.columns = columns;                                                                 \
    d.lanes = lanes;                                                                     \
    asc_duplicate(ASC_SCRATCH(dgamma), 0.0f, (uint32_t)(columns * ASC_LANES));           \
    asc_duplicate(ASC_SCRATCH(dbeta), 0.0f, (uint32_t)(columns * ASC_LANES));            \
    asc_duplicate(ASC_SCRATCH(dalpha), 0.0f, (uint32_t)(columns * ASC_LANES));           \
    asc_duplicate(d.two, -2.0f, 8);                                                      \
    ASC_NAME(asc_parameters)(parameters, parameters + 8, alpha, alpha_f32, 1);           \
    const float factor = parameters[0];                                                  \
    ASC_NAME(asc_columns_spread)                                                         \
    (d.scale, ASC_SCRATCH(values), asc_place(x_at, 0), gamma, gamma_f32, 0.0f, columns); \
    (void)groups;
#define ASC_SHORT_TILE           \
    d.c = ASC_SHORT_SCRATCH(dx); \
    d.count = count;             \
    dyt_backward_lines(&d, ASC_SCRATCH(dy32), ASC_SCRATCH(x32), factor)
#define ASC_SHORT_LAST                                                                         \
    const int64_t at = asc_get_block_idx() * partials_stride;                                  \
    if (dgammas)                                                                               \
        asc_short_sums_out(dgammas + at, ASC_UB(float, values_at, 0), d.dg, columns);          \
    if (dbetas)                                                                                \
        asc_short_sums_out(dbetas + at, ASC_UB(float, values_at, 1), d.db, columns);           \
    if (dalphas) {                                                                             \
        __ubuf__ float *each = ASC_UB(float, values_at, 2);                                    \
        asc_repeat_reduce_sum(each, d.da, (uint32_t)(columns * ASC_LANES));                    \
        ASC_THEN();                                                                            \
        asc_repeat_reduce_sum(parameters + 24, each, (uint32_t)columns);                       \
        ASC_FENCE(PIPE_V, PIPE_MTE3);                                                          \
        asc_copy_ub2gm_align(dalphas + asc_get_block_idx() * DYT_PARTIAL, parameters + 24, 4); \
    }
#include "shared/asc_short.asc.h"
