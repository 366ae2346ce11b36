/* softmax_logp.asc.h - the kernels of one type; see asc_each_type.h. */
#include "cross_entropy_close.asc.h"

/* A piece as f32, before softcap: in its buffer, or in e. */
static inline __aicore__ __ubuf__ float *ASC_NAME(logp_widen)(const logp_job *job,
                                                              __ubuf__ ASC_T *piece, uint32_t n)
{
#if ASC_16BIT
    ASC_WIDEN(job->e, piece, n);
    ASC_THEN();
    return job->e;
#else
    (void)job, (void)n;
    return piece;
#endif
}

/* X of the named classes, which came with a row's first piece. */
static inline __aicore__ void ASC_NAME(logp_read_picks)(const logp_job *job, __ubuf__ ASC_T *picks)
{
#if ASC_16BIT
    ASC_WIDEN(job->wide, picks, 16 * LOGP_NAMES);
    ASC_THEN();
    logp_take_picks(job, job->wide, 1);
#else
    logp_take_picks(job, picks, 0);
#endif
    logp_cap_picks(job);
}

static inline __aicore__ asc_ring ASC_NAME(logp_ring)(const logp_job *job, int64_t block,
                                                      int64_t reads, int64_t writes,
                                                      ASC_PARAMS(LOGP_GIVEN), int64_t logits_at,
                                                      int64_t picks_at)
{
    const int64_t first = block * share, end = asc_min_of(first + share, rows);
    asc_ring ring = asc_ring_of(logits, logits_stride, logits_at, sizeof(ASC_T), rows, columns,
                                piece, reads, writes);
    ring.pick = target;
    ring.pick_place = picks_at;
    ring.picks = ids;
    ring.npicks = logp_has_many(job) ? 0 : nids;
    ring.start = start;
    ring.sliced = slice;
    ring.left_out = job->ignore_index;
    asc_ring_rows(&ring, first, 1, end - first);
    (void)planned_columns, (void)one_row, (void)softcap, (void)temperature, (void)ignore_index;
    return ring;
}

/* X of some of many named classes, from memory. */
static inline __aicore__ void ASC_NAME(logp_load_names)(const logp_job *job, const asc_ring *ring,
                                                        int64_t row, int64_t target, uint64_t more)
{
    asc_sync();
    for (int64_t k = 0; k < job->count; k++) {
        const int64_t at = logp_place(job, logp_name(job, target, k)), size = sizeof(ASC_T);
        if (at >= 0)
            asc_copy_rows_in(more + (uint64_t)(k * 32), asc_ring_row(ring, 0, row) + at * size, 1,
                             size, size, 32);
    }
    asc_sync();
    ASC_NAME(logp_read_picks)(job, (__ubuf__ ASC_T *)more);
}

/* What both kernels begin with. V clears what copies in may leave out. */
static inline __aicore__ logp_job ASC_NAME(logp_begin)(ASC_PARAMS(LOGP_GIVEN), int64_t picks_at,
                                                       int64_t more_at, int64_t wide_at,
                                                       int64_t e_at, int64_t t_at, int64_t s_at,
                                                       int64_t lanes_at)
{
    logp_job job = {0};
    job.columns = columns;
    job.ignore_index = ignore_index;
    job.start = start;
    job.ids = ids;
    job.nids = nids;
    logp_first_names(&job);
    job.slice = (int)slice;
    job.softcap = asc_f32(softcap);
    job.scale = 1.0f / asc_f32(temperature);
    job.lanes = ASC_UB(float, lanes_at, 0);
    job.e = ASC_UB(float, e_at, 0);
    job.t = ASC_UB(float, t_at, 0);
    job.s = ASC_UB(float, s_at, 0);
    job.wide = ASC_UB(float, wide_at, 0);
    asc_ring_begin();
    asc_clear_copies(picks_at, ASC_RING, 32 * LOGP_NAMES);
    asc_clear_copies(more_at, 1, 32 * LOGP_NAMES);
    asc_duplicate(job.lanes, 0.0f, (uint32_t)(LOGP_LANES * ASC_LANES));
    asc_dcci_entire_all(); /* the scalar unit reads targets, ids and upstream gradients */
    asc_sync();
    (void)logits, (void)logits_stride, (void)target, (void)ids, (void)rows, (void)planned_columns;
    (void)one_row, (void)piece, (void)share;
    return job;
}

/* The sums of a row, of which the first piece brings X; returns the first largest class if `best`
 * is asked for. */
static inline __aicore__ int64_t ASC_NAME(logp_read_row)(const logp_job *job, asc_ring *ring,
                                                         int ignored, int wants_best,
                                                         __ubuf__ float *maxima,
                                                         __ubuf__ float *pairs)
{
    ce_best best;
    best.value = ASC_LOWEST;
    best.at = -1;
    if (!ignored)
        logp_begin_row(job);
    for (int64_t p = 0; p < ring->pieces; p++) {
        const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
        const int slot = asc_ring_read(ring);
        if (!ignored) {
            if (p == 0 && !logp_has_many(job))
                ASC_NAME(logp_read_picks)(job, ASC_UB(ASC_T, ring->pick_place, slot));
            __ubuf__ float *x = ASC_NAME(logp_widen)(job, ASC_UB(ASC_T, ring->place[0], slot), n);
            if (job->whole)
                ASC_FOLD(asc_add, logp_at(job, LOGP_WHOLE), x, 1, n, 0);
            if (wants_best)
                ce_find_best(&best, x, maxima, pairs, p * ring->piece, n);
            ASC_THEN();
            logp_add_piece(job, logp_capped(job, x, 0, n), n);
        }
        asc_ring_has_read(ring);
    }
    return ignored ? -1 : best.at < 0 ? 0 : best.at; /* 0: a row of NaN alone */
}

/* logp of row i of the batch, and the log-probabilities of ids: in `to`, or, of many, in memory. */
static inline __aicore__ void ASC_NAME(logp_results_of_names)(logp_job *job, const asc_ring *ring,
                                                              int64_t row, int64_t target,
                                                              int64_t i, __gm__ float *selected,
                                                              __ubuf__ float *to, uint64_t more)
{
    for (int has = logp_first_names(job); has; has = logp_next_names(job)) {
        const int64_t left = job->nids - job->begin;
        if (logp_has_many(job))
            ASC_NAME(logp_load_names)(job, ring, row, target, more);
        logp_named(job, target, to);
        if (left < job->count)
            logp_put(job, LOGP_ROWS, i, logp_at(job, LOGP_AT) + left * 8);
        if (!logp_has_many(job) || left == 0)
            continue;
        asc_sync();
        asc_copy_ub2gm_align(selected + row * job->nids + job->begin, to,
                             (uint32_t)(asc_min_of(left, job->count) * 4));
    }
}

ASC_KERNEL ASC_NAME(softmax_logp_forward)(ASC_PARAMS(SOFTMAX_LOGP_FORWARD))
{
    logp_job job = ASC_NAME(logp_begin)(ASC_NAMES(LOGP_GIVEN), picks_at, more_at, wide_at, e_at,
                                        t_at, s_at, lanes_at);
    asc_ring ring = ASC_NAME(logp_ring)(&job, asc_get_block_idx(), 1, 0, ASC_NAMES(LOGP_GIVEN),
                                        logits_at, picks_at);
    const int64_t first = ring.first, end = ring.first + ring.rows;
    __ubuf__ int64_t *predictions = ASC_UB(int64_t, predictions_at, 0);
    int slot = 0;
    job.gaps = entropy != 0;
    job.squares = log_sum_sq_probs != 0;
    job.whole = mean_logits != 0;
    ASC_SLOTS(asc_sync_notify, PIPE_MTE3, PIPE_V); /* both copies of out have left */
    for (int64_t row = first; row < end; row++, slot ^= 1) {
        const int64_t i = (row - first) % CE_BATCH, y = target[row];
        const int ignored = y == ignore_index;
        __ubuf__ float *to = ASC_UB(float, out_at, slot);
        const int64_t best =
            ASC_NAME(logp_read_row)(&job, &ring, ignored, predicted != 0,
                                    ASC_UB(float, maxima_at, 0), ASC_UB(float, pairs_at, 0));
        if (predicted)
            predictions[i] = best;
        ASC_MAY_WRITE(slot);
        if (ignored) {
            asc_duplicate(to, 0.0f, LOGP_NAMES);
            for (int lanes = LOGP_ROWS; lanes < LOGP_LANES; lanes++)
                ce_set_lane_to(logp_at(&job, lanes), i, 0.0f);
            ASC_THEN();
        } else {
            logp_join(&job);
            ASC_NAME(logp_results_of_names)
            (&job, &ring, row, y, i, selected, to, asc_place(more_at, 0));
            logp_results(&job, i);
        }
        ASC_HAS_WRITTEN(slot);
        if (selected && (ignored || !logp_has_many(&job)))
            for (int64_t k = 0; k < nids; k += LOGP_NAMES)
                asc_copy_ub2gm_align(selected + row * nids + k, to,
                                     (uint32_t)(asc_min_of(LOGP_NAMES, nids - k) * 4));
        ASC_HAS_LEFT(slot);
        if (i < CE_BATCH - 1 && row < end - 1)
            continue;
        const int64_t from = row - i;
        asc_sync();
        logp_leave(&job, LOGP_ROWS, logp, from, i + 1);
        logp_leave(&job, LOGP_ROWS_LSE, lse, from, i + 1);
        logp_leave(&job, LOGP_ROWS_ENTROPY, entropy, from, i + 1);
        logp_leave(&job, LOGP_ROWS_MEAN, mean_logits, from, i + 1);
        logp_leave(&job, LOGP_ROWS_SQUARES, log_sum_sq_probs, from, i + 1);
        if (predicted)
            asc_copy_ub2gm_align(predicted + from, predictions, (uint32_t)((i + 1) * 8));
        asc_sync();
    }
    ASC_SLOTS(asc_sync_wait, PIPE_MTE3, PIPE_V);
    asc_ring_end(&ring);
}

/* The named classes of piece p where they are many: what is not of this piece may be written
 * already, and is not set. */
static inline __aicore__ void ASC_NAME(logp_set_many)(logp_job *job, const asc_ring *ring,
                                                      __ubuf__ float *dx, int64_t row,
                                                      int64_t target, __gm__ float *dselected,
                                                      const logp_upstream *u, int64_t p, uint32_t n,
                                                      uint64_t more)
{
    for (int has = logp_first_names(job); has; has = logp_next_names(job)) {
        ASC_NAME(logp_load_names)(job, ring, row, target, more);
        logp_share(job, target, dselected, u->target);
        logp_at_names(job, u);
        logp_set_names(job, dx, target, p * ring->piece, n);
    }
}

ASC_KERNEL ASC_NAME(softmax_logp_backward)(ASC_PARAMS(SOFTMAX_LOGP_BACKWARD))
{
    logp_job job = ASC_NAME(logp_begin)(ASC_NAMES(LOGP_GIVEN), picks_at, more_at, wide_at, e_at,
                                        t_at, s_at, lanes_at);
    asc_ring ring = ASC_NAME(logp_ring)(&job, asc_get_block_idx(), reads, 1, ASC_NAMES(LOGP_GIVEN),
                                        logits_at, picks_at);
    const int64_t first = ring.first, end = ring.first + ring.rows;
    const int64_t size = out == CE_OUT_SAME ? (int64_t)sizeof(ASC_T) : 2;
    const int in_piece = !ASC_16BIT && out == CE_OUT_SAME; /* no conversion: f32 there */
    job.gaps = dentropy != 0;
    for (int64_t row = first; row < end; row++) {
        const int64_t y = target[row];
        const int ignored = y == ignore_index;
        __gm__ float *of_ids = dselected ? dselected + row * nids : dselected;
        const logp_upstream u = logp_upstream_of(&job, dlogp[row], dentropy ? dentropy[row] : 0.0f,
                                                 of_ids, asc_f32(grad_scale));
        if (!slice) {
            ASC_NAME(logp_read_row)(&job, &ring, ignored, 0, 0, 0);
            asc_ring_rewind(&ring);
        }
        for (int64_t p = 0; p < ring.pieces; p++) {
            const uint32_t n = (uint32_t)asc_ring_columns(&ring, p);
            const int slot = slice ? asc_ring_read(&ring) : asc_ring_reread(&ring);
            __ubuf__ ASC_T *at = ASC_UB(ASC_T, ring.place[0], slot);
            __ubuf__ float *dx = in_piece ? (__ubuf__ float *)at : job.e;
            if (p == 0 && !ignored) {
                if (slice) {
                    ASC_NAME(logp_read_picks)(&job, ASC_UB(ASC_T, ring.pick_place, slot));
                    logp_take_lse(&job, lse[row], entropy ? entropy[row] : 0.0f);
                } else {
                    logp_join(&job);
                }
                logp_factors(&job, &u);
                if (!logp_has_many(&job)) {
                    logp_share(&job, y, of_ids, u.target);
                    logp_at_names(&job, &u);
                }
            }
            if (ignored) {
                asc_duplicate(dx, 0.0f, n);
                ASC_THEN();
            } else {
                __ubuf__ float *x = ASC_NAME(logp_widen)(&job, at, n);
                logp_gradient(&job, dx, logp_capped(&job, x, 1, n), u.entropy != 0.0f, n);
                if (!logp_has_many(&job))
                    logp_set_names(&job, dx, y, p * ring.piece, n);
                else
                    ASC_NAME(logp_set_many)
                (&job, &ring, dx, row, y, of_ids, &u, p, n, asc_place(more_at, 0));
            }
            ASC_NAME(ce_close)(at, dx, out, n);
            asc_ring_write(&ring, (__gm__ char *)dlogits + row * dlogits_stride * size, p, size,
                           ring.place[0]);
        }
    }
    asc_ring_end(&ring);
}
