/* moe_gate_backward.asc.h - the kernels of one type; see asc_each_type.h. */

#if ASC_16BIT
#define MOE_PRE_AT pre_at
#define MOE_DPRE_AT dpre_at
#define MOE_WIDEN(to, from, n) ASC_WIDEN(to, from, n)
#define MOE_NARROW(to, from, n) ASC_NARROW(to, from, n)
#else
#define MOE_PRE_AT pre_f32_at
#define MOE_DPRE_AT dpre_f32_at
#define MOE_WIDEN(to, from, n) asc_mul_scalar(to, from, 1.0f, n)
#define MOE_NARROW(to, from, n) asc_mul_scalar(to, from, 1.0f, n)
#endif

/* A piece of some rows: `used` of them belong to a group; second: elements from gates to what they
 * multiply, in UB. */
typedef struct ASC_NAME(moe_rows) {
    asc_tile tile;
    int64_t used, pitch, second;
    int slot;
} ASC_NAME(moe_rows);

static inline __aicore__ void ASC_NAME(moe_piece_in)(const ASC_NAME(moe_rows) * p,
                                                     ASC_PARAMS(MOE_GATE_BACKWARD))
{
    const int64_t size = (int64_t)sizeof(ASC_T), pitch = p->pitch * size;
    const uint64_t to = asc_place(MOE_PRE_AT, p->slot);
    __gm__ ASC_T *from = pre + p->tile.row * pre_stride;
    ASC_MAY_FILL(p->slot);
    ASC_ROWS_IN(float, da_at, p->slot, da, columns, p->tile, p->pitch);
    if (interleaved) {
        asc_copy_rows_in(to, from + 2 * p->tile.column, p->tile.rows, 2 * p->tile.columns * size,
                         pre_stride * size, 2 * pitch);
    } else {
        asc_copy_rows_in(to, from + p->tile.column, p->tile.rows, p->tile.columns * size,
                         pre_stride * size, pitch);
        asc_copy_rows_in(to + (uint64_t)(p->second * size), from + columns + p->tile.column,
                         p->tile.rows, p->tile.columns * size, pre_stride * size, pitch);
    }
    ASC_HAS_FILLED(p->slot);
}

/* Gates, what they multiply, and the gradients of the results, as f32. */
static inline __aicore__ void ASC_NAME(moe_piece_widen)(const ASC_NAME(moe_rows) * p,
                                                        ASC_PARAMS(MOE_GATE_BACKWARD))
{
    const uint32_t n = (uint32_t)(p->tile.rows * p->pitch);
    __ubuf__ ASC_T *from = ASC_UB(ASC_T, MOE_PRE_AT, p->slot);
    asc_mul_scalar(ASC_SCRATCH(g), ASC_UB(float, da_at, p->slot), 1.0f, n);
    if (interleaved) {
        __ubuf__ float *mixed = ASC_SCRATCH(mixed);
        MOE_WIDEN(mixed, from, 2 * n);
        ASC_THEN();
        asc_gather(ASC_SCRATCH(halves), mixed, ASC_UB(uint32_t, to_halves_at, 0), n);
        asc_gather(ASC_SCRATCH(halves) + p->second, mixed + 1, ASC_UB(uint32_t, to_halves_at, 0),
                   n);
    } else {
        MOE_WIDEN(ASC_SCRATCH(halves), from, n);
        MOE_WIDEN(ASC_SCRATCH(halves) + p->second, from + p->second, n);
    }
    ASC_THEN();
}

/* The results times their gradients join the sums of the rows. */
static inline __aicore__ void ASC_NAME(moe_piece_sum)(const ASC_NAME(moe_rows) * p,
                                                      ASC_PARAMS(MOE_GATE_BACKWARD))
{
    __ubuf__ float *product = ASC_SCRATCH(h);
    asc_mul(product, ASC_SCRATCH(y), ASC_UB(float, da_at, p->slot),
            (uint32_t)(p->tile.rows * p->pitch));
    ASC_THEN();
    asc_sum_rows(ASC_SCRATCH(part), product, p->tile.rows, p->pitch, p->tile.columns,
                 ASC_SCRATCH(eighth), ASC_SCRATCH(rest));
    asc_add(ASC_SCRATCH(total), ASC_SCRATCH(total), ASC_SCRATCH(part), (uint32_t)p->tile.rows);
    ASC_THEN();
}

/* Rows of x times the weights of theirs; those of no group become 0. */
static inline __aicore__ void ASC_NAME(moe_weigh)(const ASC_NAME(moe_rows) * p, __ubuf__ float *x,
                                                  __ubuf__ float *block, __gm__ float *weights)
{
    if (weights) {
        ASC_BY_ROW(asc_mul, x, x, block, p->tile.rows, p->pitch);
        ASC_THEN();
    }
    if (p->used < p->tile.rows) {
        asc_duplicate(x + p->used * p->pitch, 0.0f,
                      (uint32_t)((p->tile.rows - p->used) * p->pitch));
        ASC_THEN();
    }
}

/* Gradients in g and the second half, results in y, weighed: rounded and out. */
static inline __aicore__ void ASC_NAME(moe_piece_out)(const ASC_NAME(moe_rows) * p,
                                                      ASC_PARAMS(MOE_GATE_BACKWARD))
{
    const uint32_t n = (uint32_t)(p->tile.rows * p->pitch);
    const int64_t size = (int64_t)sizeof(ASC_T), pitch = p->pitch * size;
    const uint64_t at = asc_place(MOE_DPRE_AT, p->slot);
    __gm__ ASC_T *to = dpre + p->tile.row * 2 * columns;
    ASC_MAY_WRITE(p->slot);
    if (interleaved) {
        asc_mul_scalar(ASC_SCRATCH(halves), ASC_SCRATCH(g), 1.0f, n); /* halves lie together */
        ASC_THEN();
        asc_gather(ASC_SCRATCH(mixed), ASC_SCRATCH(halves), ASC_UB(uint32_t, to_pairs_at, 0),
                   2 * n);
        ASC_THEN();
        MOE_NARROW((__ubuf__ ASC_T *)at, ASC_SCRATCH(mixed), 2 * n);
    } else {
        MOE_NARROW((__ubuf__ ASC_T *)at, ASC_SCRATCH(g), n);
        MOE_NARROW((__ubuf__ ASC_T *)at + p->second, ASC_SCRATCH(halves) + p->second, n);
    }
    MOE_NARROW(ASC_UB(ASC_T, act_at, p->slot), ASC_SCRATCH(y), n);
    ASC_THEN();
    ASC_HAS_WRITTEN(p->slot);
    if (interleaved) {
        asc_copy_rows_out(to + 2 * p->tile.column, at, p->tile.rows, 2 * p->tile.columns * size,
                          2 * columns * size, 2 * pitch);
    } else {
        asc_copy_rows_out(to + p->tile.column, at, p->tile.rows, p->tile.columns * size,
                          2 * columns * size, pitch);
        asc_copy_rows_out(to + columns + p->tile.column, at + (uint64_t)(p->second * size),
                          p->tile.rows, p->tile.columns * size, 2 * columns * size, pitch);
    }
    ASC_ROWS_OUT(ASC_T, act, columns, p->tile, act_at, p->slot, p->pitch);
    ASC_HAS_LEFT(p->slot);
}

/* Numbers, weights and `more` of some rows. A weight is the first of a block of 32 bytes. */
static inline __aicore__ void ASC_NAME(moe_rows_begin)(int64_t row, int64_t count, int64_t used,
                                                       ASC_PARAMS(MOE_GATE_BACKWARD))
{
    const __ubuf__ int64_t *index = ASC_UB(int64_t, index_at, 0);
    asc_sync(); /* the rows before are done */
    asc_duplicate(ASC_SCRATCH(total), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    if (!weights && !dots) {
        ASC_THEN();
        return;
    }
    asc_copy_rows_in(asc_place(index_at, 0), slot + row, 1, count * 8, count * 8,
                     asc_round_up(count * 8, 32));
    asc_sync();
    for (int64_t i = 0; i < used && weights; i++)
        asc_copy_rows_in(asc_place(weight_at, 0) + (uint64_t)(i * 32), weights + index[i], 1, 4, 4,
                         32);
    if (more)
        asc_copy_rows_in(asc_place(more_at, 0), more + row, 1, count * 4, count * 4,
                         asc_round_up(count * 4, 32));
    asc_sync();
    if (more)
        asc_mul_scalar(ASC_SCRATCH(total), ASC_SCRATCH(more), 1.0f, (uint32_t)count);
    if (weights) {
        asc_datablock_reduce_sum(ASC_SCRATCH(value), ASC_SCRATCH(weight), (uint32_t)(count * 8));
        ASC_THEN();
        asc_spread(ASC_SCRATCH(block), ASC_SCRATCH(value), count);
    }
    ASC_THEN();
}

/* The sums of rows go to the places of their numbers. */
static inline __aicore__ void ASC_NAME(moe_rows_end)(int64_t count, int64_t used,
                                                     ASC_PARAMS(MOE_GATE_BACKWARD))
{
    const __ubuf__ int64_t *index = ASC_UB(int64_t, index_at, 0);
    if (!dots)
        return;
    asc_spread(ASC_SCRATCH(dots), ASC_SCRATCH(total), count);
    asc_sync();
    for (int64_t i = 0; i < used; i++)
        asc_copy_rows_out(dots + index[i], asc_place(dots_at, 0) + (uint64_t)(i * 32), 1, 4, 4, 32);
}

ASC_KERNEL ASC_NAME(moe_gate_backward)(ASC_PARAMS(MOE_GATE_BACKWARD))
{
    const int64_t wide = asc_round_up(tile_columns, ASC_LANES), all = tile_rows * wide;
    ASC_NAME(moe_rows) p;
    p.slot = 0;
    asc_clear_begin();
    asc_clear(da_at, all * 4);
    asc_clear(MOE_PRE_AT, 2 * all * (int64_t)sizeof(ASC_T));
    asc_clear_copies(weight_at, 1, tile_rows * 32);
    asc_clear_copies(value_at, 1, asc_round_up(tile_rows, 8) * 4);
    if (interleaved) {
        asc_offsets(ASC_UB(int32_t, to_halves_at, 0), all, 8);
        asc_offsets_to_pairs(ASC_UB(int32_t, to_pairs_at, 0), all, 2 * all);
    }
    asc_sync();
    asc_pipeline_begin();
    asc_dcci_entire_all(); /* the scalar unit reads a boundary */
    const int64_t end = offset[groups];
    const moe_gate g = moe_gate_of(activation, interleaved, asc_f32(limit), asc_f32(alpha),
                                   asc_f32(up_offset), ASC_SCRATCH(coefficients));
    const moe_scratch scratch = {ASC_SCRATCH(h), ASC_SCRATCH(k), ASC_SCRATCH(e), ASC_SCRATCH(c),
                                 ASC_SCRATCH(v)};
    for (int64_t row = asc_get_block_idx() * tile_rows; row < rows;
         row += asc_get_block_num() * tile_rows) {
        const int64_t count = asc_min_of(tile_rows, rows - row), left = end - row;
        p.tile.row = row;
        p.tile.rows = count;
        p.used = left < 0 ? 0 : asc_min_of(left, count);
        ASC_NAME(moe_rows_begin)(row, count, p.used, ASC_NAMES(MOE_GATE_BACKWARD));
        for (int64_t column = 0; column < columns; column += tile_columns, p.slot ^= 1) {
            p.tile.column = column;
            p.tile.columns = asc_min_of(tile_columns, columns - column);
            p.pitch = asc_round_up(p.tile.columns, ASC_LANES);
            p.second = all;
            ASC_NAME(moe_piece_in)(&p, ASC_NAMES(MOE_GATE_BACKWARD));
            ASC_NAME(moe_piece_widen)(&p, ASC_NAMES(MOE_GATE_BACKWARD));
            moe_gate_gradients(&g, ASC_SCRATCH(y), ASC_SCRATCH(g), ASC_SCRATCH(halves),
                               ASC_SCRATCH(halves) + all, &scratch, (uint32_t)(count * p.pitch));
            if (dots)
                ASC_NAME(moe_piece_sum)(&p, ASC_NAMES(MOE_GATE_BACKWARD));
            ASC_HAS_READ(p.slot);
            ASC_NAME(moe_weigh)(&p, ASC_SCRATCH(g), ASC_SCRATCH(block), weights);
            ASC_NAME(moe_weigh)(&p, ASC_SCRATCH(halves) + all, ASC_SCRATCH(block), weights);
            ASC_NAME(moe_weigh)(&p, ASC_SCRATCH(y), ASC_SCRATCH(block), weights);
            ASC_NAME(moe_piece_out)(&p, ASC_NAMES(MOE_GATE_BACKWARD));
        }
        ASC_NAME(moe_rows_end)(count, p.used, ASC_NAMES(MOE_GATE_BACKWARD));
    }
    asc_pipeline_end();
}

/* Rows of x from `row` on times one row of b. */
static inline __aicore__ void ASC_NAME(moe_bias_rows)(int64_t row, int64_t count, int64_t group,
                                                      ASC_PARAMS(MOE_BIAS_DOTS))
{
    const int64_t size = (int64_t)sizeof(ASC_T);
    asc_sync();
    asc_duplicate(ASC_SCRATCH(total), 0.0f, (uint32_t)asc_round_up(tile_rows, 8));
    for (int64_t column = 0; column < columns; column += tile_columns) {
        const int64_t there = asc_min_of(tile_columns, columns - column);
        const int64_t pitch = asc_round_up(there, ASC_LANES);
        asc_copy_rows_in(asc_place(x_at, 0), x + row * columns + column, count, there * size,
                         columns * size, pitch * size);
        asc_copy_rows_in(asc_place(b_at, 0), b + group * columns + column, 1, there * 4, there * 4,
                         pitch * 4);
        asc_sync();
        MOE_WIDEN(ASC_SCRATCH(wide), ASC_UB(ASC_T, x_at, 0), (uint32_t)(count * pitch));
        ASC_THEN();
        ASC_BY_COLUMN(asc_mul, ASC_SCRATCH(wide), ASC_SCRATCH(wide), ASC_SCRATCH(b), count, pitch);
        ASC_THEN();
        asc_sum_rows(ASC_SCRATCH(part), ASC_SCRATCH(wide), count, pitch, there, ASC_SCRATCH(eighth),
                     ASC_SCRATCH(rest));
        asc_add(ASC_SCRATCH(total), ASC_SCRATCH(total), ASC_SCRATCH(part), (uint32_t)count);
        asc_sync();
    }
    asc_copy_rows_out(dots + row, asc_place(total_at, 0), 1, count * 4, count * 4, 32);
}

ASC_KERNEL ASC_NAME(moe_bias_dots)(ASC_PARAMS(MOE_BIAS_DOTS))
{
    int64_t task = 0;
    (void)rows;
    asc_clear_begin();
    asc_clear_copies(x_at, 1,
                     tile_rows * asc_round_up(tile_columns, ASC_LANES) * (int64_t)sizeof(ASC_T));
    asc_clear_copies(b_at, 1, asc_round_up(tile_columns, ASC_LANES) * 4);
    asc_sync();
    asc_modes_set();
    asc_dcci_entire_all(); /* the scalar unit reads boundaries */
    for (int64_t group = 0; group < groups; group++)
        for (int64_t row = offset[group]; row < offset[group + 1]; row += tile_rows, task++)
            if (task % asc_get_block_num() == asc_get_block_idx())
                ASC_NAME(moe_bias_rows)
    (row, asc_min_of(tile_rows, offset[group + 1] - row), group, ASC_NAMES(MOE_BIAS_DOTS));
    asc_sync();
    asc_modes_clear();
}

#undef MOE_PRE_AT
#undef MOE_DPRE_AT
#undef MOE_WIDEN
#undef MOE_NARROW
