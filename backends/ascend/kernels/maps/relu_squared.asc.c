/* relu_squared.asc.c - y = max(x, 0)^2 and dx = 2 dy max(x, 0). Arithmetic is f32 in UB. */
#include "relu_squared.args.h"
#include "shared/asc_common.h"

/* y may be x. */
static inline __aicore__ void relu_squared_forward_tile(__ubuf__ float *y, __ubuf__ float *x,
                                                        uint32_t n)
{
    asc_max_scalar(y, x, 0.0f, n);
    ASC_THEN();
    asc_mul(y, y, y, n);
    ASC_THEN();
}

#define ASC_FLAT ASC_NAME(relu_squared_forward)
#define ASC_FLAT_ARGS RELU_SQUARED_FORWARD
#define ASC_FLAT_READS ASC_READ(x)
#define ASC_FLAT_WRITES ASC_WRITE(y, x32)
#define ASC_FLAT_TILE relu_squared_forward_tile(y32, x32, n)
#include "shared/asc_flat.asc.h"

/* dx may be dy; x is used up. */
static inline __aicore__ void relu_squared_backward_tile(__ubuf__ float *dx, __ubuf__ float *dy,
                                                         __ubuf__ float *x, uint32_t n)
{
    asc_max_scalar(x, x, 0.0f, n);
    ASC_THEN();
    asc_mul_scalar(x, x, 2.0f, n);
    ASC_THEN();
    asc_mul(dx, dy, x, n);
    ASC_THEN();
}

#define ASC_FLAT ASC_NAME(relu_squared_backward)
#define ASC_FLAT_ARGS RELU_SQUARED_BACKWARD
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_FLAT_WRITES ASC_WRITE(dx, dy32)
#define ASC_FLAT_TILE relu_squared_backward_tile(dx32, dy32, x32, n)
#include "shared/asc_flat.asc.h"
