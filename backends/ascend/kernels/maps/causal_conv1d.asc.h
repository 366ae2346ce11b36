/* causal_conv1d.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

/* n elements as f32. */
static inline __aicore__ void ASC_NAME(conv_widen)(__ubuf__ float *dst, __ubuf__ ASC_T *src,
                                                   uint32_t n)
{
#if ASC_16BIT
    ASC_WIDEN(dst, src, n);
#else
    asc_mul_scalar(dst, src, 1.0f, n);
#endif
    ASC_THEN();
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

/* The strip's taps, in rows, and its bias. staged, wide, at: scratch, of `width` rows each. */
static inline __aicore__ void ASC_NAME(conv_parameters)(const conv_strip *s, asc_tile t,
                                                        __gm__ void *weight, int64_t weight_f32,
                                                        __gm__ void *bias, int64_t bias_f32,
                                                        __ubuf__ float *staged,
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
    if (!bias)
        return;
    asc_duplicate(staged, 0.0f, row);
    ASC_FENCE(PIPE_V, PIPE_MTE2);
    ASC_NAME(asc_columns_in)((uint64_t)staged, bias, bias_f32, t.column, t.columns);
    ASC_FENCE(PIPE_MTE2, PIPE_V);
    ASC_NAME(asc_columns_widen)(s->bias, (uint64_t)staged, bias_f32, 0.0f, row);
    ASC_THEN();
}

/* u = x in_gate of the rows of a tile; p: scratch. */
static inline __aicore__ void ASC_NAME(conv_inputs)(__ubuf__ float *u, __ubuf__ ASC_T *x,
                                                    __ubuf__ ASC_T *in_gate, __ubuf__ float *p,
                                                    uint32_t n)
{
    ASC_NAME(conv_widen)(u, x, n);
    if (!in_gate)
        return;
    ASC_NAME(conv_widen)(p, in_gate, n);
    asc_mul(u, u, p, n);
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
    s.taps = ASC_SCRATCH(taps);
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
        ASC_NAME(conv_parameters)(&s, tile, weight, weight_f32, bias, bias_f32, p, v, u);
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

/* What dy is multiplied by behind the convolution v, through silu: with r = 1 / (1 + exp(-v))
 * it is r + v r (1 - r): leaves v r in v, 1 - r in p and r in e. one: a block of 1. */
static inline __aicore__ void ASC_NAME(conv_silu)(__ubuf__ float *v, __ubuf__ float *e,
                                                  __ubuf__ float *p, __ubuf__ float *one,
                                                  uint32_t n)
{
    asc_mul_scalar(p, v, -1.0f, n);
    ASC_THEN();
    asc_exp(p, p, n);
    ASC_THEN();
    asc_add_scalar(e, p, 1.0f, n);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_div(e, one, e, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
    asc_min_scalar(p, p, -ASC_LOWEST, n); /* 0 times it is 0 */
    ASC_THEN();
    asc_mul(v, v, e, n);
    asc_mul(p, p, e, n);
    ASC_THEN();
}

/* v = dv, of dy in g, through the gate and silu at v; dout_gate, or NULL, in passing, of the first
 * `own` elements. one: a block of 1; e, p, and with dout_gate f: scratch. */
static inline __aicore__ void ASC_NAME(conv_through)(__ubuf__ float *v, __ubuf__ float *g,
                                                     __ubuf__ ASC_T *out_gate,
                                                     __ubuf__ ASC_T *dout_gate, int64_t silu,
                                                     __ubuf__ float *one, __ubuf__ float *e,
                                                     __ubuf__ float *p, __ubuf__ float *f,
                                                     uint32_t own, uint32_t n)
{
    if (silu)
        ASC_NAME(conv_silu)(v, e, p, one, n);
    if (dout_gate) {
        asc_mul(f, v, g, own);
        ASC_THEN();
        ASC_NAME(conv_narrow)(dout_gate, f, own);
    }
    if (silu) {
        asc_mul_add(v, p, e, n);
        ASC_THEN();
        asc_mul(v, v, g, n);
    } else if (v != g) {
        asc_mul_scalar(v, g, 1.0f, n);
    }
    ASC_THEN();
    if (out_gate) {
        ASC_NAME(conv_widen)(e, out_gate, n);
        asc_mul(v, v, e, n);
        ASC_THEN();
    }
}

/* result = du times a tensor's rows, or du alone. p, e: scratch. */
static inline __aicore__ void ASC_NAME(conv_result)(__ubuf__ ASC_T *result, __ubuf__ float *du,
                                                    __ubuf__ ASC_T *by, __ubuf__ float *p,
                                                    __ubuf__ float *e, uint32_t n)
{
    if (by) {
        ASC_NAME(conv_widen)(p, by, n);
        asc_mul(e, du, p, n);
        ASC_THEN();
        du = e;
    }
    ASC_NAME(conv_narrow)(result, du, n);
}

ASC_KERNEL ASC_NAME(causal_conv1d_backward)(ASC_PARAMS(CAUSAL_CONV1D_BACKWARD))
{
    const int64_t strips = (columns + tile_columns - 1) / tile_columns;
    const int64_t bytes =
        tile_rows * asc_round_up(tile_columns, ASC_LANES) * (int64_t)sizeof(ASC_T);
    __ubuf__ float *u = ASC_SCRATCH(u), *v = ASC_SCRATCH(v), *p = ASC_SCRATCH(p);
    __ubuf__ float *g = ASC_SCRATCH(g), *e = ASC_SCRATCH(e), *one = ASC_SCRATCH(one);
    __ubuf__ float *f = out_gate ? ASC_SCRATCH(f) : 0;
    __ubuf__ float *sums = ASC_SCRATCH(sums);
    conv_strip s;
    int slot = 0;
    s.taps = ASC_SCRATCH(taps);
    s.bias = bias ? ASC_SCRATCH(bias_row) : 0;
    s.width = width;
    asc_clear_begin();
    asc_duplicate(one, 1.0f, 8);
    asc_dcci_entire_all(); /* the scalar unit reads segments */
    asc_clear(x_at, bytes);
    asc_clear(dy_at, bytes);
    if (in_gate)
        asc_clear(in_gate_at, bytes);
    if (out_gate)
        asc_clear(out_gate_at, bytes);
    asc_pipeline_begin(); /* V waits for copies that wait for what it has cleared */
    for (int64_t task = asc_get_block_idx(); task < strips * groups; task += asc_get_block_num()) {
        const int64_t group = task / strips, end = rows * (group + 1) / groups;
        const asc_tile strip = asc_strip(task, strips, groups, rows, columns, tile_columns);
        s.pitch = asc_round_up(strip.columns, ASC_LANES);
        ASC_NAME(conv_parameters)(&s, strip, weight, weight_f32, bias, bias_f32, p, v, u);
        asc_duplicate(sums, 0.0f, (uint32_t)((width + 1) * s.pitch));
        ASC_THEN();
        for (int64_t row = strip.row; row < end; slot ^= 1) {
            const conv_piece c = conv_piece_at(segments, tokens, width - 1, row, end,
                                               tile_rows - 2 * (width - 1), rows);
            const uint32_t own_n = (uint32_t)(c.rows * s.pitch);
            const uint32_t n = (uint32_t)((c.rows + c.behind) * s.pitch);
            asc_tile own = strip, read = strip, all = strip;
            own.row = read.row = c.row;
            own.rows = c.rows;
            read.rows = c.rows + c.behind;
            all.row = c.row - c.before;
            all.rows = c.before + read.rows;
            ASC_MAY_FILL(slot);
            ASC_ROWS_IN(ASC_T, x_at, slot, x, x_stride, all, s.pitch);
            ASC_ROWS_IN(ASC_T, dy_at, slot, dy, dy_stride, read, s.pitch);
            if (in_gate)
                ASC_ROWS_IN(ASC_T, in_gate_at, slot, in_gate, in_gate_stride, all, s.pitch);
            if (out_gate)
                ASC_ROWS_IN(ASC_T, out_gate_at, slot, out_gate, out_gate_stride, read, s.pitch);
            ASC_HAS_FILLED(slot);
            ASC_MAY_WRITE(slot);
            __ubuf__ ASC_T *xs = ASC_UB(ASC_T, x_at, slot);
            __ubuf__ ASC_T *gates = in_gate ? ASC_UB(ASC_T, in_gate_at, slot) : 0;
            ASC_NAME(conv_inputs)(u, xs, gates, p, (uint32_t)(all.rows * s.pitch));
            if (silu || dout_gate)
                conv_sum(&s, v, u, c.before, read.rows);
            __ubuf__ float *const to = silu || dout_gate ? g : v;
            ASC_NAME(conv_widen)(to, ASC_UB(ASC_T, dy_at, slot), n);
            ASC_NAME(conv_through)
            (v, to, out_gate ? ASC_UB(ASC_T, out_gate_at, slot) : 0,
             dout_gate ? ASC_UB(ASC_T, dout_gate_at, slot) : 0, silu, one, e, p, f, own_n, n);
            if (dweights || dbiases)
                conv_add_sums(&s, sums, u, v, p, e, c.before, c.rows);
            ASC_THEN();
            conv_back(&s, g, v, c.rows, c.behind);
            const int64_t first = c.before * s.pitch;
            ASC_NAME(conv_result)
            (ASC_UB(ASC_T, dx_at, slot), g, gates ? gates + first : 0, p, e, own_n);
            if (din_gate)
                ASC_NAME(conv_result)(ASC_UB(ASC_T, din_gate_at, slot), g, xs + first, p, e, own_n);
            ASC_HAS_READ(slot);
            ASC_HAS_WRITTEN(slot);
            ASC_ROWS_OUT(ASC_T, dx, dx_stride, own, dx_at, slot, s.pitch);
            if (din_gate)
                ASC_ROWS_OUT(ASC_T, din_gate, din_gate_stride, own, din_gate_at, slot, s.pitch);
            if (dout_gate)
                ASC_ROWS_OUT(ASC_T, dout_gate, dout_gate_stride, own, dout_gate_at, slot, s.pitch);
            ASC_HAS_LEFT(slot);
            row += c.rows;
        }
        conv_sums_out(&s, strip, sums, dweights ? dweights + group * dweights_stride : 0,
                      dbiases ? dbiases + group * dbiases_stride : 0, u, v, p);
    }
    asc_pipeline_end();
}
