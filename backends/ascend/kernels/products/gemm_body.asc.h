/* gemm_body.asc.h - a core's part of a product of one type; see asc_each_type.h. */

#include "asc_fractals.asc.h"

/* Elements of k in a step. */
#define GEMM_STEP (GEMM_STEP_BYTES / (int64_t)sizeof(ASC_T))
/* Rows of k that are turned together: of f32 the squares of 16 x 16 are two fractals, which must
 * lie behind each other. */
#define GEMM_TURN (ASC_16BIT ? GEMM_STEP : 16)

/* A packet of an operand: `count` of its rows or columns from `at` on, at elements k to `end`. A
 * step lies behind the other. */
static inline __aicore__ void ASC_NAME(gemm_bring)(const gemm_side *s, __gm__ ASC_T *x, int set,
                                                   int64_t at, int64_t count, int64_t k,
                                                   int64_t end)
{
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(set * s->room));
    const int64_t high = asc_round_up(count, 16);
    if (!s->turned && count == 1) { /* twice: a product of one row would read it in another order */
        asc_copy_gm2l1_nd2nz(to, x + at * s->stride + k, 2, 1, end - k, 0, 1, high, 1, ASC_BLOCK);
        return;
    }
    if (!s->turned) {
        ASC_NAME(asc_bring_rows)(to, x + at * s->stride + k, count, end - k, s->stride, high);
        return;
    }
    for (; k < end; k += GEMM_TURN, to += GEMM_TURN * high) {
        const int64_t rows = asc_min_of(GEMM_TURN, end - k);
        ASC_NAME(asc_bring_rows)
        (to, x + k * s->stride + at, rows, count, s->stride, asc_round_up(rows, 16));
    }
}

/* The steps of a packet, from the half `l0` of L0 on; returns the half that is next. The last
 * product of the unit leaves the tile to the copy out. */
static inline __aicore__ int ASC_NAME(gemm_multiply)(const gemm_cut *g, const gemm_side *a,
                                                     const gemm_side *b, const gemm_place *p,
                                                     int l0)
{
    const int64_t end = asc_min_of(p->k + g->packet, p->end), begin = p->split * g->share;
    const int64_t m1 = (p->rows + 15) / 16, n1 = (p->columns + 15) / 16;
    __cbuf__ ASC_T *a1 =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + a->l1 + (uint64_t)(p->set * a->room));
    __cbuf__ ASC_T *b1 =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + b->l1 + (uint64_t)(p->set * b->room));
    ASC_RING_FLAG(asc_sync_wait, PIPE_MTE2, PIPE_MTE1, p->set);
    for (int64_t k = p->k; k < end; k += GEMM_STEP, l0 ^= 1) {
        const int64_t depth = asc_min_of(GEMM_STEP, end - k);
        __ca__ ASC_T *a0 = (__ca__ ASC_T *)(asc_get_phy_buf_addr(0) + (uint64_t)(l0 * GEMM_L0));
        __cb__ ASC_T *b0 = (__cb__ ASC_T *)(asc_get_phy_buf_addr(0) + (uint64_t)(l0 * GEMM_L0));
        ASC_WAIT(PIPE_M, PIPE_MTE1, l0);
        ASC_NAME(asc_load_a)(a0, a1, a->turned, m1, depth);
        ASC_NAME(asc_load_b)(b0, b1, b->turned, n1, depth);
        ASC_NOTIFY(PIPE_MTE1, PIPE_M, l0);
        ASC_WAIT(PIPE_MTE1, PIPE_M, l0);
        asc_mmad((__cc__ float *)asc_get_phy_buf_addr(0), a0, b0, p->rows > 1 ? p->rows : 2, depth,
                 p->columns, k + depth == p->end ? 3 : 2, !ASC_16BIT && a->turned,
                 g->biased && k == begin, !g->biased && k == begin);
        if (m1 * n1 < 10) /* the next product wants results that are still in flight */
            asc_sync_pipe(PIPE_M);
        ASC_NOTIFY(PIPE_M, PIPE_MTE1, l0);
        a1 += GEMM_STEP * m1 * 16;
        b1 += GEMM_STEP * n1 * 16;
    }
    ASC_RING_FLAG(asc_sync_notify, PIPE_MTE1, PIPE_MTE2, p->set);
    return l0;
}

static inline __aicore__ void ASC_NAME(gemm_copy_out)(const gemm_place *p, __gm__ void *c,
                                                      int64_t at, int64_t stride, int64_t type)
{
    __cc__ float *from = (__cc__ float *)asc_get_phy_buf_addr(0);
    const int64_t high = asc_round_up(p->rows, 16);
    if (type == ASC_ANY_F32)
        asc_copy_l0c2gm((__gm__ float *)c + at, from, p->columns, p->rows, stride, high, 3, NoQuant,
                        0, false, true);
    else if (type == ASC_ANY_BF16)
        asc_copy_l0c2gm((__gm__ bfloat16_t *)c + at, from, p->columns, p->rows, stride, high, 3,
                        F322BF16, 0, false, true);
    else
        asc_copy_l0c2gm((__gm__ half *)c + at, from, p->columns, p->rows, stride, high, 3, F322F16,
                        0, false, true);
}

static inline __aicore__ void ASC_NAME(gemm_body)(ASC_PARAMS(GEMM))
{
    gemm_cut g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.tile_m = tile_m;
    g.tile_n = tile_n;
    g.tiles_m = (m + tile_m - 1) / tile_m;
    g.tiles_n = (n + tile_n - 1) / tile_n;
    g.share = k_share;
    g.splits = splits;
    g.packet = packet;
    g.band = band;
    g.units = g.tiles_m * g.tiles_n * splits * products;
    g.biased = 0;
    const int64_t bytes = packet * (int64_t)sizeof(ASC_T);
    const gemm_side left = gemm_side_of(a_stride, a_turned, tile_m, bytes, 0);
    /* b's rows run along n where it is stored as it is multiplied */
    const gemm_side right =
        gemm_side_of(b_stride, !b_turned, tile_n, bytes, (uint64_t)(GEMM_PACKETS * left.room));
    gemm_place here = gemm_place_of(&g, asc_get_block_idx(), 0), ahead = here;
    int l0 = 0;
    gemm_begin(add);
    for (int64_t packets = 0; here.unit < g.units; packets++) {
        /* the first packets, then each next one ahead of the products of an earlier one */
        for (int i = packets == 0 ? GEMM_PACKETS : 1; i > 0 && ahead.unit < g.units; i--) {
            const int64_t end = asc_min_of(ahead.k + g.packet, ahead.end);
            ASC_RING_FLAG(asc_sync_wait, PIPE_MTE1, PIPE_MTE2, ahead.set);
            __gm__ ASC_T *a_here = a + gemm_matrix(&ahead, inner, a_inner, a_outer);
            __gm__ ASC_T *b_here = b + gemm_matrix(&ahead, inner, b_inner, b_outer);
            ASC_NAME(gemm_bring)(&left, a_here, ahead.set, ahead.row, ahead.rows, ahead.k, end);
            ASC_NAME(gemm_bring)
            (&right, b_here, ahead.set, ahead.column, ahead.columns, ahead.k, end);
            ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, ahead.set);
            gemm_go_on(&g, &ahead);
        }
        l0 = ASC_NAME(gemm_multiply)(&g, &left, &right, &here, l0);
        if (here.k + g.packet >= here.end)
            ASC_NAME(gemm_copy_out)
        (&here, c,
         gemm_matrix(&here, inner, c_inner, c_outer) + here.split * c_split + here.row * c_stride +
             here.column,
         c_stride, c_type);
        gemm_go_on(&g, &here);
    }
    gemm_end();
}
