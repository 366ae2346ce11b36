/* asc_silu.h - silu of a gate times another operand, and gradients of both. Arithmetic is f32 in
 * UB.
 *
 * With u = gate g, s = 1 / (1 + exp(-u)) is never a difference and never overflows: with
 * h = exp(min(u, 0) / 2),
 *   s = h h / (1 + exp(-|u|)),
 * and h is multiplied in twice, apart, so that far out nothing is flushed that the
 * result does not flush. */
#ifndef ASC_SILU_H
#define ASC_SILU_H

#include "asc_common.h"

/* y = a g s(a g) u d, with multipliers g and d of gate and result. a: gate, u: up, both used up; h,
 * e: scratch; y may be a. */
static inline __aicore__ void asc_silu_product(__ubuf__ float *y, __ubuf__ float *a,
                                               __ubuf__ float *u, __ubuf__ float *h,
                                               __ubuf__ float *e, float gate_multiplier,
                                               float down_multiplier, uint32_t n)
{
    asc_mul_scalar(a, a, 0.5f * gate_multiplier, n); /* u/2 */
    asc_mul_scalar(u, u, 2.0f * down_multiplier, n);
    ASC_THEN();
    asc_min_scalar(h, a, 0.0f, n);
    asc_abs(e, a, n);
    ASC_THEN();
    asc_exp(h, h, n);
    asc_mul_scalar(e, e, -2.0f, n);
    ASC_THEN();
    asc_mul(a, a, h, n);
    asc_exp(e, e, n); /* exp(-|u|) */
    ASC_THEN();
    asc_mul(a, a, u, n);
    asc_add_scalar(e, e, 1.0f, n);
    ASC_THEN();
    asc_mul(a, a, h, n);
    ASC_THEN();
    asc_div(y, a, e, n);
    ASC_THEN();
}

/* g: dy, a: gate, u: up, all used up; h, k, e: scratch; dgate may be g and dup a; y: the forward's
 * result, or NULL. With
 * k = exp(-max(u, 0)) and d = 1 + h h k,
 *   exp(-|u|) = h h k,   1 - s = k / d,   d(u s)/du = s (1 + u (1 - s)) = h h (d + u k) / d^2. */
static inline __aicore__ void
asc_silu_gradients(__ubuf__ float *dgate, __ubuf__ float *dup, __ubuf__ float *y, __ubuf__ float *g,
                   __ubuf__ float *a, __ubuf__ float *u, __ubuf__ float *h, __ubuf__ float *k,
                   __ubuf__ float *e, float gate_multiplier, float down_multiplier, uint32_t n)
{
    if (y) {
        asc_mul_scalar(y, u, down_multiplier, n);
        ASC_THEN();
    }
    if (gate_multiplier != 1.0f || down_multiplier != 1.0f) {
        asc_mul_scalar(a, a, gate_multiplier, n); /* u */
        asc_mul_scalar(g, g, down_multiplier, n);
        asc_mul_scalar(u, u, gate_multiplier, n); /* of dgate, which has up in it */
        ASC_THEN();
    }
    asc_min_scalar(h, a, 0.0f, n);
    ASC_THEN();
    asc_sub(k, h, a, n); /* -max(u, 0) */
    ASC_THEN();
    asc_mul_scalar(h, h, 0.5f, n);
    asc_exp(k, k, n);
    ASC_THEN();
    asc_exp(h, h, n);
    ASC_THEN();
    if (y) {
        asc_mul(y, y, a, n);
        ASC_THEN();
        asc_mul(y, y, h, n);
        ASC_THEN();
        asc_mul(y, y, h, n);
        ASC_THEN();
    }
    asc_mul(e, h, h, n);
    asc_mul(g, g, h, n);
    ASC_THEN();
    asc_mul(e, e, k, n);
    asc_mul(u, u, g, n);
    ASC_THEN();
    asc_add_scalar(e, e, 1.0f, n); /* d */
    asc_mul(g, g, h, n);
    ASC_THEN();
    asc_mul_add(k, a, e, n); /* u k + d */
    asc_mul(u, u, h, n);
    ASC_THEN();
    asc_mul(a, a, g, n);
    asc_mul(u, u, k, n);
    ASC_THEN();
    asc_div(dup, a, e, n);
    if (y)
        asc_div(y, y, e, n);
    asc_mul(k, e, e, n);
    ASC_THEN();
    asc_div(dgate, u, k, n);
    ASC_THEN();
}

#endif
