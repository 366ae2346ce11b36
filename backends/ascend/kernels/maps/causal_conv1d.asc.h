/* causal_conv1d.asc.h - what both kernels share, and the forward, of one type; see asc_each_type.h.
 */
#include "shared/asc_columns.asc.h"

/* n elements as f32. ASC_THEN() is left to the caller. */
static inline __aicore__ void ASC_NAME(conv_widen)(__ubuf__ float *dst, __ubuf__ ASC_T *src,
                                                   uint32_t n)
{
#if ASC_16BIT
    ASC_WIDEN(dst, src, n);
#else
    asc_mul_scalar(dst, src, 1.0f, n);
#endif
}

static inline __aicore__ void ASC_NAME(conv_narrow)(__ubuf__ ASC_T *dst, __ubuf__ float *src,
                                                    uint32_t n)
{
#if ASC_16BIT
    ASC_NARROW(dst, src, n);
#else
    asc_mul_scalar(dst, src, 1.0f, n);
#endif
    ASC_THEN();
}

/* The strip's taps, in rows, and its bias, both times `sign` for the convolution. staged, wide, at:
 * scratch, of `width` rows each. */
static inline __aicore__ void ASC_NAME(conv_parameters)(const conv_strip *s, asc_tile t,
                                                        __gm__ void *weight, int64_t weight_f32,
                                                        __gm__ void *bias, int64_t bias_f32,
                                                        float sign, __ubuf__ float *staged,
                                                        __ubuf__ float *wide, __ubuf__ float *at)
{
    const uint32_t n = (uint32_t)(s->width * s->pitch), row = (uint32_t)s->pitch;
    asc_duplicate(staged, 0.0f, n);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)
    ((uint64_t)staged, weight, weight_f32, t.column * s->width, t.columns * s->width);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(wide, (uint64_t)staged, weight_f32, 0.0f, n);
    ASC_FENCE(PIPE_V, PIPE_S); /* S writes the beginning of the offsets */
    asc_short_steps((__ubuf__ int32_t *)at, s->width * (int64_t)sizeof(float), row);
    for (int64_t back = s->width - 1; back >= 0; back--) {
        asc_gather(s->taps + back * s->pitch, wide, (__ubuf__ uint32_t *)at, row);
        ASC_THEN();
        asc_add_scalar((__ubuf__ int32_t *)at, (__ubuf__ int32_t *)at, (int32_t)sizeof(float), row);
        ASC_THEN();
    }
    if (s->forth != s->taps)
        asc_mul_scalar(s->forth, s->taps, sign, n);
    ASC_THEN();
    if (!bias)
        return;
    asc_duplicate(staged, 0.0f, row);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)((uint64_t)staged, bias, bias_f32, t.column, t.columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(s->bias, (uint64_t)staged, bias_f32, 0.0f, row);
    ASC_THEN();
    asc_mul_scalar(s->bias, s->bias, sign, row);
    ASC_THEN();
}

/* u = x in_gate of the rows of a tile; p: scratch. */
static inline __aicore__ void ASC_NAME(conv_inputs)(__ubuf__ float *u, __ubuf__ ASC_T *x,
                                                    __ubuf__ ASC_T *in_gate, __ubuf__ float *p,
                                                    uint32_t n)
{
    ASC_NAME(conv_widen)(u, x, n);
    if (in_gate) {
        ASC_NAME(conv_widen)(p, in_gate, n);
        ASC_THEN();
        asc_mul(u, u, p, n);
    }
    ASC_THEN();
}

ASC_KERNEL ASC_NAME(causal_conv1d_forward)(ASC_PARAMS(CAUSAL_CONV1D_FORWARD))
{
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    const int64_t bytes =
        tile_rows * asc_round_up(tile_columns, ASC_LANES) * (int64_t)sizeof(ASC_T);
    __ubuf__ float *u = ASC_SCRATCH(u), *v = ASC_SCRATCH(v), *p = ASC_SCRATCH(p);
    conv_strip s;
    int slot = 0;
    s.taps = s.forth = ASC_SCRATCH(taps);
    s.bias = bias ? ASC_SCRATCH(bias_row) : 0;
    s.width = width;
    asc_clear_begin();
    asc_dcci_entire_all(); /* the scalar unit reads segments */
    asc_clear(x_at, bytes);
    if (in_gate)
        asc_clear(in_gate_at, bytes);
    if (out_gate)
        asc_clear(out_gate_at, bytes);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t end = rows * (task / strips + 1) / groups;
        asc_tile tile = asc_strip(task, strips, groups, rows, columns, tile_columns);
        s.pitch = asc_round_up(tile.columns, ASC_LANES);
        ASC_NAME(conv_parameters)(&s, tile, weight, weight_f32, bias, bias_f32, 1.0f, p, v, u);
        for (int64_t row = tile.row; row < end; slot ^= 1) {
            const conv_piece c =
                conv_piece_at(segments, tokens, width - 1, row, end, tile_rows - (width - 1), rows);
            const uint32_t n = (uint32_t)(c.rows * s.pitch);
            asc_tile own = tile;
            own.row = c.row;
            own.rows = c.rows;
            tile.row = c.row - c.before;
            tile.rows = c.before + c.rows;
            ASC_MAY_FILL(slot);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, tile, s.pitch);
            if (in_gate)
                ASC_ROWS_IN(ASC_T, in_gate_at, slot, in_gate, in_gate_stride, tile, s.pitch);
            if (out_gate)
                ASC_ROWS_IN(ASC_T, out_gate_at, slot, out_gate, out_gate_stride, own, s.pitch);
            ASC_HAS_FILLED(slot);
            ASC_NAME(conv_inputs)
            (u, ASC_UB(ASC_T, x_at, slot), in_gate ? ASC_UB(ASC_T, in_gate_at, slot) : 0, v,
             (uint32_t)(tile.rows * s.pitch));
            conv_sum(&s, v, u, c.before, c.rows); /* u is free then */
            if (silu) {
                asc_mul_scalar(u, v, -1.0f, n);
                ASC_THEN();
                asc_exp(u, u, n);
                ASC_THEN();
                asc_add_scalar(u, u, 1.0f, n);
                ASC_THEN();
                asc_div(v, v, u, n);
                ASC_THEN();
            }
            if (out_gate) {
                ASC_NAME(conv_widen)(u, ASC_UB(ASC_T, out_gate_at, slot), n);
                ASC_THEN();
                asc_mul(v, v, u, n);
                ASC_THEN();
            }
            ASC_HAS_READ(slot);
            ASC_MAY_WRITE(slot);
            ASC_NAME(conv_narrow)(ASC_UB(ASC_T, y_at, slot), v, n);
            ASC_HAS_WRITTEN(slot);
            ASC_ROWS_OUT(ASC_T, y, y_stride, own, y_at, slot, s.pitch);
            ASC_HAS_LEFT(slot);
            row += c.rows;
        }
    }
    asc_pipeline_end();
}

#include "causal_conv1d_backward.asc.h"
