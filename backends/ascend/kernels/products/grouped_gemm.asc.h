/* grouped_gemm.asc.h - the kernel of one type; see asc_each_type.h. */
#include "gemm_body.asc.h"

/* The operand of rows, and where they are taken from. */
typedef struct ASC_NAME(grouped_rows) {
    __gm__ ASC_T *at;
    __gm__ int64_t *gather;
    int64_t top_k, rows;
} ASC_NAME(grouped_rows);

/* A packet of an operand is zeros. */
static inline __aicore__ void ASC_NAME(grouped_clear)(const gemm_side *s, int set, int64_t count,
                                                      int64_t depth)
{
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(set * s->room));
    asc_fill_value_config all;
    all.config = 0;
    all.repeat = 1;
    all.blk_num = (uint64_t)(asc_round_up(count, 16) * depth * (int64_t)sizeof(ASC_T) / 32);
    asc_fill_l1(to, (uint32_t)0, all);
}

/* A packet of rows that lie here and there, elements k to `end`, one by one. */
static inline __aicore__ void ASC_NAME(grouped_gather)(const gemm_side *s,
                                                       const ASC_NAME(grouped_rows) * x, int set,
                                                       int64_t row, int64_t count, int64_t k,
                                                       int64_t end)
{
    const int64_t block = 32 / (int64_t)sizeof(ASC_T), high = asc_round_up(count, 16);
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(set * s->room));
    for (int64_t r = 0; r < count; r++) {
        const int64_t from = grouped_row(x->gather, row + r, x->top_k, x->rows);
        /* one alone twice, as gemm_bring() has it */
        asc_copy_gm2l1_nd2nz(to + r * block, x->at + from * s->stride + k, count == 1 ? 2 : 1, 1,
                             end - k, 0, 1, high, 1, block);
    }
}

/* The bias of a tile's columns comes to L1, and from there to the table that its first product
 * reads, once earlier ones have read theirs. It has events of its own, and is free with the
 * packet. */
static inline __aicore__ __cbuf__ float *ASC_NAME(grouped_bias_of)(uint64_t l1, int set)
{
    return (__cbuf__ float *)(asc_get_phy_buf_addr(0) + l1) + set * GROUPED_COLUMNS;
}
static inline __aicore__ void ASC_NAME(grouped_bring_bias)(uint64_t l1, __gm__ float *bias,
                                                           const gemm_place *at)
{
    __cbuf__ float *to = ASC_NAME(grouped_bias_of)(l1, at->set);
    if (at->columns % 16) {
        asc_fill_value_config all;
        all.config = 0;
        all.repeat = 1;
        all.blk_num = 4 * GROUPED_COLUMNS / 32;
        asc_fill_l1(to, (uint32_t)0, all);
        asc_sync_pipe(PIPE_MTE2);
    }
    asc_copy_gm2l1_nd2nz(to, bias + at->column, 1, 1, at->columns, 0, 1, 1, 1, 0);
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, GEMM_PACKETS + at->set);
}
static inline __aicore__ void ASC_NAME(grouped_load_bias)(uint64_t l1, const gemm_place *at)
{
    const int64_t bytes = asc_round_up(at->columns, 16) * 4;
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_MTE1, GEMM_PACKETS + at->set);
    ASC_FENCE(PIPE_M, PIPE_MTE1);
    asc_copy_l12bt(0, ASC_NAME(grouped_bias_of)(l1, at->set), 0, 1, bytes / 32, 0, 0);
}

static inline __aicore__ void ASC_NAME(grouped_bring)(const grouped_cut *g, const gemm_side *left,
                                                      const gemm_side *right,
                                                      const ASC_NAME(grouped_rows) * a,
                                                      __gm__ ASC_T *b, int64_t b_step,
                                                      const grouped_place *p)
{
    const gemm_place *at = &p->at;
    const int64_t end = asc_min_of(at->k + g->of.packet, at->end), row = p->begin + at->row;
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE1, PIPE_MTE2, at->set);
    if (p->group == g->groups || g->of.k == 0) {
        ASC_NAME(grouped_clear)(left, at->set, at->rows, g->step);
        ASC_NAME(grouped_clear)(right, at->set, at->columns, g->step);
    } else {
        if (a->gather)
            ASC_NAME(grouped_gather)(left, a, at->set, row, at->rows, at->k, end);
        else
            ASC_NAME(gemm_bring)(left, a->at, at->set, row, at->rows, at->k, end);
        ASC_NAME(gemm_bring)
        (right, b + p->group * b_step, at->set, at->column, at->columns, at->k, end);
    }
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, at->set);
}

ASC_CUBE_KERNEL ASC_NAME(grouped_gemm)(ASC_PARAMS(GROUPED_GEMM))
{
    grouped_cut g;
    g.of.m = rows;
    g.of.n = n;
    g.of.k = g.of.share = k;
    g.of.tile_m = tile_m;
    g.of.tile_n = tile_n;
    g.of.tiles_m = 0;
    g.of.tiles_n = (n + tile_n - 1) / tile_n;
    g.of.splits = 1;
    g.of.packet = packet;
    g.of.band = band;
    g.of.units = 0;
    g.of.biased = 0;
    g.groups = groups;
    g.rows = rows;
    g.step = GEMM_STEP_BYTES / (int64_t)sizeof(ASC_T);
    g.offset = offset;
    const int64_t bytes = packet * (int64_t)sizeof(ASC_T);
    const gemm_side left = gemm_side_of(a_stride, 0, tile_m, bytes, 0);
    const gemm_side right =
        gemm_side_of(b_stride, !b_turned, tile_n, bytes, (uint64_t)(GEMM_PACKETS * left.room));
    const uint64_t of_bias = right.l1 + (uint64_t)(GEMM_PACKETS * right.room);
    ASC_NAME(grouped_rows) from;
    from.at = a;
    from.gather = gather;
    from.top_k = top_k;
    from.rows = a_rows;
    asc_dcci_entire_all(); /* the scalar unit reads boundaries */
    grouped_place here = grouped_first(&g), ahead = here;
    int l0 = 0;
    gemm_begin(0);
    for (int64_t packets = 0; !here.none; packets++) {
        for (int i = packets == 0 ? GEMM_PACKETS : 1; i > 0 && !ahead.none; i--) {
            ASC_NAME(grouped_bring)(&g, &left, &right, &from, b, b_step, &ahead);
            if (bias && ahead.at.k == 0 && ahead.group < groups)
                ASC_NAME(grouped_bring_bias)(of_bias, bias + ahead.group * n, &ahead.at);
            grouped_go_on(&g, &ahead);
        }
        g.of.biased = bias && here.group < groups;
        if (g.of.biased && here.at.k == 0)
            ASC_NAME(grouped_load_bias)(of_bias, &here.at);
        l0 = ASC_NAME(gemm_multiply)(&g.of, &left, &right, &here.at, l0);
        if (here.at.k + g.of.packet >= here.at.end)
            ASC_NAME(gemm_copy_out)
        (&here.at, c, (here.begin + here.at.row) * c_stride + here.at.column, c_stride, c_type);
        grouped_go_on(&g, &here);
    }
    gemm_end();
}
