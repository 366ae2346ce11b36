/* swiglu_forward.asc.h - the forward kernel of one type; see asc_each_type.h. V bounds it: results
 * lie where gate was, and up is widened where h was, so that tiles are large. */

/* a = u s of a tile, but where u is below -88, and exp(-u) would overflow: there e is what is left
 * of s, to be multiplied in last, so that nothing is flushed before that the result does not flush;
 * elsewhere e is 1. a: u; h: scratch. */
static inline __aicore__ void ASC_NAME(swiglu_gate)(__ubuf__ float *a, __ubuf__ float *h,
                                                    __ubuf__ float *e, uint32_t n)
{
    asc_max_scalar(h, a, -88.0f, n);
    asc_min_scalar(e, a, -88.0f, n);
    ASC_THEN();
    asc_mul_scalar(h, h, -1.0f, n);
    asc_add_scalar(e, e, 88.0f, n);
    ASC_THEN();
    asc_exp(h, h, n);
    asc_exp(e, e, n);
    ASC_THEN();
    asc_add_scalar(h, h, 1.0f, n);
    ASC_THEN();
    asc_div(a, a, h, n);
    ASC_THEN();
}

static inline __aicore__ void ASC_NAME(swiglu_times)(__ubuf__ float *x, float factor, uint32_t n)
{
    if (factor == 1.0f)
        return;
    asc_mul_scalar(x, x, factor, n);
    ASC_THEN();
}

ASC_KERNEL ASC_NAME(swiglu_forward)(ASC_PARAMS(SWIGLU_FORWARD))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *h = ASC_SCRATCH(h), *e = ASC_SCRATCH(e);
    int slot = 0;
    asc_in_place_begin();
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
        __ubuf__ float *a = ASC_SCRATCH(gate32), *u = h;
        ASC_WIDEN(a, in, n); /* beside the rounding of the tile before, which lies in h */
        ASC_THEN();
#else
        __ubuf__ float *a = in, *u = ASC_UB(float, up_at, slot);
#endif
        ASC_NAME(swiglu_times)(a, asc_f32(gate_multiplier), n);
        ASC_NAME(swiglu_gate)(a, h, e, n);
#if ASC_16BIT
        ASC_WIDEN(u, ASC_UB(ASC_T, up_at, slot), n);
        ASC_HAS_READ(slot);
        ASC_THEN();
#endif
        ASC_NAME(swiglu_times)(u, asc_f32(down_multiplier), n);
        asc_mul(u, a, u, n);
        ASC_THEN();
#if ASC_16BIT
        asc_mul(h, u, e, n);
        ASC_THEN();
        ASC_NARROW(in, h, n);
#else
        asc_mul(in, u, e, n);
        ASC_HAS_READ(slot);
        ASC_THEN(); /* h and e are the next tile's */
#endif
        ASC_HAS_WRITTEN(slot);
        ASC_STORE(ASC_T, y, y_stride, tile, gate_at, slot);
        ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, slot);
    }
    asc_in_place_end();
}
