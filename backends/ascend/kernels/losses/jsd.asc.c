/* jsd.asc.c - with Q = exp(x), P = exp(y), M = beta P + (1 - beta) Q:
 *   d = - beta P log(M/P) - (1 - beta) Q log(M/Q),   its gradient - (1 - beta) Q log(M/Q).
 * With D = y - x, log(M/Q) = log(1 + beta (exp(D) - 1)) and log(M/P) = log(1 + (1 - beta)
 * (exp(-D) - 1)): neither needs M, and both keep their digits where P and Q nearly agree. They do
 * where beta is nearly 1 or 0, too: M/Q is 1 - beta + beta exp(D) there, a sum, and so is M/P.
 * A beta that is near neither takes fewer instructions: mixture_middle.h. Arithmetic is f32 in UB.
 */
#include "jsd.args.h"
#include "mixture_middle.h"

static inline __aicore__ void jsd_reverse(__ubuf__ float *t, __ubuf__ float *g, __ubuf__ float *x,
                                          __ubuf__ float *y, __ubuf__ float *a, float factor,
                                          uint32_t n)
{
    divergence_of_logs(t, g, x, y, a, factor, 1, n);
    ASC_THEN();
    if (g)
        asc_axpy(g, t, factor, n);
}

#define ASC_TEMPLATE "losses/jsd.asc.h"
#include "shared/asc_each_type.h"
