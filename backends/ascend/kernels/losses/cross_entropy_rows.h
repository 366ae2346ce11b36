/* cross_entropy_rows.h - arithmetic of cross_entropy on a tile of several short rows
 * (cross_entropy_tile.h). f32. */
#ifndef CROSS_ENTROPY_ROWS_H
#define CROSS_ENTROPY_ROWS_H

#include "cross_entropy_gradient.h"
#include "cross_entropy_results.h"
#include "cross_entropy_rows_best.h"

/* ---- targets ---- */

/* Before S reads targets. */
static inline __aicore__ void ce_wait_for_targets(void)
{
    asc_sync_wait(PIPE_V, PIPE_S, EVENT_ID1);
}

/* The maximum of each row; beside it the steps of ce_take_hits() but the first and the last. */
static inline __aicore__ void ce_max_and_hits(const ce_job *job, const ce_tile *tile,
                                              __ubuf__ float *x)
{
    ce_take_hits(job, tile, x, 1);
    CE_FOLD_ROWS(asc_max, tile, x, ASC_LOWEST);
    ce_take_hits(job, tile, x, 2);
    asc_datablock_reduce_max(tile->eighth, tile->fold, (uint32_t)(tile->rows * ASC_LANES));
    ASC_THEN();
    ce_take_hits(job, tile, x, 3);
    asc_datablock_reduce_max(ce_at(job, CE_ROWS_TOP), tile->eighth, (uint32_t)(tile->rows * 8));
    ASC_THEN();
    ce_take_hits(job, tile, x, 4);
}

/* Four targets from the r-th on, which r is a multiple of; then each in turn. */
static inline __aicore__ int64_t ce_target(const ce_tile *tile, int64_t r, uint64_t *four)
{
    *four = r % 4 ? *four >> 16 : ((__ubuf__ uint64_t *)tile->y)[r / 4];
    return (int16_t)*four;
}

/* As it is among them. */
static inline __aicore__ int64_t ce_ignored(const ce_job *job)
{
    const int64_t i = job->ignore_index;
    return i < INT16_MIN ? INT16_MIN : i > INT16_MAX ? INT16_MAX : i;
}

/* Exponentials: that of the target becomes 0, and all that tells of a row to be ignored. */
static inline __aicore__ void ce_clear_targets(const ce_job *job, const ce_tile *tile,
                                               __ubuf__ float *e)
{
    const int64_t ignored = ce_ignored(job);
    uint64_t four = 0;
    for (int64_t r = 0; r < tile->rows; r++, e += tile->pitch) {
        const int64_t y = ce_target(tile, r, &four);
        if (y == ignored) {
            asc_duplicate(e, 0.0f, (uint32_t)tile->pitch);
            ce_set_lane_to(ce_at(job, CE_ROWS_TOP), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_HIT), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_WX), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_WEIGHT), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_RIGHT), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_BEST), r, asc_f32(0xffffffff)); /* -1 */
        } else {
            asc_set_vector_mask(0, (uint64_t)1 << y % ASC_LANES);
            asc_duplicate(e + y / ASC_LANES * ASC_LANES, 0.0f, 1, 1, 8);
        }
    }
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    ASC_THEN();
}

/* Gradients: that of the target, and zeros of a row to be ignored. */
static inline __aicore__ void ce_set_targets(const ce_job *job, const ce_tile *tile,
                                             __ubuf__ float *dx)
{
    const int64_t ignored = ce_ignored(job);
    uint64_t four = 0;
    for (int64_t r = 0; r < tile->rows; r++, dx += tile->pitch) {
        const int64_t y = ce_target(tile, r, &four);
        if (y == ignored) {
            asc_duplicate(dx, 0.0f, (uint32_t)tile->pitch);
        } else {
            asc_set_vector_mask(0, (uint64_t)1 << y % ASC_LANES);
            asc_copy((__ubuf__ uint32_t *)(dx + y / ASC_LANES * ASC_LANES),
                     (__ubuf__ uint32_t *)(tile->at_target + r * 8), 1, 1, 0, 8, 8);
        }
    }
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    ASC_THEN();
}

/* ---- forward ---- */

/* The sum of w x: see ce_add_weighted(). */
static inline __aicore__ void ce_sum_weighted(const ce_job *job, const ce_tile *tile,
                                              __ubuf__ float *x)
{
    __ubuf__ float *t = job->softcap > 0.0f ? tile->s : tile->t;
    if (tile->limit) {
        CE_WITH_CLASS(asc_max, t, x, tile->limit, tile);
        ASC_THEN();
        CE_WITH_CLASS(asc_mul, t, t, tile->w, tile);
        ASC_THEN();
        x = t;
    }
    ce_sum_rows(tile, ce_at(job, CE_ROWS_WX), x);
}

/* Once, before the first copy in: 0 for a class of weight 0, else -inf. */
static inline __aicore__ void ce_set_limits(const ce_tile *tile)
{
    const uint32_t n = (uint32_t)tile->columns;
    asc_abs(tile->limit, tile->w, n);
    ASC_THEN();
    asc_mul_scalar(tile->limit, tile->limit, ASC_LOWEST, n);
    ASC_THEN();
    asc_mul_scalar(tile->limit, tile->limit, -ASC_LOWEST, n);
}

/* BEST, and TOP after softcap, of logits before it. */
static inline __aicore__ void ce_best_of_rows(const ce_job *job, const ce_tile *tile,
                                              __ubuf__ float *x)
{
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP);
    ce_best_and_hits(job, tile, x);
    if (job->softcap > 0.0f) {
        ASC_THEN();
        ce_cap(top, tile->fold, tile->eighth, top, job->softcap, 0, (uint32_t)tile->rows);
    }
}

static inline __aicore__ void ce_cap_rows(const ce_job *job, const ce_tile *tile, __ubuf__ float *x)
{
    if (job->softcap > 0.0f)
        ce_cap(x, tile->t, tile->s, x, job->softcap, tile->slopes,
               (uint32_t)(tile->rows * tile->pitch));
}

/* x, which e may be, to exponentials and all results of the rows. After the first step
 * of ce_take_hits(). */
static inline __aicore__ void ce_rows_forward(const ce_job *job, const ce_tile *tile,
                                              __ubuf__ float *e, __ubuf__ float *x)
{
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP);
    if (job->flags & CE_ARGMAX)
        ce_best_of_rows(job, tile, x);
    ce_cap_rows(job, tile, x);
    if (job->smoothing != 0.0f)
        ce_sum_weighted(job, tile, x);
    if (!(job->flags & CE_ARGMAX))
        ce_max_and_hits(job, tile, x);
    asc_max_scalar(top, top, ASC_LOWEST, (uint32_t)tile->rows);
    ASC_THEN();
    ce_take_hits(job, tile, x, CE_HIT_STEPS - 1);
    asc_spread(tile->block, top, tile->rows);
    ASC_THEN();
    CE_WITH_BLOCK(asc_sub, e, x, tile->block, tile);
    ASC_THEN();
    if (job->scale != 1.0f) {
        asc_mul_scalar(e, e, job->scale, (uint32_t)(tile->rows * tile->pitch));
        ASC_THEN();
    }
    asc_exp(e, e, (uint32_t)(tile->rows * tile->pitch));
    ASC_THEN();
    ce_wait_for_targets();
    ce_clear_targets(job, tile, e);
    ce_sum_rows(tile, ce_at(job, CE_ROWS_OTHERS), e);
    ce_results(job);
}

/* From saved lse: exponentials, P and Q. */
static inline __aicore__ void ce_rows_saved(const ce_job *job, const ce_tile *tile,
                                            __ubuf__ float *e, __ubuf__ float *x)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *lse = ce_at(job, CE_ROWS_LSE);
    ce_cap_rows(job, tile, x);
    asc_spread(tile->block, lse, tile->rows);
    asc_duplicate(ce_at(job, CE_TOTAL), 1.0f, n);
    for (int step = 1; step < CE_HIT_STEPS; step++) {
        ce_take_hits(job, tile, x, step);
        ASC_THEN();
    }
    CE_WITH_BLOCK(asc_sub, e, x, tile->block, tile);
    ASC_THEN();
    asc_exp(e, e, (uint32_t)(tile->rows * tile->pitch));
    ce_expm1(ce_at(job, CE_P), ce_at(job, CE_Q), ce_at(job, CE_OLD), ce_at(job, CE_VALUE),
             ce_at(job, CE_ROWS_HIT), lse, n);
    ce_wait_for_targets();
}

/* ---- the gradient ---- */

/* What a share of a class's bias is in each row. */
static inline __aicore__ float ce_smooth(const ce_job *job)
{
    return job->smoothing / (float)job->columns * job->per_ce;
}

/* Each row's FACTOR and AT_TARGET for a G of 1: see ce_factors(). In between AT_TARGET and BIAS are
 * what P and Q are multiplied with. G, the row's dloss, becomes what all of the row is times.
 * limited: weights take part element by element. ASC_THEN() is left to the caller. */
static inline __aicore__ void ce_rows_shares(const ce_job *job, int limited)
{
    const uint32_t n = (uint32_t)job->batch;
    const float smooth = ce_smooth(job);
    __ubuf__ float *p = ce_at(job, CE_P), *q = ce_at(job, CE_Q), *g = ce_at(job, CE_G);
    __ubuf__ float *rest = ce_at(job, CE_REST), *hit = ce_at(job, CE_HIT_WEIGHT);
    __ubuf__ float *factor = ce_at(job, CE_FACTOR), *target = ce_at(job, CE_AT_TARGET);
    __ubuf__ float *total = ce_at(job, CE_TOTAL), *bias = ce_at(job, CE_BIAS);
    if (job->grad_scale != 1.0f)
        asc_mul_scalar(g, g, job->grad_scale, n);
    if (!(job->flags & CE_SAVED)) {
        asc_div(p, ce_at(job, CE_ROWS_U), total, n);
        asc_div(q, ce_at(job, CE_ROWS_OTHERS), total, n);
    }
    if (job->z == 0.0f) /* whatever lse is */
        asc_duplicate(rest, 0.0f, n);
    else
        asc_mul_scalar(rest, ce_at(job, CE_ROWS_LSE), 2.0f * job->z * job->per_z, n);
    asc_mul_scalar(hit, ce_at(job, CE_ROWS_WEIGHT), (1.0f - job->smoothing) * job->per_ce, n);
    if (limited) { /* the bias of the target is as its weight w: target = W - w, bias = w */
        asc_mul_scalar(target, ce_at(job, CE_ROWS_WEIGHT), -1.0f, n);
        asc_mul_scalar(bias, ce_at(job, CE_ROWS_WEIGHT), smooth, n);
        ASC_THEN();
        asc_add_scalar(target, target, job->class_weights, n);
        ASC_THEN();
        asc_mul_scalar(target, target, smooth, n);
        asc_add(bias, bias, hit, n);
        ASC_THEN();
        asc_add(target, target, rest, n);
    } else {
        ASC_THEN();
        asc_add_scalar(target, rest, smooth * (job->class_weights - 1.0f), n);
        asc_add_scalar(bias, hit, smooth, n);
    }
    asc_add_scalar(factor, hit, smooth * job->class_weights, n);
    if (job->flags & CE_TOKEN)
        asc_mul(g, g, p, n);
    ASC_THEN();
    asc_add(factor, factor, rest, n);
    asc_mul(target, target, p, n);
    asc_mul(q, q, bias, n);
    ASC_THEN();
    asc_div(factor, factor, total, n);
    asc_sub(target, target, q, n);
}

/* FACTOR, AT_TARGET and BIAS. ASC_THEN() is left to the caller, for AT_TARGET alone. */
static inline __aicore__ void ce_rows_factors(const ce_job *job, int limited)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *g = ce_at(job, CE_G), *hit = ce_at(job, CE_HIT_WEIGHT);
    __ubuf__ float *factor = ce_at(job, CE_FACTOR), *target = ce_at(job, CE_AT_TARGET);
    ce_rows_shares(job, limited);
    asc_mul_scalar(ce_at(job, CE_BIAS), g, ce_smooth(job), n);
    if (job->softcap > 0.0f)
        asc_mul(hit, g, ce_at(job, CE_HIT_SLOPE), n);
    ASC_THEN();
    asc_mul(factor, factor, g, n);
    ASC_THEN();
    asc_mul(target, target, job->softcap > 0.0f ? hit : g, n);
}

/* dx, which e may be, from the exponentials. */
static inline __aicore__ void ce_rows_gradient(const ce_job *job, const ce_tile *tile,
                                               __ubuf__ float *dx, __ubuf__ float *e)
{
    ce_rows_factors(job, tile->limit != 0);
    asc_spread(tile->block, ce_at(job, CE_FACTOR), tile->rows);
    asc_spread(tile->bias, ce_at(job, CE_BIAS), tile->rows);
    ASC_THEN();
    asc_spread(tile->at_target, ce_at(job, CE_AT_TARGET), tile->rows); /* for ce_set_targets() */
    CE_WITH_BLOCK(asc_mul, dx, e, tile->block, tile);
    ASC_THEN();
    if (tile->limit) {
        __ubuf__ float *t = job->softcap > 0.0f ? tile->s : tile->t;
        CE_CLASS_WITH_BLOCK(asc_mul, t, tile->w, tile->bias, tile);
        ASC_THEN();
        CE_WITH_TILE(asc_sub, dx, dx, t, tile);
        ASC_THEN();
    } else if (job->smoothing != 0.0f) {
        CE_WITH_BLOCK(asc_sub, dx, dx, tile->bias, tile);
        ASC_THEN();
    }
    if (job->softcap > 0.0f) {
        CE_WITH_TILE(asc_mul, dx, dx, tile->t, tile);
        ASC_THEN();
    }
    ce_set_targets(job, tile, dx);
}

#endif
