/* grouped_matrices.asc.h - products over the rows of a group, of one type; see asc_each_type.h. */

/* A packet of an operand whose rows are terms: `count` of their elements from `at` on. Those that
 * lie here and there come one by one. */
static inline __aicore__ void ASC_NAME(grouped_terms_bring)(const gemm_side *s, __gm__ ASC_T *x,
                                                            __gm__ int64_t *gather, int64_t top_k,
                                                            const grouped_terms *p, int64_t at,
                                                            int64_t count, int64_t end)
{
    if (!gather) {
        ASC_NAME(gemm_bring)(s, x + p->begin * s->stride, p->at.set, at, count, p->at.k, end);
        return;
    }
    __cbuf__ ASC_T *to =
        (__cbuf__ ASC_T *)(asc_get_phy_buf_addr(0) + s->l1 + (uint64_t)(p->at.set * s->room));
    const int64_t high = asc_round_up(count, 16);
    for (int64_t k = p->at.k; k < end; k += GEMM_TURN, to += GEMM_TURN * high) {
        const int64_t rows = asc_min_of(GEMM_TURN, end - k);
        for (int64_t r = 0; r < rows; r++)
            asc_copy_gm2l1_nd2nz(to + r * ASC_BLOCK,
                                 x + gather[p->begin + k + r] / top_k * s->stride + at, 1, 1, count,
                                 0, 1, asc_round_up(rows, 16), 1, 0);
    }
}

ASC_CUBE_KERNEL ASC_NAME(grouped_matrices)(ASC_PARAMS(GROUPED_MATRICES))
{
    grouped_cut g;
    g.of.m = m;
    g.of.n = n;
    g.of.k = g.of.share = 0; /* a group's own */
    g.of.tile_m = tile_m;
    g.of.tile_n = tile_n;
    g.of.tiles_m = (m + tile_m - 1) / tile_m;
    g.of.tiles_n = (n + tile_n - 1) / tile_n;
    g.of.splits = 1;
    g.of.packet = packet;
    g.of.band = band;
    g.of.units = g.of.tiles_m * g.of.tiles_n * groups;
    g.of.biased = 0;
    g.groups = groups;
    g.rows = 0;
    g.step = GEMM_STEP;
    g.offset = offset;
    const int64_t bytes = packet * (int64_t)sizeof(ASC_T);
    const gemm_side of_left = gemm_side_of(left_stride, 1, tile_m, bytes, 0);
    const gemm_side of_right =
        gemm_side_of(right_stride, 1, tile_n, bytes, (uint64_t)(GEMM_PACKETS * of_left.room));
    int l0 = 0;
    asc_dcci_entire_all(); /* the scalar unit reads boundaries */
    gemm_begin(add);
    grouped_terms here = grouped_terms_first(&g, add), ahead = here;
    for (int64_t packets = 0; !here.none; packets++) {
        for (int i = packets == 0 ? GEMM_PACKETS : 1; i > 0 && !ahead.none; i--) {
            const gemm_place *at = &ahead.at;
            const int64_t end = asc_min_of(at->k + packet, at->end);
            ASC_RING_FLAG(asc_sync_wait, PIPE_MTE1, PIPE_MTE2, at->set);
            if (ahead.empty) {
                ASC_NAME(grouped_clear)(&of_left, at->set, at->rows, GEMM_STEP);
                ASC_NAME(grouped_clear)(&of_right, at->set, at->columns, GEMM_STEP);
            } else {
                ASC_NAME(grouped_terms_bring)
                (&of_left, left, left_gather, top_k, &ahead, at->row, at->rows, end);
                ASC_NAME(grouped_terms_bring)
                (&of_right, right, right_gather, top_k, &ahead, at->column, at->columns, end);
            }
            ASC_RING_FLAG(asc_sync_notify, PIPE_MTE2, PIPE_MTE1, at->set);
            grouped_terms_go_on(&g, &ahead, add);
        }
        l0 = ASC_NAME(gemm_multiply)(&g.of, &of_left, &of_right, &here.at, l0);
        if (here.at.k + packet >= here.at.end)
            ASC_NAME(gemm_copy_out)
        (&here.at, c, here.at.product * c_step + here.at.row * c_stride + here.at.column, c_stride,
         c_type);
        grouped_terms_go_on(&g, &here, add);
    }
    gemm_end();
}
