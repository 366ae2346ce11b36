/* grouped_gemm.asc.h - the kernel of one type; see asc_each_type.h. */
#include "grouped_bring.asc.h"

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
    const int64_t step = GEMM_STEP_BYTES / (int64_t)sizeof(ASC_T);
    grouped_cut g = grouped_rows_of(rows, n, k, tile_m, tile_n, packet, band, groups, step, offset);
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
