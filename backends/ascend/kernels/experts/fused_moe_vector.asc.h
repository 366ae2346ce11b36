/* fused_moe_vector.asc.h - the vector cores' part, of one type; see asc_each_type.h. */

#if ASC_16BIT
#define MOE_PRE_AT pre_at
#else
#define MOE_PRE_AT pre_f32_at
#endif

/* Rows of a tile that come at a time: `at`: where in the operands; side: elements from gates to
 * what they multiply. */
typedef struct ASC_NAME(moe_piece) {
    int64_t row, rows, column, columns, side;
    int slot;
} ASC_NAME(moe_piece);

/* Products of rows that begin at `from` in a slot, whose own are `pitch` long. */
static inline __aicore__ void ASC_NAME(moe_take)(const ASC_NAME(moe_piece) * p, uint64_t to,
                                                 __gm__ float *from, int64_t pitch,
                                                 int64_t interleaved)
{
    const int64_t row = pitch * 4, side = p->side * 4;
    if (interleaved) {
        asc_copy_rows_in(to, from, p->rows, 2 * p->columns * 4, row, 2 * side);
        return;
    }
    asc_copy_rows_in(to, from, p->rows, side, row, side);
    asc_copy_rows_in(to + (uint64_t)(p->rows * side), from + p->side, p->rows, side, row, side);
}

/* The products, rounded, in the order of their columns. */
static inline __aicore__ void ASC_NAME(moe_round)(uint64_t to, __ubuf__ float *both, uint32_t n)
{
#if ASC_16BIT
    ASC_NARROW((__ubuf__ ASC_T *)to, both, 2 * n);
#else
    asc_mul_scalar((__ubuf__ float *)to, both, 1.0f, 2 * n);
#endif
}

static inline __aicore__ void ASC_NAME(moe_pre_out)(const ASC_NAME(moe_piece) * p, uint64_t from,
                                                    __gm__ ASC_T *pre, int64_t stride,
                                                    int64_t inner, int64_t interleaved)
{
    const int64_t size = (int64_t)sizeof(ASC_T), side = p->side * size;
    pre += p->row * stride;
    if (interleaved) {
        asc_copy_rows_out(pre + 2 * p->column, from, p->rows, 2 * p->columns * size, stride * size,
                          2 * side);
        return;
    }
    asc_copy_rows_out(pre + p->column, from, p->rows, p->columns * size, stride * size, side);
    asc_copy_rows_out(pre + inner + p->column, from + (uint64_t)(p->rows * side), p->rows,
                      p->columns * size, stride * size, side);
}

/* A piece that has come: products are rounded, and go through the gate. */
static inline __aicore__ void ASC_NAME(moe_work)(const moe_gate *g, const ASC_NAME(moe_piece) * p,
                                                 ASC_PARAMS(MOE_PROJECT))
{
    const uint32_t n = (uint32_t)(p->rows * p->side);
    __ubuf__ float *first = ASC_UB(float, both_at, p->slot), *y = first;
    ASC_MAY_WRITE(p->slot);
    if (pre)
        ASC_NAME(moe_round)(asc_place(MOE_PRE_AT, p->slot), first, n);
    if (interleaved && act) {
        __ubuf__ float *mixed = first;
        y = first = ASC_SCRATCH(halves);
        asc_gather(first, mixed, ASC_UB(uint32_t, to_halves_at, 0), n);
        asc_gather(first + n, mixed + 1, ASC_UB(uint32_t, to_halves_at, 0), n);
    }
    ASC_THEN();
#if !ASC_16BIT
    y = ASC_UB(float, act_at, p->slot);
#endif
    if (act)
        moe_gated(g, y, first, first + n, ASC_SCRATCH(h), ASC_SCRATCH(e), ASC_SCRATCH(p),
                  ASC_SCRATCH(q), n);
#if ASC_16BIT
    if (act)
        ASC_NARROW(ASC_UB(ASC_T, act_at, p->slot), y, n);
    ASC_THEN();
#endif
    ASC_HAS_READ(p->slot);
    ASC_HAS_WRITTEN(p->slot);
    if (pre)
        ASC_NAME(moe_pre_out)
    (p, asc_place(MOE_PRE_AT, p->slot), pre, pre_stride, inner, interleaved);
    if (act)
        asc_copy_rows_out(act + p->row * act_stride + p->column, asc_place(act_at, p->slot),
                          p->rows, p->columns * (int64_t)sizeof(ASC_T),
                          act_stride * (int64_t)sizeof(ASC_T), p->side * (int64_t)sizeof(ASC_T));
    ASC_HAS_LEFT(p->slot);
}

/* This core's rows of a tile, some at a time. Returns the buffers that are next. */
static inline __aicore__ int ASC_NAME(moe_tile)(const moe_gate *g, const moe_place *at,
                                                __gm__ float *from, int slot,
                                                ASC_PARAMS(MOE_PROJECT))
{
    int64_t first;
    const int64_t own = moe_own(at, &first);
    ASC_NAME(moe_piece) p;
    p.column = at->at.column;
    p.columns = at->at.columns;
    p.side = moe_half(p.columns);
    if (!own)
        asc_sync_block_arrive(PIPE_MTE2, MOE_TAKEN);
    for (int64_t r = 0; r < own; r += group, slot ^= 1) {
        p.row = at->task.begin + at->at.row + first + r;
        p.rows = asc_min_of(group, own - r);
        p.slot = slot;
        ASC_MAY_FILL(slot);
        ASC_NAME(moe_take)
        (&p, asc_place(both_at, slot), from + (first + r) * 2 * side, 2 * side, interleaved);
        if (r + group >= own)
            asc_sync_block_arrive(PIPE_MTE2, MOE_TAKEN);
        ASC_HAS_FILLED(slot);
        ASC_NAME(moe_work)(g, &p, ASC_NAMES(MOE_PROJECT));
    }
    return slot;
}

/* Some rows of a task, or a piece of one, go to its panel. Returns the buffer that is next. */
static inline __aicore__ int ASC_NAME(moe_copy)(__gm__ ASC_T *to, int64_t j, int64_t count,
                                                int64_t column, int64_t n, int turn,
                                                ASC_PARAMS(MOE_PROJECT))
{
    const int64_t size = (int64_t)sizeof(ASC_T), pitch = asc_round_up(n * size, 32);
    ASC_WAIT(PIPE_MTE3, PIPE_MTE2, turn);
    for (int64_t r = 0; r < count; r++)
        asc_copy_rows_in(asc_place(piece_at, turn) + (uint64_t)(r * pitch),
                         a + gather[j + r] / top_k * a_stride + column, 1, n * size, n * size,
                         pitch);
    ASC_NOTIFY(PIPE_MTE2, PIPE_MTE3, turn);
    ASC_WAIT(PIPE_MTE2, PIPE_MTE3, turn);
    asc_copy_rows_out(to + column, asc_place(piece_at, turn), count, n * size, panel_stride * size,
                      pitch);
    ASC_NOTIFY(PIPE_MTE3, PIPE_MTE2, turn);
    return turn ^ 1;
}

/* The rows of the task at `p` go to its panel, if they are gathered; then p is the next task. */
static inline __aicore__ int ASC_NAME(moe_collect_rows)(const grouped_cut *g, moe_place *p,
                                                        int turn, ASC_PARAMS(MOE_PROJECT))
{
    const int64_t most = MOE_PANEL_PIECE / (int64_t)sizeof(ASC_T), n = asc_min_of(k, most);
    if (p->task.none)
        return turn;
    if (moe_gathers(g, p, gather != 0)) {
        int64_t first;
        const int64_t own = moe_own(p, &first), at_once = most / asc_round_up(n, 16);
        __gm__ ASC_T *to = panels + (p->turn % MOE_PANELS * MOE_TILE_ROWS + first) * panel_stride;
        const int64_t j = p->task.begin + p->task.at.row + first;
        if (p->turn >= MOE_PANELS) {
            asc_sync_block_wait(PIPE_S, MOE_FREE);
            asc_sync_pipe(PIPE_MTE3); /* what it wrote there before, if no copies came between */
        }
        for (int64_t r = 0; r < own; r += at_once)
            for (int64_t column = 0; column < k; column += n)
                turn = ASC_NAME(moe_copy)(to + r * panel_stride, j + r,
                                          asc_min_of(at_once, own - r), column,
                                          asc_min_of(n, k - column), turn, ASC_NAMES(MOE_PROJECT));
        asc_sync_block_arrive(PIPE_MTE3, MOE_GATHERED);
    }
    moe_next_task(g, p, side, gather != 0);
    return turn;
}

/* A task's rows are gathered while the one before is multiplied. */
static inline __aicore__ void ASC_NAME(moe_activate)(const grouped_cut *cut,
                                                     ASC_PARAMS(MOE_PROJECT))
{
    int slot = 0, turn = 0;
    asc_clear_begin();
    if (interleaved) { /* what does not come is computed with */
        asc_clear(both_at, 2 * group * side * (int64_t)sizeof(float));
        asc_offsets(ASC_UB(int32_t, to_halves_at, 0), group * side, 8);
    }
    asc_sync();
    asc_pipeline_begin();
    ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_MTE2);
    const moe_gate g = moe_gate_of(activation, interleaved, asc_f32(limit), asc_f32(alpha),
                                   asc_f32(up_offset), ASC_SCRATCH(coefficients));
    moe_place at = moe_first(cut, side), ahead = at;
    for (int i = 0; i < MOE_PANELS; i++)
        turn = ASC_NAME(moe_collect_rows)(cut, &ahead, turn, ASC_NAMES(MOE_PROJECT));
    for (int64_t tile = 0; !at.task.none; tile++) {
        const int last = moe_is_last(&at);
        asc_sync_block_wait(PIPE_S, MOE_MADE);
        slot = ASC_NAME(moe_tile)(&g, &at, work + tile % MOE_SLOTS * MOE_TILE_ROWS * 2 * side, slot,
                                  ASC_NAMES(MOE_PROJECT));
        moe_next_tile(cut, &at, side, gather != 0);
        if (last)
            turn = ASC_NAME(moe_collect_rows)(cut, &ahead, turn, ASC_NAMES(MOE_PROJECT));
    }
    for (int64_t i = asc_min_of(ahead.turn, MOE_PANELS); i > 0; i--)
        asc_sync_block_wait(PIPE_S, MOE_FREE);
    ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_MTE2);
    asc_pipeline_end();
}

#undef MOE_PRE_AT
