/* moe_gate.h - the gate of experts' layers, on f32 in UB: the arithmetic of swiglu and geglu. */
#ifndef MOE_GATE_H
#define MOE_GATE_H

#include "fused_moe.args.h"
#include "maps/geglu_gradients.h"
#include "maps/swiglu_limited.h"

typedef struct moe_gate {
    int64_t activation, interleaved;
    swiglu_limits limits;
    gelu_fit fit;
    __ubuf__ float *constants; /* of the exact form */
} moe_gate;

/* All vector cores begin with this; ends with ASC_THEN(). */
static inline __aicore__ moe_gate moe_gate_of(int64_t activation, int64_t interleaved, float limit,
                                              float alpha, float up_offset,
                                              __ubuf__ float *constants)
{
    moe_gate g;
    g.activation = activation;
    g.interleaved = interleaved;
    g.limits = swiglu_limits_of(1.0f, 1.0f, limit, alpha, up_offset);
    g.fit = gelu_fit_of_4();
    g.constants = constants;
    if (activation == MOE_GEGLU_EXACT)
        gelu_constants(&g.fit, constants);
    return g;
}

/* y = act(a) u, both used up; h, e, and of the exact form p, q: scratch. y may be a. */
static inline __aicore__ void moe_gated(const moe_gate *g, __ubuf__ float *y, __ubuf__ float *a,
                                        __ubuf__ float *u, __ubuf__ float *h, __ubuf__ float *e,
                                        __ubuf__ float *p, __ubuf__ float *q, uint32_t n)
{
    if (g->activation == MOE_SWIGLU) {
        swiglu_limited_tile(y, a, u, h, e, g->limits, n);
        return;
    }
    if (g->activation == MOE_GEGLU) {
        gelu_sigmoid(h, a, e, n);
        asc_mul(h, h, a, n);
        ASC_THEN();
        asc_mul(y, h, u, n);
        ASC_THEN();
        return;
    }
    gelu_parts_f32(h, a, a, p, g->constants, n);
    gelu_tail(&g->fit, h, e, p, q, g->constants, n);
    asc_mul(y, gelu_join_f32(&g->fit, h, p, a, a, n), u, n);
    ASC_THEN();
}

/* Scratch of gradients, each as large as an operand. */
typedef struct moe_scratch {
    __ubuf__ float *h, *k, *e, *c, *v;
} moe_scratch;

/* y = act(a) u and both gradients of it times g, in g and u; a is used up. */
static inline __aicore__ void moe_gate_gradients(const moe_gate *g, __ubuf__ float *y,
                                                 __ubuf__ float *dy, __ubuf__ float *a,
                                                 __ubuf__ float *u, const moe_scratch *s,
                                                 uint32_t n)
{
    if (g->activation == MOE_SWIGLU) {
        swiglu_limited_gradients(dy, u, y, dy, a, u, s->h, s->k, s->e, s->c, s->v, g->limits, n);
        return;
    }
    const int64_t exact = g->activation == MOE_GEGLU_EXACT;
    asc_mul_scalar(y, a, 1.0f, n); /* the gate uses up what it is given */
    asc_mul_scalar(s->c, u, 1.0f, n);
    ASC_THEN();
    moe_gated(g, y, y, s->c, s->h, s->e, s->k, s->v, n);
    geglu_slopes(&g->fit, exact, dy, a, s->k, s->e, s->v, s->h, s->c, g->constants, n);
    geglu_gradients(exact, s->k, a, dy, a, u, s->k, s->v, s->h, s->c, n);
    asc_mul_scalar(dy, s->k, 1.0f, n);
    asc_mul_scalar(u, a, 1.0f, n);
    ASC_THEN();
}

#endif
