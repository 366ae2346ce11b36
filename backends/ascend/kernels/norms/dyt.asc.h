/* dyt.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* gamma's and beta's parts of a strip, when what was computed with the last ones has ended.
 * ASC_THEN() is left to the caller. */
static inline __aicore__ void ASC_NAME(dyt_vectors)(const dyt_tile *d, int64_t staged_at,
                                                    __gm__ void *gamma, int64_t gamma_f32,
                                                    __gm__ void *beta, int64_t beta_f32, asc_tile t)
{
    const int64_t pitch = asc_round_up(t.columns, ASC_LANES);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)(asc_place(staged_at, 0), gamma, gamma_f32, t.column, t.columns);
    if (beta)
        ASC_NAME(asc_columns_in)(asc_place(staged_at, 1), beta, beta_f32, t.column, t.columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(d->by, asc_place(staged_at, 0), gamma_f32, 0.0f, pitch);
    if (beta)
        ASC_NAME(asc_columns_widen)(d->plus, asc_place(staged_at, 1), beta_f32, 0.0f, pitch);
}

ASC_KERNEL ASC_NAME(dyt_forward)(ASC_PARAMS(DYT_FORWARD))
{
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    __ubuf__ float *a = ASC_SCRATCH(parameters);
    dyt_tile d = {0};
    int slot = 0;
    d.by = ASC_SCRATCH(gamma);
    d.plus = beta ? ASC_SCRATCH(beta) : 0;
    d.h = ASC_SCRATCH(h);
    d.c = ASC_SCRATCH(c);
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(staged_at, widest * 4);
    ASC_NAME(asc_parameters)(a, a + 8, alpha, alpha_f32, 1);
    d.alpha = a[0];
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t end = rows * (task / strips + 1) / groups;
        asc_tile tile = asc_strip(task, strips, groups, rows, columns, tile_columns);
        d.pitch = asc_round_up(tile.columns, ASC_LANES);
        ASC_NAME(dyt_vectors)(&d, staged_at, gamma, gamma_f32, beta, beta_f32, tile);
        for (; tile.row < end; tile.row += tile_rows, slot ^= 1) {
            d.rows = tile.rows = asc_min_of(tile_rows, end - tile.row);
            ASC_MAY_FILL(slot);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, d.pitch);
            ASC_HAS_FILLED(slot);
            ASC_MAY_WRITE(slot);
#if ASC_16BIT
            __ubuf__ float *u = ASC_SCRATCH(x32), *t = ASC_SCRATCH(y32);
            ASC_WIDEN(u, ASC_UB(ASC_T, x_at, slot), (uint32_t)(d.rows * d.pitch));
            ASC_THEN();
#else
            __ubuf__ float *u = ASC_UB(float, x_at, slot), *t = ASC_UB(float, y_at, slot);
#endif
            dyt_forward_tanh(&d, t, u);
            ASC_HAS_READ(slot);
            norm_affine(t, d.by, d.plus, 0, d.rows, d.pitch);
#if ASC_16BIT
            ASC_NARROW(ASC_UB(ASC_T, y_at, slot), t, (uint32_t)(d.rows * d.pitch));
#endif
            ASC_HAS_WRITTEN(slot);
            ASC_ROWS_OUT(ASC_T, y, y_stride, tile, y_at, slot, d.pitch);
            ASC_HAS_LEFT(slot);
        }
    }
    asc_pipeline_end();
}

/* What copies do not reach of the buffers that they fill, and what all tiles have alike. */
static inline __aicore__ dyt_tile ASC_NAME(dyt_backward_begin)(ASC_PARAMS(DYT_BACKWARD))
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    const int64_t bytes = tile_rows * widest * (int64_t)sizeof(ASC_T);
    __ubuf__ float *parameters = ASC_SCRATCH(parameters), *lanes = ASC_SCRATCH(lanes);
    dyt_tile d = {0};
    d.by = ASC_SCRATCH(gamma);
    d.dg = dgammas ? ASC_SCRATCH(dgamma) : 0;
    d.db = dbetas ? ASC_SCRATCH(dbeta) : 0;
    d.da = dalphas ? lanes : 0;
    d.two = parameters + 16;
    d.u = ASC_SCRATCH(u);
    d.h = ASC_SCRATCH(h);
    d.c = ASC_SCRATCH(c);
    d.slope = ASC_SCRATCH(slope);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear_copies(staged_at, 1, widest * 4);
    asc_duplicate(d.two, -2.0f, 8);
    asc_duplicate(lanes, 0.0f, (uint32_t)(tile_rows * ASC_LANES));
    ASC_NAME(asc_parameters)(parameters, parameters + 8, alpha, alpha_f32, 1);
    d.alpha = parameters[0];
    return d;
}

/* dx of a tile, and what it adds to the sums. */
static inline __aicore__ void ASC_NAME(dyt_backward_rows)(dyt_tile *d, asc_tile tile, int slot,
                                                          ASC_PARAMS(DYT_BACKWARD))
{
    ASC_MAY_FILL(slot);
    ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, tile, d->pitch);
    ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, d->pitch);
    ASC_HAS_FILLED(slot);
    ASC_MAY_WRITE(slot);
#if ASC_16BIT
    const uint32_t n = (uint32_t)(d->rows * d->pitch);
    __ubuf__ float *g = ASC_SCRATCH(dy32), *a = ASC_SCRATCH(x32);
    d->t = ASC_SCRATCH(t);
    ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, slot), n);
    ASC_WIDEN(a, ASC_UB(ASC_T, x_at, slot), n);
    ASC_HAS_READ(slot);
    ASC_THEN();
#else
    __ubuf__ float *g = ASC_UB(float, dy_at, slot), *a = ASC_UB(float, x_at, slot);
    d->t = ASC_UB(float, dx_at, slot);
#endif
    dyt_backward_tile(d, d->t, g, a);
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, dx_at, slot), d->t, n);
#else
    ASC_HAS_READ(slot);
#endif
    ASC_HAS_WRITTEN(slot);
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, tile, dx_at, slot, d->pitch);
    ASC_HAS_LEFT(slot);
}

/* This block's part of dalpha. */
static inline __aicore__ void ASC_NAME(dyt_backward_alpha)(ASC_PARAMS(DYT_BACKWARD))
{
    __ubuf__ float *total = ASC_SCRATCH(parameters) + ASC_LANES;
    __ubuf__ float *sum = ASC_SCRATCH(parameters) + 32;
    asc_duplicate(total, 0.0f, ASC_LANES);
    ASC_THEN();
    asc_add_rows(total, ASC_SCRATCH(lanes), tile_rows, ASC_LANES);
    ASC_THEN();
    asc_repeat_reduce_sum(sum, total, ASC_LANES);
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    asc_copy_ub2gm_align(dalphas + asc_get_block_idx() * DYT_PARTIAL, sum, 4);
}

ASC_KERNEL ASC_NAME(dyt_backward)(ASC_PARAMS(DYT_BACKWARD))
{
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    dyt_tile d = ASC_NAME(dyt_backward_begin)(ASC_NAMES(DYT_BACKWARD));
    int slot = 0;
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2); /* the sums have left */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t group = task / strips, end = rows * (group + 1) / groups;
        asc_tile tile = asc_strip(task, strips, groups, rows, columns, tile_columns);
        d.columns = tile.columns;
        d.pitch = asc_round_up(tile.columns, ASC_LANES);
        ASC_NAME(dyt_vectors)(&d, staged_at, gamma, gamma_f32, 0, 0, tile);
        asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
        asc_duplicate(ASC_SCRATCH(dgamma), 0.0f, (uint32_t)d.pitch);
        asc_duplicate(ASC_SCRATCH(dbeta), 0.0f, (uint32_t)d.pitch);
        ASC_THEN();
        for (; tile.row < end; tile.row += tile_rows, slot ^= 1) {
            d.rows = tile.rows = asc_min_of(tile_rows, end - tile.row);
            ASC_NAME(dyt_backward_rows)(&d, tile, slot, ASC_NAMES(DYT_BACKWARD));
        }
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        const int64_t at = group * partials_stride + tile.column;
        if (d.dg)
            asc_copy_ub2gm_align(dgammas + at, d.dg, (uint32_t)(tile.columns * 4));
        if (d.db)
            asc_copy_ub2gm_align(dbetas + at, d.db, (uint32_t)(tile.columns * 4));
        asc_sync_notify(PIPE_MTE3, PIPE_V, EVENT_ID2);
    }
    asc_sync_wait(PIPE_MTE3, PIPE_V, EVENT_ID2);
    if (dalphas)
        ASC_NAME(dyt_backward_alpha)(ASC_NAMES(DYT_BACKWARD));
    asc_pipeline_end();
}

#define DYT_LINES                                                                     \
    __ubuf__ float *parameters = ASC_SCRATCH(parameters);                             \
    dyt_tile d = {0};                                                                 \
    d.by = ASC_SCRATCH(scale);                                                        \
    d.two = parameters + 16;                                                          \
    d.t = ASC_SCRATCH(t);                                                             \
    d.h = ASC_SCRATCH(h);                                                             \
    d.lines = 1;                                                                      \
    d.rows = columns;                                                                 \
    d.pitch = lanes;                                                                  \
    asc_duplicate(d.two, -2.0f, 8);                                                   \
    ASC_NAME(asc_parameters)(parameters, parameters + 8, alpha, alpha_f32, 1);        \
    d.alpha = parameters[0];                                                          \
    ASC_NAME(asc_columns_spread)                                                      \
    (d.by, ASC_SCRATCH(values), asc_place(x_at, 0), gamma, gamma_f32, 0.0f, columns); \
    (void)groups;

#define ASC_SHORT ASC_NAME(dyt_forward_short)
#define ASC_SHORT_ARGS DYT_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, t)
#define ASC_SHORT_FIRST                     \
    DYT_LINES                               \
    d.plus = beta ? ASC_SCRATCH(shift) : 0; \
    if (beta)                               \
        ASC_NAME(asc_columns_spread)        \
    (d.plus, ASC_SCRATCH(values), asc_place(x_at, 1), beta, beta_f32, 0.0f, columns);
#define ASC_SHORT_TILE                           \
    d.c = ASC_SHORT_SCRATCH(y);                  \
    dyt_forward_tanh(&d, d.t, ASC_SCRATCH(x32)); \
    norm_affine(d.t, d.by, d.plus, 1, columns, lanes)
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(dyt_backward_short)
#define ASC_SHORT_ARGS DYT_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, dy32)
#define ASC_SHORT_FIRST                                                        \
    DYT_LINES                                                                  \
    d.dg = dgammas ? ASC_SCRATCH(dgamma) : 0;                                  \
    d.db = dbetas ? ASC_SCRATCH(dbeta) : 0;                                    \
    d.da = dalphas ? ASC_SCRATCH(dalpha) : 0;                                  \
    d.u = ASC_SCRATCH(u);                                                      \
    d.slope = ASC_SCRATCH(slope);                                              \
    asc_duplicate(ASC_SCRATCH(dgamma), 0.0f, (uint32_t)(columns * ASC_LANES)); \
    asc_duplicate(ASC_SCRATCH(dbeta), 0.0f, (uint32_t)(columns * ASC_LANES));  \
    asc_duplicate(ASC_SCRATCH(dalpha), 0.0f, (uint32_t)(columns * ASC_LANES));
#define ASC_SHORT_TILE           \
    d.c = ASC_SHORT_SCRATCH(dx); \
    d.count = count;             \
    dyt_backward_tile(&d, ASC_SCRATCH(dy32), ASC_SCRATCH(dy32), ASC_SCRATCH(x32))
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
#undef DYT_LINES
