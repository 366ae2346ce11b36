/* geglu.asc.h - the kernels of one type; see asc_each_type.h. */

/* What gelu(gate) is made of, in h, and in p if it is exact. in: gate as it is; a: gate as f32;
 * e, p, q: scratch. */
static inline __aicore__ void ASC_NAME(geglu_parts)(const gelu_fit *fit, int64_t exact,
                                                    __ubuf__ ASC_T *in, __ubuf__ float *a,
                                                    __ubuf__ float *h, __ubuf__ float *e,
                                                    __ubuf__ float *p, __ubuf__ float *q,
                                                    __ubuf__ float *c, uint32_t n)
{
    if (exact) {
        ASC_NAME(gelu_parts)(h, a, in, (__ubuf__ ASC_T *)p, c, n);
        gelu_tail(fit, h, e, p, q, c, n);
        return;
    }
#if ASC_16BIT
    ASC_WIDEN(a, in, n);
    ASC_THEN();
#endif
    gelu_sigmoid(h, a, e, n);
}

/* y = gelu(gate) up; u: up. y may be h or a. */
static inline __aicore__ void ASC_NAME(geglu_product)(const gelu_fit *fit, int64_t exact,
                                                      __ubuf__ float *y, __ubuf__ ASC_T *in,
                                                      __ubuf__ float *a, __ubuf__ float *u,
                                                      __ubuf__ float *h, __ubuf__ float *p,
                                                      uint32_t n)
{
    __ubuf__ float *g = h; /* gelu(gate) */
    if (exact) {
        g = ASC_NAME(gelu_join)(fit, h, p, a, in, n);
    } else {
        asc_mul(h, h, a, n);
        ASC_THEN();
    }
    asc_mul(y, g, u, n);
    ASC_THEN();
}

#define GEGLU_FIT(direction)                                 \
    __ubuf__ float *const c = ASC_SCRATCH(coefficients);     \
    const gelu_fit fit = ASC_NAME(gelu_##direction##_fit)(); \
    if (exact)                                               \
        gelu_constants(&fit, c);

#define GEGLU_GATE ASC_UB(ASC_T, gate_at, slot)
#define GEGLU_PARTS ASC_NAME(geglu_parts)
#define GEGLU_PRODUCT ASC_NAME(geglu_product)

#define ASC_FLAT ASC_NAME(geglu_forward)
#define ASC_FLAT_ARGS GEGLU_FORWARD
#define ASC_FLAT_BEGIN GEGLU_FIT(forward)
#define ASC_FLAT_LATE ASC_READ(up)
#define ASC_FLAT_IN_PLACE(X) X(gate, y)
#define ASC_FLAT_WRITES ASC_WRITE(y, ASC_SCRATCH(h))
#define ASC_FLAT_TILE                                                                            \
    GEGLU_PARTS(&fit, exact, GEGLU_GATE, gate32, ASC_SCRATCH(h), ASC_SCRATCH(e), ASC_SCRATCH(p), \
                ASC_SCRATCH(q), c, n);                                                           \
    ASC_LATE(up);                                                                                \
    GEGLU_PRODUCT(&fit, exact, y32, GEGLU_GATE, gate32, up32, ASC_SCRATCH(h), ASC_SCRATCH(p), n)
#include "shared/asc_flat.asc.h"

#define ASC_FLAT ASC_NAME(geglu_backward)
#define ASC_FLAT_ARGS GEGLU_BACKWARD
#define ASC_FLAT_BEGIN GEGLU_FIT(backward)
#define ASC_FLAT_READS ASC_READ(dy) ASC_READ(gate)
#define ASC_FLAT_LATE ASC_READ(up)
#define ASC_FLAT_WRITES ASC_WRITE(dgate, ASC_SCRATCH(k)) ASC_WRITE(dup, gate32)
#define ASC_FLAT_TILE                                                                          \
    geglu_slopes(&fit, exact, dy32, gate32, ASC_SCRATCH(k), ASC_SCRATCH(q), ASC_SCRATCH(w),    \
                 ASC_SCRATCH(h), ASC_SCRATCH(r), c, n);                                        \
    ASC_LATE(up);                                                                              \
    geglu_gradients(exact, dgate32, dup32, dy32, gate32, up32, ASC_SCRATCH(k), ASC_SCRATCH(w), \
                    ASC_SCRATCH(h), ASC_SCRATCH(r), n)
#include "shared/asc_flat.asc.h"

#define ASC_PAIRS(step) ASC_NAME(geglu_forward_pairs##step)
#define ASC_PAIRS_ARGS GEGLU_FORWARD_PAIRS
#define ASC_PAIRS_BEGIN GEGLU_FIT(forward)
#define ASC_PAIRS_WRITES ASC_WRITE(y, first)
#define ASC_PAIRS_TILE                                                                         \
    geglu_parts_f32(&fit, exact, first, first, ASC_SCRATCH(h), ASC_SCRATCH(e), ASC_SCRATCH(p), \
                    ASC_SCRATCH(q), c, n);                                                     \
    geglu_product_f32(&fit, exact, y32, first, first, second, ASC_SCRATCH(h), ASC_SCRATCH(p), n)
#include "shared/asc_pairs.asc.h"

/* dup is left in scratch until up has been used. */
#define ASC_PAIRS(step) ASC_NAME(geglu_backward_pairs##step)
#define ASC_PAIRS_ARGS GEGLU_BACKWARD_PAIRS
#define ASC_PAIRS_BEGIN GEGLU_FIT(backward)
#define ASC_PAIRS_READS ASC_READ(dy)
#define ASC_PAIRS_WRITES
#define ASC_PAIRS_OUT
#define ASC_PAIRS_TILE                                                                     \
    geglu_slopes(&fit, exact, dy32, first, ASC_SCRATCH(k), ASC_SCRATCH(q), ASC_SCRATCH(w), \
                 ASC_SCRATCH(h), ASC_SCRATCH(r), c, n);                                    \
    geglu_gradients(exact, first, ASC_SCRATCH(q), dy32, first, second, ASC_SCRATCH(k),     \
                    ASC_SCRATCH(w), ASC_SCRATCH(h), ASC_SCRATCH(r), n);                    \
    asc_mul_scalar(second, ASC_SCRATCH(q), 1.0f, n);                                       \
    ASC_THEN()
#include "shared/asc_pairs.asc.h"

#include "shared/asc_halves.asc.h"

#define ASC_SHORT ASC_NAME(geglu_forward_short)
#define ASC_SHORT_ARGS GEGLU_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(gate)
#define ASC_SHORT_RESULTS ASC_WRITE(y)
#define ASC_SHORT_EACH (columns / 2)
#define ASC_SHORT_FIRST ASC_HALF_FIRST GEGLU_FIT(forward)
#define ASC_SHORT_TILE                                                                            \
    geglu_parts_f32(&fit, exact, ASC_SCRATCH(gate32), ASC_SCRATCH(gate32), ASC_SCRATCH(h),        \
                    ASC_SCRATCH(e), ASC_SCRATCH(p), ASC_SCRATCH(q), c, (uint32_t)n);              \
    geglu_product_f32(&fit, exact, ASC_SCRATCH(gate32), ASC_SCRATCH(gate32), ASC_SCRATCH(gate32), \
                      ASC_SCRATCH(gate32) + n, ASC_SCRATCH(h), ASC_SCRATCH(p), (uint32_t)n);      \
    ASC_HALF_OUT(y_at, ASC_SCRATCH(gate32))
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(geglu_backward_short)
#define ASC_SHORT_ARGS GEGLU_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(gate)
#define ASC_SHORT_WRITES ASC_WRITE(dgate, d32)
#define ASC_SHORT_VALUES ASC_READ(dy)
#define ASC_SHORT_EACH (columns / 2)
#define ASC_SHORT_FIRST ASC_HALF_FIRST GEGLU_FIT(backward)
#define ASC_SHORT_TILE                                                                            \
    ASC_HALF_IN(ASC_SCRATCH(dy32), dy_at);                                                        \
    geglu_slopes(&fit, exact, ASC_SCRATCH(dy32), ASC_SCRATCH(gate32), ASC_SCRATCH(k),             \
                 ASC_SCRATCH(q), ASC_SCRATCH(w), ASC_SCRATCH(h), ASC_SCRATCH(r), c, (uint32_t)n); \
    geglu_gradients(exact, ASC_SCRATCH(d32), ASC_SCRATCH(d32) + n, ASC_SCRATCH(dy32),             \
                    ASC_SCRATCH(gate32), ASC_SCRATCH(gate32) + n, ASC_SCRATCH(k), ASC_SCRATCH(w), \
                    ASC_SCRATCH(h), ASC_SCRATCH(r), (uint32_t)n)
#include "shared/asc_short.asc.h"
#undef GEGLU_FIT
#undef GEGLU_GATE
#undef GEGLU_PARTS
#undef GEGLU_PRODUCT
