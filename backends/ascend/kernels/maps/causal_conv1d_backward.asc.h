/* causal_conv1d_backward.asc.h - the backward of one type; see asc_each_type.h. */

/* v, which holds -v, becomes what dy is multiplied by behind the convolution, through silu: with
 * r = 1 / (1 + exp(-v)) it is r + v r (1 - r), as (-v (1 - r) - 1) times -r. vr: v r of the first
 * `own` elements, unless it is NULL. minus_one: a block; p, q: scratch. */
static inline __aicore__ void ASC_NAME(conv_silu)(__ubuf__ float *v, __ubuf__ float *vr,
                                                  __ubuf__ float *p, __ubuf__ float *q,
                                                  __ubuf__ float *minus_one, uint32_t own,
                                                  uint32_t n)
{
    asc_exp(p, v, n);
    ASC_THEN();
    asc_add_scalar(q, p, 1.0f, n);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_div(q, minus_one, q, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
#if ASC_16BIT
    ASC_THEN();
    asc_add_scalar(p, q, 1.0f, n);
#else /* with all of its digits */
    asc_min_scalar(p, p, -ASC_LOWEST, n); /* 0 times it is 0 */
    ASC_THEN();
    asc_mul(p, p, q, n);
    ASC_THEN();
    asc_mul_scalar(p, p, -1.0f, n);
#endif
    if (vr)
        asc_mul(vr, v, q, own);
    ASC_THEN();
    ASC_COUNTED(n);
    asc_mul_add(v, p, minus_one, 1, 1, 1, 0, 8, 8, 0);
    ASC_UNCOUNTED();
    ASC_THEN();
    asc_mul(v, v, q, n);
}

/* v = dv of dy, through the gate and silu at v, which of silu is -v; dout_gate, or NULL, in
 * passing, of the first `own` elements. minus_one: a block; g, p, and with dout_gate f: scratch. */
static inline __aicore__ void ASC_NAME(conv_through)(__ubuf__ float *v, __ubuf__ ASC_T *dy,
                                                     __ubuf__ ASC_T *out_gate,
                                                     __ubuf__ ASC_T *dout_gate, int64_t silu,
                                                     __ubuf__ float *minus_one, __ubuf__ float *g,
                                                     __ubuf__ float *p, __ubuf__ float *f,
                                                     uint32_t own, uint32_t n)
{
    if (silu)
        ASC_NAME(conv_silu)(v, dout_gate ? f : 0, p, g, minus_one, own, n);
    else if (dout_gate)
        asc_mul_scalar(f, v, 1.0f, own);
    ASC_THEN();
    ASC_NAME(conv_widen)(silu ? g : v, dy, n);
    if (out_gate)
        ASC_NAME(conv_widen)(p, out_gate, n);
    ASC_THEN();
    if (dout_gate)
        asc_mul(f, f, silu ? g : v, own);
    if (silu)
        asc_mul(v, v, g, n);
    ASC_THEN();
    if (dout_gate)
        ASC_NAME(conv_narrow)(dout_gate, f, own);
    if (out_gate) {
        asc_mul(v, v, p, n);
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
        ASC_THEN();
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
    __ubuf__ float *g = ASC_SCRATCH(g), *minus_one = ASC_SCRATCH(minus_one);
    __ubuf__ float *f = out_gate ? ASC_SCRATCH(f) : 0;
    __ubuf__ float *sums = ASC_SCRATCH(sums);
    conv_strip s;
    int slot = 0;
    s.taps = ASC_SCRATCH(taps);
    s.forth = ASC_SCRATCH(forth);
    s.bias = bias ? ASC_SCRATCH(bias_row) : 0;
    s.width = width;
    asc_clear_begin();
    asc_duplicate(minus_one, -1.0f, 8);
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
        ASC_NAME(conv_parameters)
        (&s, strip, weight, weight_f32, bias, bias_f32, silu ? -1.0f : 1.0f, p, v, u);
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
            ASC_NAME(conv_through)
            (v, ASC_UB(ASC_T, dy_at, slot), out_gate ? ASC_UB(ASC_T, out_gate_at, slot) : 0,
             dout_gate ? ASC_UB(ASC_T, dout_gate_at, slot) : 0, silu, minus_one, g, p, f, own_n, n);
            conv_back(&s, g, v, u, p, sums, dweights || dbiases, c.before, c.rows, c.behind);
            const int64_t first = c.before * s.pitch;
            ASC_NAME(conv_result)
            (ASC_UB(ASC_T, dx_at, slot), g, gates ? gates + first : 0, p, v, own_n);
            if (din_gate)
                ASC_NAME(conv_result)(ASC_UB(ASC_T, din_gate_at, slot), g, xs + first, p, v, own_n);
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
