/* swiglu_limited.h - silu of a gate times another operand, with limits, alpha and an offset of up.
 * Arithmetic is f32 in UB. */
#ifndef SWIGLU_LIMITED_H
#define SWIGLU_LIMITED_H

#include "shared/asc_common.h"

typedef struct swiglu_limits {
    float gate, down, limit, alpha, up_offset;
} swiglu_limits;

#define SWIGLU_LIMITS_GIVEN                                                              \
    swiglu_limits_of(asc_f32(gate_multiplier), asc_f32(down_multiplier), asc_f32(limit), \
                     asc_f32(alpha), asc_f32(up_offset))

static inline __aicore__ swiglu_limits swiglu_limits_of(float gate, float down, float limit,
                                                        float alpha, float up_offset)
{
    swiglu_limits l;
    l.gate = gate;
    l.down = down;
    l.limit = limit;
    l.alpha = alpha;
    l.up_offset = up_offset;
    return l;
}

static inline __aicore__ int swiglu_has_limit(swiglu_limits l)
{
    return l.limit <= 3.4028234664e38f;
}

/* a multiplied, u with its offset; ends with ASC_THEN(). */
static inline __aicore__ void swiglu_adjust(__ubuf__ float *a, __ubuf__ float *u, swiglu_limits l,
                                            uint32_t n)
{
    if (l.gate != 1.0f)
        asc_mul_scalar(a, a, l.gate, n);
    if (l.up_offset != 0.0f)
        asc_add_scalar(u, u, l.up_offset, n);
    ASC_THEN();
}

/* y = a s(alpha a) u down. a: gate, u: up, both used up; h, e: scratch; y may be a. */
static inline __aicore__ void swiglu_limited_tile(__ubuf__ float *y, __ubuf__ float *a,
                                                  __ubuf__ float *u, __ubuf__ float *h,
                                                  __ubuf__ float *e, swiglu_limits l, uint32_t n)
{
    if (swiglu_has_limit(l)) {
        asc_min_scalar(a, a, l.limit, n);
        asc_min_scalar(u, u, l.limit, n);
        ASC_THEN();
        asc_max_scalar(u, u, -l.limit, n);
        ASC_THEN();
    }
    swiglu_adjust(a, u, l, n);
    asc_mul_scalar(e, a, 0.5f * l.alpha, n); /* half of alpha a */
    if (l.down != 1.0f)
        asc_mul_scalar(u, u, l.down, n);
    ASC_THEN();
    asc_min_scalar(h, e, 0.0f, n);
    ASC_THEN();
    asc_exp(h, h, n);
    asc_abs(e, e, n);
    ASC_THEN();
    asc_mul(a, a, h, n);
    asc_mul_scalar(e, e, -2.0f, n);
    ASC_THEN();
    asc_mul(a, a, u, n);
    asc_exp(e, e, n);
    ASC_THEN();
    asc_mul(a, a, h, n);
    asc_add_scalar(e, e, 1.0f, n);
    ASC_THEN();
    asc_div(y, a, e, n);
    ASC_THEN();
}

/* c, v: gate and up within the limit; a and u become 1 beyond it, else 0. What is beyond is so by
 * 2^-123 at least, or by 2^-149 where the limit is tiny itself. */
static inline __aicore__ void swiglu_clamp(__ubuf__ float *c, __ubuf__ float *v, __ubuf__ float *a,
                                           __ubuf__ float *u, swiglu_limits l, uint32_t n)
{
    asc_min_scalar(c, a, l.limit, n);
    asc_min_scalar(v, u, l.limit, n);
    ASC_THEN();
    asc_max_scalar(v, v, -l.limit, n);
    asc_sub(a, a, c, n);
    ASC_THEN();
    asc_sub(u, u, v, n);
    asc_mul_scalar(a, a, 0x1p126f, n);
    ASC_THEN();
    asc_abs(u, u, n);
    if (l.limit < 0x1p-100f) {
        asc_mul_scalar(a, a, 0x1p24f, n);
        ASC_THEN();
        asc_mul_scalar(u, u, 0x1p24f, n);
    }
    ASC_THEN();
    asc_mul_scalar(u, u, 0x1p126f, n);
    asc_min_scalar(a, a, 1.0f, n);
    ASC_THEN();
    asc_min_scalar(u, u, 1.0f, n);
    ASC_THEN();
}

/* y = c times h twice. */
static inline __aicore__ void swiglu_again(__ubuf__ float *y, __ubuf__ float *c, __ubuf__ float *h,
                                           uint32_t n)
{
    asc_mul(y, y, c, n);
    ASC_THEN();
    asc_mul(y, y, h, n);
    ASC_THEN();
    asc_mul(y, y, h, n);
    ASC_THEN();
}

/* dgate = slope, dup = value, each 0 where its operand is beyond the limit; without one a and u are
 * not looked at. a, u: as swiglu_clamp() leaves them, used up; dgate may be a, dup a or u. */
static inline __aicore__ void swiglu_leave(__ubuf__ float *dgate, __ubuf__ float *dup,
                                           __ubuf__ float *slope, __ubuf__ float *value,
                                           __ubuf__ float *a, __ubuf__ float *u, int limited,
                                           uint32_t n)
{
    if (!limited) {
        asc_mul_scalar(dgate, slope, 1.0f, n);
        asc_mul_scalar(dup, value, 1.0f, n);
        ASC_THEN();
        return;
    }
    asc_mul(a, a, slope, n);
    asc_mul(u, u, value, n);
    ASC_THEN();
    asc_sub(dgate, slope, a, n);
    ASC_THEN();
    asc_sub(dup, value, u, n);
    ASC_THEN();
}

/* As asc_silu_gradients(), with s = s(t), t = alpha a:
 *   d(a s)/da = s (1 + t (1 - s)) = h h (d + t k) / d^2.
 * dgate may be g or a, dup may be a or u; c, v: scratch as well. */
static inline __aicore__ void
swiglu_limited_gradients(__ubuf__ float *dgate, __ubuf__ float *dup, __ubuf__ float *y,
                         __ubuf__ float *g, __ubuf__ float *a, __ubuf__ float *u, __ubuf__ float *h,
                         __ubuf__ float *k, __ubuf__ float *e, __ubuf__ float *c, __ubuf__ float *v,
                         swiglu_limits l, uint32_t n)
{
    const int limited = swiglu_has_limit(l);
    if (limited) {
        swiglu_clamp(c, v, a, u, l, n);
    } else {
        c = a;
        v = u;
    }
    swiglu_adjust(c, v, l, n);
    asc_mul_scalar(h, c, l.alpha, n); /* t */
    if (l.down != 1.0f)
        asc_mul_scalar(g, g, l.down, n);
    if (y)
        asc_mul_scalar(y, v, l.down, n);
    ASC_THEN();
    asc_min_scalar(k, h, 0.0f, n);
    if (l.gate != 1.0f)
        asc_mul_scalar(v, v, l.gate, n); /* of dgate, which has up in it */
    ASC_THEN();
    asc_sub(e, k, h, n); /* -max(t, 0) */
    ASC_THEN();
    asc_mul_scalar(k, k, 0.5f, n);
    asc_exp(e, e, n);
    ASC_THEN();
    asc_exp(k, k, n);
    ASC_THEN();
    if (y)
        swiglu_again(y, c, k, n);
    asc_mul(h, k, k, n);
    asc_mul(g, g, k, n);
    ASC_THEN();
    asc_mul(h, h, e, n);
    asc_mul(v, v, g, n);
    ASC_THEN();
    asc_add_scalar(h, h, 1.0f, n); /* d */
    asc_mul(g, g, k, n);
    if (l.alpha != 1.0f)
        asc_mul_scalar(e, e, l.alpha, n);
    ASC_THEN();
    asc_mul_add(e, c, h, n); /* d + t exp(-max(t, 0)) */
    asc_mul(v, v, k, n);
    ASC_THEN();
    asc_mul(c, c, g, n);
    asc_mul(v, v, e, n);
    ASC_THEN();
    asc_div(k, c, h, n); /* of up */
    if (y)
        asc_div(y, y, h, n);
    asc_mul(e, h, h, n);
    ASC_THEN();
    asc_div(h, v, e, n); /* of gate */
    ASC_THEN();
    swiglu_leave(dgate, dup, h, k, a, u, limited, n);
}

#endif
