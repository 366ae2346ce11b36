/* softmax.asc.c - y = exp(x - max) / sum, and dx = y (dy - sum(y dy)), row by row.
 * Arithmetic is f32 in UB.
 *
 * Kernels `rows` hold several whole rows in UB; kernels `wide` go twice through a row in pieces.
 * The maximum of a wide row is kept lane by lane, with each lane's sum relative to its own maximum:
 * nothing crosses lanes before the row's end. */
#include "shared/asc_ring.h"
#include "shared/asc_short.h"
#include "shared/exponentials.h"
#include "softmax.args.h"

/* An exponential that is subnormal is flushed to 0, and its quotient by the sum with
 * it. Two ways around:
 * - f32: exp(a) as the square of exp(a / 2), and quotients;
 * - 16 bits, where an error of 2^-18 is none: all exponentials of a row, and with them
 *   their sum, times exp(SOFTMAX_RAISE) by lowering the maximum, and products with the
 *   reciprocal of the sum. */
#define SOFTMAX_RAISE 40.0f

static inline __aicore__ void softmax_square_of_half(__ubuf__ float *a, uint32_t n)
{
    asc_mul_scalar(a, a, 0.5f, n);
    ASC_THEN();
    asc_exp(a, a, n);
    ASC_THEN();
    asc_mul(a, a, a, n);
    ASC_THEN();
}

/* block = 1 / block; one: n floats of scratch. What computes block may stand just before. */
static inline __aicore__ void softmax_reciprocal(__ubuf__ float *block, __ubuf__ float *one,
                                                 uint32_t n)
{
    asc_duplicate(one, 1.0f, n);
    ASC_THEN();
    asc_div(block, one, block, n);
    ASC_THEN();
}

/* e may be x; lanes, value, block: see asc_rows.h. to_16bit: y will be rounded to as many. */
static inline __aicore__ void softmax_forward_tile(__ubuf__ float *e, __ubuf__ float *x,
                                                   __ubuf__ float *lanes, __ubuf__ float *value,
                                                   __ubuf__ float *block, int64_t rows, int64_t n,
                                                   int64_t pitch, int to_16bit)
{
    asc_duplicate(lanes, ASC_LOWEST, (uint32_t)(rows * ASC_LANES));
    ASC_THEN();
    ASC_FOLD(asc_max, lanes, x, rows, n, pitch);
    ASC_THEN();
    asc_spread_max(block, value, lanes, rows);
    if (to_16bit) {
        asc_add_scalar(block, block, -SOFTMAX_RAISE, (uint32_t)(rows * 8));
        ASC_THEN();
    }
    ASC_WITH_BLOCK(asc_sub, e, x, block, rows, pitch, pitch);
    asc_duplicate(lanes, 0.0f, (uint32_t)(rows * ASC_LANES));
    ASC_THEN();
    if (to_16bit) {
        asc_exp(e, e, (uint32_t)(rows * pitch));
        ASC_THEN();
    } else {
        softmax_square_of_half(e, (uint32_t)(rows * pitch));
    }
    ASC_FOLD(asc_add, lanes, e, rows, n, pitch);
    ASC_THEN();
    asc_spread_sum(block, value, lanes, rows);
    if (to_16bit) {
        softmax_reciprocal(block, lanes, (uint32_t)(rows * 8));
        ASC_WITH_BLOCK(asc_mul, e, e, block, rows, pitch, pitch);
    } else {
        ASC_WITH_BLOCK(asc_div, e, e, block, rows, pitch, pitch);
    }
    ASC_THEN();
}

/* a = exp(a - max) / sum, when softmax_raise() has passed over the blocks of
 * the row if to_16bit. */
static inline __aicore__ void softmax_quotient(__ubuf__ float *a, __ubuf__ float *max_block,
                                               __ubuf__ float *sum_block, uint32_t n, int to_16bit)
{
    ASC_WITH_BLOCK(asc_sub, a, a, max_block, 1, n, 0);
    ASC_THEN();
    if (to_16bit) {
        asc_exp(a, a, n);
        ASC_THEN();
        ASC_WITH_BLOCK(asc_mul, a, a, sum_block, 1, n, 0);
    } else {
        softmax_square_of_half(a, n);
        ASC_WITH_BLOCK(asc_div, a, a, sum_block, 1, n, 0);
    }
    ASC_THEN();
}

/* The maximum lowered, the sum's reciprocal to fit: by what the maximum was lowered after rounding.
 * scratch: two blocks. */
static inline __aicore__ void softmax_raise(__ubuf__ float *max_block, __ubuf__ float *sum_block,
                                            __ubuf__ float *scratch)
{
    __ubuf__ float *lowered = scratch, *raise = scratch + 8;
    asc_add_scalar(lowered, max_block, -SOFTMAX_RAISE, 8);
    ASC_THEN();
    asc_sub(raise, max_block, lowered, 8);
    ASC_THEN();
    asc_exp(raise, raise, 8);
    asc_add_scalar(max_block, lowered, 0.0f, 8);
    ASC_THEN();
    asc_mul(sum_block, sum_block, raise, 8);
    softmax_reciprocal(sum_block, scratch, 8);
}

/* g: dy, used up; dx may be g; y becomes y sum(y dy). */
static inline __aicore__ void softmax_backward_tile(__ubuf__ float *dx, __ubuf__ float *g,
                                                    __ubuf__ float *y, __ubuf__ float *lanes,
                                                    __ubuf__ float *value, __ubuf__ float *block,
                                                    int64_t rows, int64_t n, int64_t pitch)
{
    asc_mul(dx, g, y, (uint32_t)(rows * pitch));
    asc_duplicate(lanes, 0.0f, (uint32_t)(rows * ASC_LANES));
    ASC_THEN();
    ASC_FOLD(asc_add, lanes, dx, rows, n, pitch);
    ASC_THEN();
    asc_spread_sum(block, value, lanes, rows);
    ASC_WITH_BLOCK(asc_mul, y, y, block, rows, pitch, pitch);
    ASC_THEN();
    asc_sub(dx, dx, y, (uint32_t)(rows * pitch));
    ASC_THEN();
}

/* ---- short rows: a tile of lines (asc_short.h) ---- */

/* value, one: a float a row. */
static inline __aicore__ void softmax_forward_lines(__ubuf__ float *e, __ubuf__ float *value,
                                                    __ubuf__ float *one, int64_t columns,
                                                    int64_t lanes, int to_16bit)
{
    const uint32_t n = (uint32_t)(columns * lanes);
    asc_duplicate(value, ASC_LOWEST, (uint32_t)lanes);
    ASC_THEN();
    ASC_DOWN(asc_max, value, e, columns, lanes);
    ASC_THEN();
    if (to_16bit) {
        asc_add_scalar(value, value, -SOFTMAX_RAISE, (uint32_t)lanes);
        ASC_THEN();
    }
    ASC_BY_COLUMN(asc_sub, e, e, value, columns, lanes);
    ASC_THEN();
    if (to_16bit)
        asc_exp(e, e, n);
    else
        softmax_square_of_half(e, n);
    asc_short_sum(value, e, columns, lanes);
    if (to_16bit) {
        softmax_reciprocal(value, one, (uint32_t)lanes);
        ASC_BY_COLUMN(asc_mul, e, e, value, columns, lanes);
    } else {
        ASC_BY_COLUMN(asc_div, e, e, value, columns, lanes);
    }
    ASC_THEN();
}

/* g becomes dx. */
static inline __aicore__ void softmax_backward_lines(__ubuf__ float *g, __ubuf__ float *y,
                                                     __ubuf__ float *value, int64_t columns,
                                                     int64_t lanes)
{
    const uint32_t n = (uint32_t)(columns * lanes);
    asc_mul(g, g, y, n);
    asc_short_sum(value, g, columns, lanes);
    ASC_BY_COLUMN(asc_mul, y, y, value, columns, lanes);
    ASC_THEN();
    asc_sub(g, g, y, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "softmax/softmax.asc.h"
#include "shared/asc_each_type.h"
