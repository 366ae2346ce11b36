/* sum_squares.asc.c - the sum of all x^2, a part from each block, and dx = 2 dy x.
 * Arithmetic is f32 in UB. */
#include "shared/asc_rows.h"
#include "sum_squares.args.h"

/* The factor of all elements; the scalar unit has read dy by then. */
static inline __aicore__ void sum_squares_backward_tile(__ubuf__ float *dx, __ubuf__ float *x,
                                                        float dy, uint32_t n)
{
    asc_mul_scalar(dx, x, 2.0f * dy, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "sums/sum_squares.asc.h"
#include "shared/asc_each_type.h"
