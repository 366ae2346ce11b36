/* cross_entropy_body.asc.h - a block's rows of one type; see asc_each_type.h. */
#include "cross_entropy_close.asc.h"

/* A piece as f32, before softcap: in its buffer, or in e. */
static inline __aicore__ __ubuf__ float *ASC_NAME(ce_widen)(const ce_job *job,
                                                            __ubuf__ ASC_T *piece, uint32_t n)
{
#if ASC_16BIT
    __ubuf__ float *x = job->e;
    ASC_WIDEN(x, piece, n);
#else
    __ubuf__ float *x = piece;
    (void)job, (void)n;
#endif
    ASC_THEN(); /* what came beside it is there as well */
    return x;
}

/* The same after it. */
static inline __aicore__ __ubuf__ float *ASC_NAME(ce_open)(const ce_job *job, __ubuf__ ASC_T *piece,
                                                           int slope, uint32_t n)
{
    return ce_capped(job, ASC_NAME(ce_widen)(job, piece, n), slope, n);
}

/* The target's logit: first to f32, then into its block. No ASC_THEN() is in them: other
 * work may go beside. */
static inline __aicore__ void ASC_NAME(ce_widen_hit)(const ce_job *job, __ubuf__ ASC_T *element)
{
#if ASC_16BIT
    ASC_WIDEN(ce_at(job, CE_PICK), element, 16);
#else
    (void)job, (void)element;
#endif
}

static inline __aicore__ void ASC_NAME(ce_hit)(const ce_job *job, __ubuf__ ASC_T *element)
{
#if ASC_16BIT
    (void)element;
    ce_take_hit(job, ce_at(job, CE_PICK));
#else
    ce_take_hit(job, element);
#endif
}

/* The first pass over a row; returns the first largest class. *known: a lse that can be trusted
 * makes it unnecessary. */
static inline __aicore__ int64_t ASC_NAME(ce_read_row)(const ce_job *job, asc_ring *ring,
                                                       const ce_row *row, int64_t w_at,
                                                       __ubuf__ float *maxima,
                                                       __ubuf__ float *pairs, int *known)
{
    const int wanted = (job->flags & CE_ARGMAX) != 0, apart = wanted && job->softcap > 0.0f;
    const int beside = wanted && !apart; /* the maximum of the sums is that of the logits */
    ce_best best;
    best.value = ASC_LOWEST;
    best.at = -1;
    *known = 0;
    for (int64_t p = 0; p < ring->pieces; p++) {
        const int64_t begin = p * ring->piece;
        const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
        const int slot = asc_ring_read(ring);
        __ubuf__ ASC_T *element = ASC_UB(ASC_T, ring->pick_place, slot);
        if (p == 0 && (job->flags & CE_TRIED) && row->target != job->ignore_index) {
            ASC_NAME(ce_widen_hit)(job, element);
            ASC_THEN();
            ASC_NAME(ce_hit)(job, element);
            ASC_THEN();
            *known = ce_trusts_lse(job, row);
        }
        if (row->target != job->ignore_index && !*known) {
            ce_begin_piece(job, p == 0);
            if (p == 0)
                ASC_NAME(ce_widen_hit)(job, element);
            __ubuf__ float *x = ASC_NAME(ce_widen)(job, ASC_UB(ASC_T, ring->place[0], slot), n);
            if (apart)
                ce_find_best(&best, x, maxima, pairs, begin, n);
            x = ce_capped(job, x, job->whole, n);
            if (p == 0)
                ASC_NAME(ce_hit)(job, element);
            ce_raise_max(job, x, n);
            if (beside)
                ce_ask_best(job, pairs);
            if (job->smoothing != 0.0f)
                ce_add_weighted(job, x, ring->from[1] ? ASC_UB(float, w_at, slot) : 0, n);
            if (job->whole) {
                /* unreached: 0, for the only piece is raised; S waits for V in it */
                if (beside && ce_is_raised(&best))
                    ce_find_best(&best, x, maxima, pairs, begin, n);
                ce_add_whole(job, x, row->target, n);
            } else {
                ce_add_piece(job, x, row->target - begin, n);
                if (beside && ce_is_raised(&best)) /* x may be gone */
                    ce_find_best(&best,
                                 ASC_NAME(ce_widen)(job, ASC_UB(ASC_T, ring->place[0], slot), n),
                                 maxima, pairs, begin, n);
            }
        }
        asc_ring_has_read(ring);
    }
    return best.at < 0 && row->target != job->ignore_index ? 0
                                                           : best.at; /* 0: a row of NaN alone */
}

/* The second pass, or the only one with a saved lse. */
static inline __aicore__ void ASC_NAME(ce_write_row)(const ce_job *job, asc_ring *ring,
                                                     const ce_row *row, int64_t w_at,
                                                     __gm__ void *dlogits, int64_t out)
{
    const int64_t size = out == CE_OUT_SAME ? (int64_t)sizeof(ASC_T) : 2;
    const int in_piece = !ASC_16BIT && out == CE_OUT_SAME; /* no conversion: f32 there */
    const int ignored = row->target == job->ignore_index, capped = job->softcap > 0.0f;
    const int first = (job->flags & CE_SAVED) != 0; /* the only pass */
    for (int64_t p = 0; p < ring->pieces; p++) {
        const uint32_t n = (uint32_t)asc_ring_columns(ring, p);
        const int slot = first ? asc_ring_read(ring) : asc_ring_reread(ring);
        __ubuf__ ASC_T *piece = ASC_UB(ASC_T, ring->place[0], slot);
        __ubuf__ float *dx = in_piece ? (__ubuf__ float *)piece : job->e;
        if (ignored) {
            asc_duplicate(dx, 0.0f, n);
            ASC_THEN();
        } else {
            if (first && p == 0) {
                __ubuf__ ASC_T *element = ASC_UB(ASC_T, ring->pick_place, slot);
                ASC_NAME(ce_widen_hit)(job, element);
                ASC_THEN();
                ASC_NAME(ce_hit)(job, element);
                ce_shares_saved(job, row);
                ce_factors(job, row);
            }
            __ubuf__ float *x = job->whole ? job->e : ASC_NAME(ce_open)(job, piece, 1, n);
            ce_gradient(job, dx, capped ? job->e : dx, x,
                        ring->from[1] ? ASC_UB(float, w_at, slot) : 0, capped ? job->s : job->t,
                        capped ? job->t : 0, row->target - p * ring->piece, n);
        }
        ASC_NAME(ce_close)(piece, dx, out, n);
        asc_ring_write(ring, dlogits, p, size, ring->place[0]);
    }
}

/* The first pass of row i of a batch: its sums and, where it writes, what its gradient
 * needs. Returns the class of its largest logit. */
static inline __aicore__ int64_t ASC_NAME(ce_sum_row)(ce_job *job, asc_ring *ring, const ce_row *r,
                                                      int64_t i, int whole,
                                                      ASC_PARAMS(CROSS_ENTROPY))
{
    int known;
    job->whole = whole;
    const int64_t best = ASC_NAME(ce_read_row)(job, ring, r, class_weight_at, ASC_SCRATCH(maxima),
                                               ASC_SCRATCH(pairs), &known);
    if (known)
        job->whole = 0;
    if (r->target == ignore_index)
        return best;
    if (!known)
        ce_join(job, r, i);
    if ((flags & CE_ARGMAX) && best == r->target)
        ce_set_lane_to(ce_at(job, CE_ROWS_RIGHT), i, 1.0f);
    if (writes && !known)
        ce_shares(job, r);
    if (writes)
        ce_factors(job, r);
    return best;
}

/* The rows of this block, by its number. */
static inline __aicore__ void ASC_NAME(cross_entropy_body)(int64_t block, ASC_PARAMS(CROSS_ENTROPY))
{
    const int64_t first = block * share, size = out == CE_OUT_SAME ? sizeof(ASC_T) : 2;
    const int64_t end = asc_min_of(first + share, rows);
    const int saved = (flags & CE_SAVED) != 0, tried = (flags & CE_TRIED) != 0;
    ce_job job = ce_job_of(columns, CE_BATCH, ASC_NAMES(CE_GIVEN));
    ce_outputs results = {0};
    asc_ring ring = asc_ring_of(logits, logits_stride, writes ? logits_at : logits_read_at,
                                sizeof(ASC_T), rows, columns, piece, reads, writes);
    const asc_groups to = asc_groups_of(dlogits_rows, dlogits_group, dlogits_stride);
    asc_ring_groups(&ring, logits_rows, logits_group);
    asc_ring_begin();
    asc_dcci_entire_all(); /* the scalar unit reads target, weights, dloss, lse */
    job.roundings = asc_f32(roundings);
    job.lanes = ASC_UB(float, lanes_at, 0);
    job.e = ASC_UB(float, e_at, 0);
    job.t = ASC_UB(float, t_at, 0);
    job.s = ASC_UB(float, s_at, 0);
    results.lse = tried ? 0 : lse;
    results.loss = loss;
    results.z_loss = z_loss;
    results.accuracy = accuracy;
    results.predicted = predicted;
    results.predictions = ASC_UB(int64_t, predictions_at, 0);
    if (class_weight && job.smoothing != 0.0f)
        asc_ring_add(&ring, class_weight, 0, class_weight_at, sizeof(float));
    ring.pick = target;
    ring.pick_place = pick_at;
    const int whole = !saved && ring.pieces == 1;
    asc_ring_rows(&ring, first, 1, end - first);
    if (!ce_read_counts(&job, counts, ASC_UB(float, counts_at, 0), count_blocks)) {
        asc_modes_clear();
        return;
    }
    asc_duplicate(ce_at(&job, CE_VALUE), 0.0f, 8);
    ce_begin_batch(&job);
    for (int64_t row = first; row < end; row++) {
        const int64_t i = (row - first) % CE_BATCH;
        const ce_row r = ce_row_of(&job, row, target, class_weight, dloss, lse);
        if (!saved) {
            const int64_t best =
                ASC_NAME(ce_sum_row)(&job, &ring, &r, i, whole, ASC_NAMES(CROSS_ENTROPY));
            if (predicted)
                results.predictions[i] = r.target == ignore_index ? -1 : best;
            asc_ring_rewind(&ring);
        }
        if (writes)
            ASC_NAME(ce_write_row)
        (&job, &ring, &r, class_weight_at, (__gm__ char *)dlogits + asc_row_at(to, row) * size,
         out);
        if (!saved && !tried && (i == CE_BATCH - 1 || row == end - 1)) {
            ce_end_batch(&job, &results, row - i, i + 1);
            ce_begin_batch(&job);
        }
    }
    asc_ring_end(&ring);
}
