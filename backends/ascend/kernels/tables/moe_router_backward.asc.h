/* moe_router_backward.asc.h - the backward kernel of one type; see asc_each_type.h. */

static inline __aicore__ void ASC_NAME(router_back_in)(int64_t row, int64_t rows, int side,
                                                       ASC_PARAMS(ROUTER_BACKWARD))
{
    const int64_t size = sizeof(ASC_T), slots = rows * top_k, at = row * top_k;
    const int deep = top_k > ROUTER_USUAL;
    router_may_fill(side);
    asc_copy_rows_in(asc_place(logits_at, side), logits + row * logits_stride, rows, experts * size,
                     logits_stride * size, asc_round_up(experts, ASC_LANES) * size);
    asc_copy_rows_in(asc_place(lse_at, side), lse + row, 1, rows * 4, 0, rows * 4);
    if (dweights) {
        asc_copy_rows_in(asc_place(deep ? index_deep_at : index_at, side), index + at, 1, slots * 8,
                         0, slots * 8);
        asc_copy_rows_in(asc_place(deep ? dweights_deep_at : dweights_at, side), dweights + at, 1,
                         slots * 4, 0, slots * 4);
    }
    router_has_filled(marked_at, marked ? marked + row : 0, rows, side);
}

static inline __aicore__ router_back ASC_NAME(router_back_of)(ASC_PARAMS(ROUTER_BACKWARD))
{
    const int deep = top_k > ROUTER_USUAL;
    const int64_t line = (deep ? ROUTER_MANY : ROUTER_USUAL) * ASC_LANES;
    __ubuf__ float *numbers = ASC_SCRATCH(numbers);
    __ubuf__ float *lines = deep ? ASC_SCRATCH(lines_deep) : ASC_SCRATCH(lines);
    router_back b;
    b.top_k = top_k;
    b.pitch = asc_round_up(experts, ASC_LANES);
    b.wants = wants;
    b.scale = asc_f32(scale);
    b.p = ASC_SCRATCH(p);
    b.d = ASC_SCRATCH(d);
    b.factor = ASC_SCRATCH(factor);
    b.folds = ASC_SCRATCH(folds);
    b.block = b.spread = ASC_SCRATCH(block);
    b.ones = numbers;
    b.mean = numbers + ASC_LANES;
    b.value = numbers + 2 * ASC_LANES;
    b.lse_factor = numbers + 3 * ASC_LANES;
    b.row_at = (__ubuf__ int32_t *)(numbers + 4 * ASC_LANES);
    b.to_lines = (__ubuf__ int32_t *)lines;
    b.rows = (__ubuf__ int32_t *)(lines + line);
    b.offset = (__ubuf__ int32_t *)(lines + 2 * line);
    b.g = lines + 3 * line;
    b.w = lines + 4 * line;
    b.other = lines + 5 * line;
    b.line = lines + 6 * line;
    return b;
}

/* Tables, factors, and buffers that are read beyond what has been written there. */
static inline __aicore__ void ASC_NAME(router_back_start)(const router_back *b,
                                                          ASC_PARAMS(ROUTER_BACKWARD))
{
    const int64_t line = (top_k > ROUTER_USUAL ? ROUTER_MANY : ROUTER_USUAL) * ASC_LANES;
    asc_clear_begin();
    asc_clear(logits_at, tile_rows * b->pitch * (int64_t)sizeof(ASC_T));
    asc_clear(lse_at, ROUTER_TOKENS * 4);
    asc_clear(top_k > ROUTER_USUAL ? dweights_deep_at : dweights_at, line * 4);
    asc_duplicate(ASC_SCRATCH(numbers), 1.0f, 8 * ASC_LANES);
    asc_duplicate(b->rows, 0, (uint32_t)line);
    asc_duplicate(ASC_SCRATCH(pads), -asc_f32(0x7f800000), (uint32_t)b->pitch);
#if ASC_16BIT
    asc_duplicate(ASC_SCRATCH(x), 0.0f, (uint32_t)(tile_rows * b->pitch));
#endif
    asc_duplicate(b->p, 0.0f, (uint32_t)(tile_rows * b->pitch));
    asc_sync();
    asc_duplicate(ASC_SCRATCH(pads), 0.0f, (uint32_t)experts);
    if (factors) {
        asc_copy_gm2ub_align(b->factor, factors, (uint32_t)b->pitch * 4);
        asc_copy_gm2ub_align(b->lse_factor, factors + b->pitch, ASC_LANES * 4);
    }
    router_lines_table(b->to_lines, top_k * 4, 4, 0, top_k, tile_rows);
    router_lines_table(b->row_at, b->pitch * 4, 0, 0, 1, tile_rows);
    asc_sync();
}

static inline __aicore__ void ASC_NAME(router_back_tile)(const router_back *b, int64_t rows,
                                                         int side, ASC_PARAMS(ROUTER_BACKWARD))
{
    const int deep = top_k > ROUTER_USUAL, dense = !(wants & (ROUTER_SIGMOID | ROUTER_RENORMALISE));
    const int64_t pitch = b->pitch, index_of = deep ? index_deep_at : index_at,
                  dweights_of = deep ? dweights_deep_at : dweights_at;
    const uint32_t n = (uint32_t)(rows * pitch), slots = (uint32_t)(rows * top_k),
                   lines = (uint32_t)(top_k * ASC_LANES);
    __ubuf__ float *of_lse = ASC_UB(float, lse_at, side);
    ASC_WAIT(PIPE_MTE2, PIPE_V, side);
#if ASC_16BIT
    __ubuf__ float *x = ASC_SCRATCH(x);
    ASC_WIDEN(x, ASC_UB(ASC_T, logits_at, side), n);
#else
    __ubuf__ float *x = ASC_UB(float, logits_at, side);
#endif
    if (dweights) {
        asc_int642int32(b->rows, ASC_UB(int64_t, index_of, side), slots);
        asc_gather(b->g, ASC_UB(float, dweights_of, side), (__ubuf__ uint32_t *)b->to_lines, lines);
        ASC_THEN();
        asc_gather(b->offset, b->rows, (__ubuf__ uint32_t *)b->to_lines, lines);
        asc_mul_scalar(b->g, b->g, b->scale, lines);
        ASC_THEN();
        asc_mul_scalar(b->offset, b->offset, 4, lines);
        ASC_THEN();
        ROUTER_BY_TOKEN(asc_add, b->offset, b->offset, b->row_at, top_k);
        asc_sync_notify(PIPE_V, PIPE_S, EVENT_ID0);
    }
    ASC_THEN();
    if (factors || (dweights && dense)) {
        ROUTER_BY_ROW(asc_sub, b->p, x, of_lse, b->block, rows, pitch);
        if (pitch > experts) {
            ASC_BY_COLUMN(asc_add, b->p, b->p, ASC_SCRATCH(pads), rows, pitch);
            ASC_THEN();
        }
        asc_exp(b->p, b->p, n);
        ASC_THEN();
    }
    if (dweights)
        router_contributions(b, x);
    ASC_WAIT(PIPE_MTE2, PIPE_S, side);
    if (factors)
        router_from_sums(b, of_lse, rows,
                         router_left_out(marked ? ASC_UB(int64_t, marked_at, side) : 0, rows));
    else
        asc_duplicate(b->d, 0.0f, n);
    ASC_HAS_READ(side);
    ASC_THEN();
    if (dweights && dense) {
        asc_spread(b->block, b->mean, rows);
        ASC_THEN();
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
        for (int64_t i = 0; i < rows; i++)
            asc_fma(b->d + i * pitch, b->p + i * pitch, b->block + i * 8,
                    (uint8_t)(pitch / ASC_LANES), 1, 1, 0, 8, 8, 0);
        ASC_THEN();
    }
    if (dweights) {
        asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID0);
        router_scatter(b, rows);
        ASC_FENCE(PIPE_S, PIPE_V); /* the next tile's offsets */
    }
    ASC_NOTIFY(PIPE_S, PIPE_MTE2, side);
    ASC_MAY_WRITE(side);
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, out_at, side), b->d, n);
#else
    asc_add_scalar(ASC_UB(float, out_at, side), b->d, 0.0f, n);
#endif
    ASC_THEN();
    ASC_HAS_WRITTEN(side);
}

ASC_KERNEL ASC_NAME(moe_router_backward)(ASC_PARAMS(ROUTER_BACKWARD))
{
    const router_back b = ASC_NAME(router_back_of)(ASC_NAMES(ROUTER_BACKWARD));
    const int64_t size = sizeof(ASC_T);
    ASC_NAME(router_back_start)(&b, ASC_NAMES(ROUTER_BACKWARD));
#define ROUTER_BRING(row, rows, side) \
    ASC_NAME(router_back_in)(row, rows, side, ASC_NAMES(ROUTER_BACKWARD))
#define ROUTER_WORK(row, rows, side)                                                     \
    do {                                                                                 \
        ASC_NAME(router_back_tile)(&b, rows, side, ASC_NAMES(ROUTER_BACKWARD));          \
        asc_copy_rows_out(dlogits + (row)*dlogits_stride, asc_place(out_at, side), rows, \
                          experts * size, dlogits_stride * size, b.pitch * size);        \
        ASC_HAS_LEFT(side);                                                              \
    } while (0)
    ROUTER_TILES(tokens, tile_rows, ROUTER_BRING, ROUTER_WORK);
#undef ROUTER_BRING
#undef ROUTER_WORK
}
