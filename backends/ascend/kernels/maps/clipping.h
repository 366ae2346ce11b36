/* clipping.h - what the kernels of optimizers multiply gradients with: a scale, and less where the
 * norm of all gradients, whose square lies in memory of the device, is above a limit. */
#ifndef CLIPPING_H
#define CLIPPING_H

#include "shared/asc_common.h"

/* squares: gradients are divided by its root; 0: by nothing. */
typedef struct asc_clipping {
    float squares, scale;
} asc_clipping;

/* 0: the norm is not finite. limit: of the squares; max_norm: of the sign of scale. */
static inline __aicore__ int asc_clipping_of(asc_clipping *by, __gm__ float *grad_squares,
                                             float scale, float limit, float max_norm)
{
    by->squares = 0;
    by->scale = scale;
    if (!grad_squares)
        return 1;
    asc_dcci_entire_all(); /* the scalar unit reads grad_squares */
    const float squares = grad_squares[0];
    if (squares > limit) {
        by->squares = squares;
        by->scale = max_norm;
    }
    return squares - squares == 0;
}

/* n gradients; s is used up. */
static inline __aicore__ void asc_clip(__ubuf__ float *g, __ubuf__ float *s, const asc_clipping *by,
                                       uint32_t n)
{
    if (by->squares > 0) {
        asc_duplicate(s, by->squares, n);
        ASC_THEN();
        asc_sqrt(s, s, n);
        ASC_THEN();
        asc_div(g, g, s, n);
        ASC_THEN();
    }
    if (by->scale != 1.0f) {
        asc_mul_scalar(g, g, by->scale, n);
        ASC_THEN();
    }
}

#endif
