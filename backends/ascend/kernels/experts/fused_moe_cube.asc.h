/* fused_moe_cube.asc.h - the cube core's part, of one type; see asc_each_type.h. */

/* A packet of the right operand: the columns of a tile's gates and behind them, from a whole
 * fractal on, those of what they multiply; what lies between is zeros. */
static inline __aicore__ void ASC_NAME(moe_bring_halves)(const gemm_side *s, __gm__ ASC_T *x,
                                                         const gemm_place *at, int64_t end,
                                                         int64_t inner)
{
    const int64_t side = moe_half(at->columns), high = 2 * side;
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(at->set * s->room));
    if (side > at->columns) {
        ASC_NAME(grouped_clear)(s, at->set, high, asc_round_up(end - at->k, GEMM_STEP));
        asc_sync_pipe(PIPE_MTE2);
    }
    if (!s->turned) {
        x += at->column * s->stride + at->k;
        ASC_NAME(asc_bring_rows)(to, x, at->columns, end - at->k, s->stride, high);
        ASC_NAME(asc_bring_rows)
        (to + side * ASC_BLOCK, x + inner * s->stride, at->columns, end - at->k, s->stride, high);
        return;
    }
    for (int64_t k = at->k; k < end; k += GEMM_TURN, to += GEMM_TURN * high) {
        const int64_t rows = asc_min_of(GEMM_TURN, end - k), whole = asc_round_up(rows, 16);
        __gm__ ASC_T *from = x + k * s->stride + at->column;
        ASC_NAME(asc_bring_rows)(to, from, rows, at->columns, s->stride, whole);
        ASC_NAME(asc_bring_rows)
        (to + side * whole, from + inner, rows, at->columns, s->stride, whole);
    }
}

/* A packet of both operands. Of gathered rows a panel is waited for, and free behind its last. */
static inline __aicore__ void ASC_NAME(moe_bring)(const grouped_cut *g, const gemm_side *left,
                                                  const gemm_side *right, __gm__ ASC_T *rows,
                                                  __gm__ ASC_T *b, const moe_place *p,
                                                  int64_t gathered, int64_t interleaved)
{
    const gemm_place *at = &p->at;
    const int64_t end = asc_min_of(at->k + g->of.packet, at->end);
    if (gathered && at->k == 0 && at->column == p->task.at.column)
        asc_sync_block_wait(PIPE_S, MOE_GATHERED);
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE1, PIPE_MTE2, at->set);
    if (p->task.group == g->groups || g->of.k == 0) {
        ASC_NAME(grouped_clear)(left, at->set, at->rows, g->step);
        ASC_NAME(grouped_clear)(right, at->set, 2 * moe_half(at->columns), g->step);
    } else {
        ASC_NAME(gemm_bring)(left, rows, at->set, 0, at->rows, at->k, end);
        if (interleaved)
            ASC_NAME(gemm_bring)
        (right, b, at->set, 2 * at->column, 2 * at->columns, at->k, end);
        else ASC_NAME(moe_bring_halves)(right, b, at, end, g->of.n);
    }
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, at->set);
    if (gathered && end == at->end && moe_is_last(p))
        asc_sync_block_arrive(PIPE_MTE2, MOE_FREE);
}

/* The bias of a tile's columns, as grouped_bring_bias() has it. */
static inline __aicore__ void ASC_NAME(moe_bring_bias)(uint64_t l1, __gm__ float *bias,
                                                       const gemm_place *at, int64_t inner,
                                                       int64_t interleaved)
{
    __cbuf__ float *to = ASC_NAME(grouped_bias_of)(l1, at->set);
    const int64_t side = moe_half(at->columns);
    if (side > at->columns) {
        asc_fill_value_config all;
        all.config = 0;
        all.repeat = 1;
        all.blk_num = 4 * GROUPED_COLUMNS / 32;
        asc_fill_l1(to, (uint32_t)0, all);
        asc_sync_pipe(PIPE_MTE2);
    }
    if (interleaved) {
        asc_copy_gm2l1_nd2nz(to, bias + 2 * at->column, 1, 1, 2 * at->columns, 0, 1, 1, 1, 0);
    } else {
        asc_copy_gm2l1_nd2nz(to, bias + at->column, 1, 1, at->columns, 0, 1, 1, 1, 0);
        asc_copy_gm2l1_nd2nz(to + side, bias + inner + at->column, 1, 1, at->columns, 0, 1, 1, 1,
                             0);
    }
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, GEMM_PACKETS + at->set);
}

/* A tile goes to its slot, once the vector cores have read what was there. */
static inline __aicore__ void ASC_NAME(moe_hand_over)(const gemm_place *both, __gm__ float *work,
                                                      int64_t side, int64_t tile)
{
    if (tile >= MOE_SLOTS)
        asc_sync_block_wait(PIPE_S, MOE_TAKEN);
    ASC_NAME(gemm_copy_out)
    (both, work + tile % MOE_SLOTS * MOE_TILE_ROWS * 2 * side, 0, 2 * side, ASC_ANY_F32);
    asc_sync_block_arrive(PIPE_FIX, MOE_MADE);
}

/* The first of a place's rows: in its panel, or where it lies. */
static inline __aicore__ __gm__ ASC_T *ASC_NAME(moe_rows)(const moe_place *p, int64_t gathered,
                                                          ASC_PARAMS(MOE_PROJECT))
{
    if (gathered)
        return panels + p->turn % MOE_PANELS * MOE_TILE_ROWS * panel_stride;
    return a + (p->task.begin + p->at.row) * a_stride;
}

static inline __aicore__ void ASC_NAME(moe_multiply)(grouped_cut *g, ASC_PARAMS(MOE_PROJECT))
{
    const int64_t bytes = packet * (int64_t)sizeof(ASC_T), gathered = gather != 0;
    const gemm_side left =
        gemm_side_of(gathered ? panel_stride : a_stride, 0, MOE_TILE_ROWS, bytes, 0);
    const gemm_side right =
        gemm_side_of(b_stride, !b_turned, 2 * side, bytes, (uint64_t)(GEMM_PACKETS * left.room));
    const uint64_t of_bias = right.l1 + (uint64_t)(GEMM_PACKETS * right.room);
    moe_place here = moe_first(g, side), ahead = here;
    int l0 = 0;
    int64_t tile = 0;
    gemm_begin(0);
    for (int64_t packets = 0; !here.task.none; packets++) {
        for (int i = packets == 0 ? GEMM_PACKETS : 1; i > 0 && !ahead.task.none; i--) {
            const int panel = moe_gathers(g, &ahead, gathered);
            ASC_NAME(moe_bring)
            (g, &left, &right, ASC_NAME(moe_rows)(&ahead, panel, ASC_NAMES(MOE_PROJECT)),
             b + ahead.task.group * b_step, &ahead, panel, interleaved);
            if (bias && ahead.at.k == 0 && ahead.task.group < groups)
                ASC_NAME(moe_bring_bias)
            (of_bias, bias + ahead.task.group * 2 * inner, &ahead.at, inner, interleaved);
            moe_go_on(g, &ahead, side, gathered);
        }
        const gemm_place both = moe_both(&here.at, interleaved);
        g->of.biased = bias && here.task.group < groups;
        if (g->of.biased && here.at.k == 0)
            ASC_NAME(grouped_load_bias)(of_bias, &both);
        l0 = ASC_NAME(gemm_multiply)(&g->of, &left, &right, &both, l0);
        if (here.at.k + packet >= here.at.end)
            ASC_NAME(moe_hand_over)(&both, work, side, tile++);
        moe_go_on(g, &here, side, gathered);
    }
    for (int64_t i = asc_min_of(tile, MOE_SLOTS); i > 0; i--)
        asc_sync_block_wait(PIPE_S, MOE_TAKEN);
    gemm_end();
}
