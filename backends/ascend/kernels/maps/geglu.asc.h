/* geglu.asc.h - the kernels of one type; see asc_each_type.h. */

ASC_KERNEL ASC_NAME(geglu_forward)(ASC_PARAMS(GEGLU_FORWARD))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *h = ASC_UB(float, h_at, 0);
    __ubuf__ float *e = ASC_UB(float, e_at, 0);
    __ubuf__ float *p = ASC_UB(float, p_at, 0);
    __ubuf__ float *c = ASC_UB(float, coefficients_at, 0);
    int slot = 0;
    asc_in_place_begin();
    const gelu_fit fit = ASC_NAME(gelu_forward_fit)();
    if (exact)
        gelu_constants(&fit, c);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        __ubuf__ ASC_T *in = ASC_UB(ASC_T, gate_at, slot);
        ASC_MAY_FILL(slot);
        ASC_LOAD(ASC_T, up_at, slot, up, up_stride, tile);
        ASC_WAIT(PIPE_MTE3, PIPE_MTE2, slot);
        ASC_LOAD(ASC_T, gate_at, slot, gate, gate_stride, tile);
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
        __ubuf__ float *a = ASC_UB(float, gate32_at, 0);
        __ubuf__ float *u = ASC_UB(float, up32_at, 0);
#else
        __ubuf__ float *a = in;
        __ubuf__ float *u = ASC_UB(float, up_at, slot);
#endif
        __ubuf__ float *g = h; /* gelu(gate) */
        if (exact) {
            ASC_NAME(gelu_parts)(h, a, in, (__ubuf__ ASC_T *)p, c, n);
            gelu_tail(&fit, h, e, p, ASC_UB(float, q_at, 0), c, n);
        } else {
#if ASC_16BIT
            ASC_WIDEN(a, in, n);
            ASC_THEN();
#endif
            gelu_sigmoid(h, a, e, n);
        }
#if ASC_16BIT
        ASC_WIDEN(u, ASC_UB(ASC_T, up_at, slot), n); /* where e was */
        ASC_HAS_READ(slot);
#endif
        if (exact) {
            g = ASC_NAME(gelu_join)(&fit, h, p, a, in, n);
        } else {
            asc_mul(h, h, a, n);
            ASC_THEN();
        }
#if ASC_16BIT
        asc_mul(g, g, u, n);
        ASC_THEN();
        ASC_NARROW(in, g, n); /* the next tile's first stage does not touch g */
#else
        asc_mul(in, g, u, n);
        ASC_HAS_READ(slot);
        ASC_THEN(); /* h is the next tile's */
#endif
        ASC_HAS_WRITTEN(slot);
        ASC_STORE(ASC_T, y, y_stride, tile, gate_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    asc_in_place_end();
}

ASC_KERNEL ASC_NAME(geglu_backward)(ASC_PARAMS(GEGLU_BACKWARD))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *k = ASC_UB(float, k_at, 0);
    __ubuf__ float *q = ASC_UB(float, q_at, 0);
    __ubuf__ float *w = ASC_UB(float, w_at, 0);
    __ubuf__ float *h = ASC_UB(float, h_at, 0);
    __ubuf__ float *r = ASC_UB(float, r_at, 0);
    __ubuf__ float *c = ASC_UB(float, coefficients_at, 0);
    int slot = 0;
    asc_pipeline_begin();
    const gelu_fit fit = ASC_NAME(gelu_backward_fit)();
    if (exact)
        gelu_constants(&fit, c);
    for (int64_t task = asc_get_block_idx(); task < grid.tasks;
         task += asc_get_block_num(), slot ^= 1) {
        const asc_tile tile = asc_tile_at(grid, task);
        const uint32_t n = (uint32_t)(tile.rows * asc_pitch(tile, sizeof(ASC_T)));
        ASC_MAY_FILL(slot);
        ASC_LOAD(ASC_T, dy_at, slot, dy, dy_stride, tile);
        ASC_LOAD(ASC_T, gate_at, slot, gate, gate_stride, tile);
        ASC_LOAD(ASC_T, up_at, slot, up, up_stride, tile);
        ASC_HAS_FILLED(slot);
#if ASC_16BIT
        __ubuf__ float *g = ASC_UB(float, dy32_at, 0);
        __ubuf__ float *a = ASC_UB(float, gate32_at, 0);
        __ubuf__ float *u = ASC_UB(float, up32_at, 0);
        __ubuf__ float *dgate_out = k, *dup_out = a;
        ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, slot), n);
        ASC_WIDEN(a, ASC_UB(ASC_T, gate_at, slot), n);
        ASC_THEN();
#else
        __ubuf__ float *g = ASC_UB(float, dy_at, slot);
        __ubuf__ float *a = ASC_UB(float, gate_at, slot);
        __ubuf__ float *u = ASC_UB(float, up_at, slot);
        __ubuf__ float *dgate_out = ASC_UB(float, dgate_at, slot);
        __ubuf__ float *dup_out = ASC_UB(float, dup_at, slot);
#endif
        if (exact)
            gelu_bells(&fit, k, h, r, a, q, w, c, n);
        else
            gelu_slopes(g, k, a, q, w, h, n);
#if ASC_16BIT
        ASC_WIDEN(u, ASC_UB(ASC_T, up_at, slot), n); /* where q was */
        ASC_HAS_READ(slot);
#endif
        ASC_MAY_WRITE(slot);
        if (exact)
            gelu_exact_products(dup_out, k, g, a, h, r, w, n);
        else
            gelu_tanh_products(dup_out, k, g, a, n);
        asc_mul(dgate_out, k, u, n);
#if ASC_16BIT
        ASC_NARROW(ASC_UB(ASC_T, dup_at, slot), dup_out, n);
        ASC_THEN();
        ASC_NARROW(ASC_UB(ASC_T, dgate_at, slot), dgate_out, n);
#else
        ASC_HAS_READ(slot);
#endif
        ASC_THEN(); /* scratch is the next tile's */
        ASC_HAS_WRITTEN(slot);
        ASC_STORE(ASC_T, dgate, dgate_stride, tile, dgate_at, slot);
        ASC_STORE(ASC_T, dup, dup_stride, tile, dup_at, slot);
        ASC_HAS_LEFT(slot);
    }
    asc_pipeline_end();
}

#include "shared/asc_halves.asc.h"
#define GEGLU_FIRST(direction)                               \
    ASC_HALF_FIRST                                           \
    __ubuf__ float *const c = ASC_SCRATCH(coefficients);     \
    const gelu_fit fit = ASC_NAME(gelu_##direction##_fit)(); \
    if (exact)                                               \
        gelu_constants(&fit, c);

#define ASC_SHORT ASC_NAME(geglu_forward_short)
#define ASC_SHORT_ARGS GEGLU_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(gate)
#define ASC_SHORT_RESULTS ASC_WRITE(y)
#define ASC_SHORT_EACH (columns / 2)
#define ASC_SHORT_FIRST GEGLU_FIRST(forward)
#define ASC_SHORT_TILE                                                                             \
    geglu_forward_lines(&fit, exact, ASC_SCRATCH(gate32), ASC_SCRATCH(gate32) + n, ASC_SCRATCH(h), \
                        ASC_SCRATCH(e), ASC_SCRATCH(p), ASC_SCRATCH(q), c, (uint32_t)n);           \
    ASC_HALF_OUT(y_at, ASC_SCRATCH(gate32))
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(geglu_backward_short)
#define ASC_SHORT_ARGS GEGLU_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(gate)
#define ASC_SHORT_WRITES ASC_WRITE(dgate, d32)
#define ASC_SHORT_VALUES ASC_READ(dy)
#define ASC_SHORT_EACH (columns / 2)
#define ASC_SHORT_FIRST GEGLU_FIRST(backward)
#define ASC_SHORT_TILE                                                                           \
    ASC_HALF_IN(ASC_SCRATCH(dy32), dy_at);                                                       \
    geglu_backward_lines(&fit, exact, ASC_SCRATCH(d32), ASC_SCRATCH(d32) + n, ASC_SCRATCH(dy32), \
                         ASC_SCRATCH(gate32), ASC_SCRATCH(gate32) + n, ASC_SCRATCH(k),           \
                         ASC_SCRATCH(q), ASC_SCRATCH(w), ASC_SCRATCH(h), ASC_SCRATCH(r), c,      \
                         (uint32_t)n)
#include "shared/asc_short.asc.h"
#undef GEGLU_FIRST
