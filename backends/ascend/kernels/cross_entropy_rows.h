/* cross_entropy_rows.h - arithmetic of cross_entropy on several short rows at once. f32.
 *
 * A tile of `rows` rows of `columns` classes lies in UB `pitch` elements apart. What is one number for a row lies in
 * job->lanes, a lane a row, and where it meets the row's logits, as a block of eight equal lanes. */
#ifndef CROSS_ENTROPY_ROWS_H
#define CROSS_ENTROPY_ROWS_H

#include "cross_entropy_gradient.h"
#include "cross_entropy_results.h"

enum { CE_MOST_ROWS = 128 }; /* of a tile */

/* Lanes of the ring's kernel that rows use otherwise: offsets of the target's class and logit, HIT_WEIGHT and G, which
 * factors of a row without dloss are times. */
enum { CE_CLASS = CE_MAX, CE_PLACE = CE_SUM, CE_G = CE_PART, CE_HIT_WEIGHT = CE_WX };

typedef struct ce_tile {
    int64_t rows, columns, pitch;
    __ubuf__ float *fold, *eighth;            /* a repeat a row, a block a row */
    __ubuf__ float *block, *bias, *at_target; /* a block a row */
    __ubuf__ int64_t *target;
    __ubuf__ int32_t *begin; /* bytes from the tile's beginning to a row's, of f32 */
} ce_tile;

/* ---- rows by blocks ---- */

/* dst[r] = op(x[r], block r). Instructions run along rows or down columns, whichever are fewer. */
#define CE_WITH_BLOCK(op, dst, x, block, tile)                                                     \
    do {                                                                                           \
        const int64_t blocks_ = (tile)->pitch / 8;                                                 \
        if (blocks_ > 255 || (tile)->rows * ASC_LANES < (tile)->columns) {                         \
            ASC_WITH_BLOCK(op, dst, x, block, (tile)->rows, (tile)->columns, (tile)->pitch);       \
            break;                                                                                 \
        }                                                                                          \
        for (int64_t c_ = 0; c_ < (tile)->columns; c_ += ASC_LANES) {                              \
            const int64_t left_ = (tile)->columns - c_;                                            \
            asc_set_vector_mask(0, left_ < ASC_LANES ? ((uint64_t)1 << left_) - 1 : (uint64_t)-1); \
            op((dst) + c_, (x) + c_, block, (uint8_t)(tile)->rows, 1, 1, 0, (uint8_t)blocks_,      \
               (uint8_t)blocks_, 1);                                                               \
        }                                                                                          \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                           \
    } while (0)

/* fold[r] = the lanes of row r, op one of asc_add and asc_max, `from` what it begins with. */
#define CE_FOLD_ROWS(op, tile, x, from)                                              \
    do {                                                                             \
        const int64_t n_ = (tile)->columns, whole_ = n_ >= ASC_LANES;                \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                             \
        if (whole_)                                                                  \
            asc_copy((__ubuf__ uint32_t *)(tile)->fold, (__ubuf__ uint32_t *)(x),    \
                     (uint8_t)(tile)->rows, 1, 1, 8, (uint16_t)((tile)->pitch / 8)); \
        else                                                                         \
            asc_duplicate((tile)->fold, from, (uint32_t)((tile)->rows * ASC_LANES)); \
        ASC_THEN();                                                                  \
        if (!whole_ || n_ > ASC_LANES) {                                             \
            ASC_FOLD(op, (tile)->fold, (x) + whole_ * ASC_LANES, (tile)->rows,       \
                     n_ - whole_ * ASC_LANES, (tile)->pitch);                        \
            ASC_THEN();                                                              \
        }                                                                            \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                             \
    } while (0)

/* to[r] = the sum of row r. */
static inline __aicore__ void ce_sum_rows(const ce_tile *tile, __ubuf__ float *to,
                                          __ubuf__ float *x)
{
    CE_FOLD_ROWS(asc_add, tile, x, 0.0f);
    asc_datablock_reduce_sum(tile->eighth, tile->fold, (uint32_t)(tile->rows * ASC_LANES));
    ASC_THEN();
    asc_datablock_reduce_sum(to, tile->eighth, (uint32_t)(tile->rows * 8));
    ASC_THEN();
}

/* The maximum, at least ASC_LOWEST. */
static inline __aicore__ void ce_max_rows(const ce_tile *tile, __ubuf__ float *to,
                                          __ubuf__ float *x)
{
    CE_FOLD_ROWS(asc_max, tile, x, ASC_LOWEST);
    asc_datablock_reduce_max(tile->eighth, tile->fold, (uint32_t)(tile->rows * ASC_LANES));
    ASC_THEN();
    asc_datablock_reduce_max(to, tile->eighth, (uint32_t)(tile->rows * 8));
    ASC_THEN();
    asc_max_scalar(to, to, ASC_LOWEST, (uint32_t)tile->rows);
    ASC_THEN();
}

/* ---- targets ---- */

/* HIT, and WEIGHT from the class weights w in UB, if any. A row to be ignored takes what a class beside its target has. */
static inline __aicore__ void ce_take_hits(const ce_job *job, const ce_tile *tile,
                                           __ubuf__ float *x, __ubuf__ float *w)
{
    const uint32_t n = (uint32_t)tile->rows;
    __ubuf__ int32_t *at = (__ubuf__ int32_t *)ce_at(job, CE_CLASS);
    __ubuf__ int32_t *place = (__ubuf__ int32_t *)ce_at(job, CE_PLACE);
    asc_int642int32(at, tile->target, n);
    ASC_THEN();
    asc_max_scalar(at, at, 0, n);
    ASC_THEN();
    asc_min_scalar(at, at, (int32_t)tile->columns - 1, n);
    ASC_THEN();
    asc_mul_scalar(at, at, 4, n);
    ASC_THEN();
    asc_add(place, at, tile->begin, n);
    if (w)
        asc_gather(ce_at(job, CE_ROWS_WEIGHT), w, (__ubuf__ uint32_t *)at, n);
    else
        asc_duplicate(ce_at(job, CE_ROWS_WEIGHT), 1.0f, n);
    ASC_THEN();
    asc_gather(ce_at(job, CE_ROWS_HIT), x, (__ubuf__ uint32_t *)place, n);
    ASC_THEN();
}

/* Exponentials: that of the target becomes 0, and all that tells of a row to be ignored. */
static inline __aicore__ void ce_clear_targets(const ce_job *job, const ce_tile *tile,
                                               __ubuf__ float *e)
{
    for (int64_t r = 0; r < tile->rows; r++, e += tile->pitch) {
        const int64_t y = tile->target[r];
        if (y == job->ignore_index) {
            asc_duplicate(e, 0.0f, (uint32_t)tile->pitch);
            ce_set_lane_to(ce_at(job, CE_ROWS_TOP), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_HIT), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_WX), r, 0.0f);
            ce_set_lane_to(ce_at(job, CE_ROWS_WEIGHT), r, 0.0f);
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
        const int64_t y = tile->target[r];
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

/* x, which e may be, to exponentials and all results of the rows. */
static inline __aicore__ void ce_rows_forward(const ce_job *job, const ce_tile *tile,
                                              __ubuf__ float *e, __ubuf__ float *x,
                                              __ubuf__ float *w)
{
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP);
    ce_take_hits(job, tile, x, w);
    if (job->smoothing != 0.0f)
        ce_sum_rows(tile, ce_at(job, CE_ROWS_WX), x);
    ce_max_rows(tile, top, x);
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
static inline __aicore__ void ce_rows_saved(const ce_job *job, const ce_tile *tile,
                                            __ubuf__ float *e, __ubuf__ float *x, __ubuf__ float *w)
{
    const uint32_t n = (uint32_t)job->batch;
    __ubuf__ float *lse = ce_at(job, CE_ROWS_LSE);
    ce_take_hits(job, tile, x, w);
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
    asc_add_scalar(rest, rest, smooth * (float)job->columns, n);
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
    ASC_THEN();
    asc_add_scalar(target, target, -smooth, n);
    asc_mul(factor, factor, g, n);
    ASC_THEN();
    asc_mul(target, target, g, n);
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
    if (job->smoothing != 0.0f) {
        CE_WITH_BLOCK(asc_sub, dx, dx, tile->bias, tile);
        ASC_THEN();
    }
    ce_set_targets(job, tile, dx);
}

#endif
