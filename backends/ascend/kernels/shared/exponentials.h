/* exponentials.h - the maximum of a row and the sum of its exponentials, in pieces, lane by lane:
 * each lane's sum is relative to its own maximum, and nothing crosses lanes before the row's end.
 * For softmax, softmax_jsd and softmax_kl_div. */
#ifndef EXPONENTIALS_H
#define EXPONENTIALS_H

#include "asc_rows.h"

/* Differences of elements, in two places, times the scale. ASC_THEN() stands behind it. */
static inline __aicore__ void exponentials_scale(float scale, __ubuf__ float *x, uint32_t n,
                                                 __ubuf__ float *y, uint32_t m)
{
    if (scale == 1.0f)
        return;
    asc_mul_scalar(x, x, scale, n);
    asc_mul_scalar(y, y, scale, m);
    ASC_THEN();
}

/* max, and the sum of exp(scale (x - max)): lanes of the row so far; e, old: scratch; e may be x.
 * What computes x may stand just before. */
static inline __aicore__ void exponentials_piece(__ubuf__ float *e, __ubuf__ float *x,
                                                 __ubuf__ float *max, __ubuf__ float *sum,
                                                 __ubuf__ float *old, float scale, uint32_t n)
{
    asc_copy((__ubuf__ uint32_t *)old, (__ubuf__ uint32_t *)max, ASC_LANES);
    ASC_THEN();
    ASC_FOLD(asc_max, max, x, 1, n, 0);
    ASC_THEN();
    asc_sub(old, old, max, ASC_LANES);
    ASC_WITH_LANES(asc_sub, e, x, max, n);
    ASC_THEN();
    exponentials_scale(scale, old, ASC_LANES, e, n);
    asc_exp(old, old, ASC_LANES);
    asc_exp(e, e, n);
    ASC_THEN();
    asc_mul(sum, sum, old, ASC_LANES);
    ASC_THEN();
    ASC_FOLD(asc_add, sum, e, 1, n, 0);
    ASC_THEN();
}

/* A block of the row's maximum, from those of its lanes, which become the scaled difference from
 * it. */
static inline __aicore__ void exponentials_top(__ubuf__ float *max_block, __ubuf__ float *value,
                                               __ubuf__ float *max, float scale)
{
    asc_spread_max(max_block, value, max, 1);
    ASC_WITH_BLOCK(asc_sub, max, max, max_block, 1, ASC_LANES, 0);
    ASC_THEN();
    if (scale != 1.0f) {
        asc_mul_scalar(max, max, scale, ASC_LANES);
        ASC_THEN();
    }
}

/* A block of the row's sum, from those of its lanes and these differences, which are used up. */
static inline __aicore__ void exponentials_total(__ubuf__ float *sum_block, __ubuf__ float *value,
                                                 __ubuf__ float *max, __ubuf__ float *sum)
{
    asc_exp(max, max, ASC_LANES);
    ASC_THEN();
    asc_mul(sum, sum, max, ASC_LANES);
    ASC_THEN();
    asc_spread_sum(sum_block, value, sum, 1);
}

/* Both. */
static inline __aicore__ void exponentials_join(__ubuf__ float *max_block,
                                                __ubuf__ float *sum_block, __ubuf__ float *value,
                                                __ubuf__ float *max, __ubuf__ float *sum,
                                                float scale)
{
    exponentials_top(max_block, value, max, scale);
    exponentials_total(sum_block, value, max, sum);
}

#endif
