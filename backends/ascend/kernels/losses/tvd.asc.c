/* tvd.asc.c - d = |p - q|, halved by `scale` and `term`, and its gradient, the sign of p - q.
 * Arithmetic is f32 in UB. */
#include "terms.h"
#include "tvd.args.h"

/* The steps from -1 to 0 and from 0 to 1 beside p = q are cut out of a line so steep that any
 * difference is at one of its ends. A NaN stays one. */
static inline __aicore__ void tvd_tile(__ubuf__ float *t, __ubuf__ float *g, __ubuf__ float *p,
                                       __ubuf__ float *q, float factor, uint32_t n)
{
    const float steep = 1.2676506e30f; /* 2^100 */
    asc_sub(t, p, q, n);
    ASC_THEN();
    if (g) {
        asc_mul_scalar(g, t, steep, n);
        ASC_THEN();
        asc_mul_scalar(g, g, steep, n);
        ASC_THEN();
        asc_max_scalar(g, g, -1.0f, n);
        ASC_THEN();
        asc_min_scalar(g, g, 1.0f, n);
        ASC_THEN();
        asc_mul_scalar(g, g, factor, n);
    }
    asc_abs(t, t, n);
}

#define ASC_TEMPLATE "losses/tvd.asc.h"
#include "shared/asc_each_type.h"
