/* cross_entropy_rows.h - arithmetic of cross_entropy on a tile of several short rows (cross_entropy_tile.h). f32. */
#ifndef CROSS_ENTROPY_ROWS_H
#define CROSS_ENTROPY_ROWS_H

#include "cross_entropy_gradient.h"
#include "cross_entropy_results.h"
#include "cross_entropy_rows_best.h"

/* ---- targets ---- */

/* HIT and HIT_SLOPE, and WEIGHT from the class weights, if any. A row to be ignored takes what a class beside its target
 * has. */
static inline __aicore__ void ce_take_hits(const ce_job *job, const ce_tile *tile,
                                           __ubuf__ float *x)
{
    const uint32_t n = (uint32_t)tile->rows;
    __ubuf__ int32_t *at = ce_int_at(job, CE_CLASS), *place = ce_int_at(job, CE_PLACE);
    asc_int642int32(at, tile->target, n);
    asc_mul_scalar(place, tile->number, (int32_t)(tile->pitch * 4), n);
    ASC_THEN();
    asc_max_scalar(at, at, 0, n);
    ASC_THEN();
    asc_min_scalar(at, at, (int32_t)tile->columns - 1, n);
    ASC_THEN();
    asc_mul_scalar(at, at, 4, n);
    ASC_THEN();
    asc_add(place, place, at, n);
    if (tile->w)
        asc_gather(ce_at(job, CE_ROWS_WEIGHT), tile->w, (__ubuf__ uint32_t *)at, n);
    else
        asc_duplicate(ce_at(job, CE_ROWS_WEIGHT), 1.0f, n);
    ASC_THEN();
    asc_gather(ce_at(job, CE_ROWS_HIT), x, (__ubuf__ uint32_t *)place, n);
    if (job->softcap > 0.0f)
        asc_gather(ce_at(job, CE_HIT_SLOPE), tile->t, (__ubuf__ uint32_t *)place, n);
    ASC_THEN();
}

/* Exponentials: that of the target becomes 0, and all that tells of a row to be ignored. */
static inline __aicore__ void ce_clear_targets(const ce_job *job, ce_tile *tile,
                                               __ubuf__ float *e)
{
    for (int64_t r = 0; r < tile->rows; r++, e += tile->pitch) {
        const int64_t y = tile->y[r] = tile->target[r];
        if (y == job->ignore_index) {
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
    for (int64_t r = 0; r < tile->rows; r++, dx += tile->pitch) {
        const int64_t y = tile->y[r];
        if (y == job->ignore_index) {
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

/* Once: 0 for a class of weight 0, else -inf. */
static inline __aicore__ void ce_set_limits(const ce_tile *tile)
{
    const uint32_t n = (uint32_t)tile->columns;
    asc_abs(tile->limit, tile->w, n);
    ASC_THEN();
    asc_mul_scalar(tile->limit, tile->limit, ASC_LOWEST, n);
    ASC_THEN();
    asc_mul_scalar(tile->limit, tile->limit, -ASC_LOWEST, n);
    ASC_THEN();
}

static inline __aicore__ void ce_cap_rows(const ce_job *job, const ce_tile *tile,
                                          __ubuf__ float *x)
{
    if (job->softcap > 0.0f)
        ce_cap(x, tile->t, tile->s, x, job->softcap, 1, (uint32_t)(tile->rows * tile->pitch));
}

/* x, which e may be, to exponentials and all results of the rows. */
static inline __aicore__ void ce_rows_forward(const ce_job *job, ce_tile *tile,
                                              __ubuf__ float *e, __ubuf__ float *x)
{
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP);
    ce_cap_rows(job, tile, x);
    ce_take_hits(job, tile, x);
    if (job->smoothing != 0.0f)
        ce_sum_weighted(job, tile, x);
    ce_max_rows(tile, top, x);
    if (job->flags & CE_ARGMAX)
        ce_rows_best(job, tile, top, x);
    asc_spread(tile->block, top, tile->rows);
    ASC_THEN();
    CE_WITH_BLOCK(asc_sub, e, x, tile->block, tile);
    ASC_THEN();
    asc_exp(e, e, (uint32_t)(tile->rows * tile->pitch));
    ASC_THEN();
    ce_clear_targets(job, tile, e);
    ce_sum_rows(tile, ce_at(job, CE_ROWS_OTHERS), e);
    ce_results(job);
    asc_add(ce_at(job, CE_TOTAL), ce_at(job, CE_ROWS_OTHERS), ce_at(job, CE_ROWS_U),
            (uint32_t)job->batch);
    ASC_THEN();
}

/* From saved lse: exponentials, P and Q. */
static inline __aicore__ void ce_rows_saved(const ce_job *job, ce_tile *tile,
                                            __ubuf__ float *e, __ubuf__ float *x)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *lse = ce_at(job, CE_ROWS_LSE);
    for (int64_t r = 0; r < tile->rows; r++)
        tile->y[r] = tile->target[r];
    ce_cap_rows(job, tile, x);
    ce_take_hits(job, tile, x);
    asc_spread(tile->block, lse, tile->rows);
    asc_duplicate(ce_at(job, CE_TOTAL), 1.0f, n);
    ASC_THEN();
    CE_WITH_BLOCK(asc_sub, e, x, tile->block, tile);
    ASC_THEN();
    asc_exp(e, e, (uint32_t)(tile->rows * tile->pitch));
    ce_expm1(ce_at(job, CE_P), ce_at(job, CE_Q), ce_at(job, CE_OLD), ce_at(job, CE_VALUE),
             ce_at(job, CE_ROWS_HIT), lse, n);
}

/* ---- the gradient ---- */

/* Blocks of each row's FACTOR, AT_TARGET and BIAS: see ce_factors(). G is the row's dloss. */
static inline __aicore__ void ce_rows_factors(const ce_job *job, const ce_tile *tile)
{
    const uint32_t n = (uint32_t)job->batch;
    const float smooth = job->smoothing / (float)job->columns * job->per_ce;
    __ubuf__ float *p = ce_at(job, CE_P), *q = ce_at(job, CE_Q), *g = ce_at(job, CE_G);
    __ubuf__ float *rest = ce_at(job, CE_REST), *hit = ce_at(job, CE_HIT_WEIGHT);
    __ubuf__ float *factor = ce_at(job, CE_FACTOR), *target = ce_at(job, CE_AT_TARGET);
    __ubuf__ float *total = ce_at(job, CE_TOTAL), *bias = ce_at(job, CE_BIAS);
    if (!(job->flags & CE_SAVED)) {
        asc_div(p, ce_at(job, CE_ROWS_U), total, n);
        asc_div(q, ce_at(job, CE_ROWS_OTHERS), total, n);
    }
    asc_mul_scalar(rest, ce_at(job, CE_ROWS_LSE), 2.0f * job->z * job->per_z, n);
    asc_mul_scalar(hit, ce_at(job, CE_ROWS_WEIGHT), (1.0f - job->smoothing) * job->per_ce, n);
    ASC_THEN();
    if (job->z == 0.0f) /* whatever lse is */
        asc_duplicate(rest, 0.0f, n);
    ASC_THEN();
    asc_add_scalar(rest, rest, smooth * job->class_weights, n);
    asc_mul(q, q, hit, n);
    ASC_THEN();
    asc_add(factor, rest, hit, n);
    asc_mul(target, rest, p, n);
    if (job->flags & CE_TOKEN)
        asc_mul(g, g, p, n);
    ASC_THEN();
    asc_div(factor, factor, total, n);
    asc_sub(target, target, q, n);
    asc_mul_scalar(bias, g, smooth, n);
    if (tile->limit) /* the bias of the target is as its weight */
        asc_mul_scalar(rest, ce_at(job, CE_ROWS_WEIGHT), smooth, n);
    if (job->softcap > 0.0f)
        asc_mul(hit, g, ce_at(job, CE_HIT_SLOPE), n);
    ASC_THEN();
    if (tile->limit)
        asc_sub(target, target, rest, n);
    else
        asc_add_scalar(target, target, -smooth, n);
    asc_mul(factor, factor, g, n);
    ASC_THEN();
    asc_mul(target, target, job->softcap > 0.0f ? hit : g, n);
    asc_spread(tile->block, factor, tile->rows);
    asc_spread(tile->bias, bias, tile->rows);
    ASC_THEN();
    asc_spread(tile->at_target, target, tile->rows);
    ASC_THEN();
}

/* dx, which e may be, from the exponentials. */
static inline __aicore__ void ce_rows_gradient(const ce_job *job, const ce_tile *tile,
                                               __ubuf__ float *dx, __ubuf__ float *e)
{
    ce_rows_factors(job, tile);
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
