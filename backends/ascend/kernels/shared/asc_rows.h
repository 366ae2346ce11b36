/* asc_rows.h - arithmetic on rows of f32 in UB: each folded into 64 lanes, each with
 * one value of its own.
 *
 * `rows` rows of n elements begin `pitch` elements apart. A row's lanes are a repeat:
 * ASC_LANES floats. All is done in counter mode, so that a row may have any length; after it
 * the mask is whole again. */
#ifndef ASC_ROWS_H
#define ASC_ROWS_H

#include "asc_lanes.h"

/* What a maximum begins with: finite, so that a row of -inf alone gives exp(-inf) = 0
 * and no inf - inf. */
#define ASC_LOWEST (-3.402823466e+38f)

#define ASC_COUNTED(n)                         \
    do {                                       \
        asc_set_mask_count();                  \
        asc_set_vector_mask(0, (uint64_t)(n)); \
    } while (0)
#define ASC_UNCOUNTED()                                  \
    do {                                                 \
        asc_set_mask_norm();                             \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1); \
    } while (0)

/* lanes[r] = op(x[r][0...63], x[r][64...127], ..., lanes[r]), op one of asc_add and asc_max. */
#define ASC_FOLD(op, lanes, x, rows, n, pitch)                                                     \
    do {                                                                                           \
        ASC_COUNTED(n);                                                                            \
        for (int64_t r_ = 0; r_ < (rows); r_++)                                                    \
            op((lanes) + r_ * ASC_LANES, (x) + r_ * (pitch), (lanes) + r_ * ASC_LANES, 1, 1, 1, 1, \
               0, 8, 0);                                                                           \
        ASC_UNCOUNTED();                                                                           \
    } while (0)

/* dst[r] = op(x[r], block r), a block being eight times the row's value: see asc_spread(). */
#define ASC_WITH_BLOCK(op, dst, x, block, rows, n, pitch)                                        \
    do {                                                                                         \
        ASC_COUNTED(n);                                                                          \
        for (int64_t r_ = 0; r_ < (rows); r_++)                                                  \
            op((dst) + r_ * (pitch), (x) + r_ * (pitch), (block) + r_ * 8, 1, 1, 1, 0, 8, 8, 0); \
        ASC_UNCOUNTED();                                                                         \
    } while (0)

/* dst = op(x, lanes), lane by lane, one row. */
#define ASC_WITH_LANES(op, dst, x, lanes, n)    \
    do {                                        \
        ASC_COUNTED(n);                         \
        op(dst, x, lanes, 1, 1, 1, 1, 8, 8, 0); \
        ASC_UNCOUNTED();                        \
    } while (0)

/* A block of the sum, or of the maximum, of each row's lanes. `rows` as above;
 * ends with ASC_THEN(). */
static inline __aicore__ void asc_spread_sum(__ubuf__ float *block, __ubuf__ float *value,
                                             __ubuf__ float *lanes, int64_t rows)
{
    asc_repeat_reduce_sum(value, lanes, (uint32_t)(rows * ASC_LANES));
    ASC_THEN();
    asc_spread(block, value, rows);
    ASC_THEN();
}

static inline __aicore__ void asc_spread_max(__ubuf__ float *block, __ubuf__ float *value,
                                             __ubuf__ float *lanes, int64_t rows)
{
    asc_repeat_reduce_max_only_value(value, lanes, (uint32_t)(rows * ASC_LANES));
    ASC_THEN();
    asc_spread(block, value, rows);
    ASC_THEN();
}

#endif
