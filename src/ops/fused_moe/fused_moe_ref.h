/* fused_moe_ref.h - what both directions of the definition share: elements of tensors, the gate and
 * the first product, in double. */
#ifndef TG_FUSED_MOE_REF_H
#define TG_FUSED_MOE_REF_H

#include <math.h>

#include "fused_moe.h"

static inline double get(const tg_tensor *t, int64_t row, int64_t i)
{
    const tg_rows rows = tg_rows_of(t);
    return t ? tg_get(rows.data, rows.type, row * rows.stride + i) : 0;
}

static inline void put(const tg_tensor *t, int64_t row, int64_t i, double value)
{
    const tg_rows rows = tg_rows_of(t);
    if (t)
        tg_set(rows.data, rows.type, row * rows.stride + i, value);
}

/* Element (i, j) of an expert's matrix, whose rows are the results. */
static inline double at(const tg_tensor *t, int64_t transposed, int64_t e, int64_t i, int64_t j)
{
    const grouped_matrices m = grouped_matrices_of(t);
    return tg_get(m.data, m.type, grouped_at(&m, transposed, e, i, j));
}

/* ---- the gate ---- */

typedef struct gate {
    int64_t activation, interleaved, inner;
    double limit, alpha, up_offset;
} gate;

#define GATE(args, s)                                                                          \
    ((gate){(args)->activation, (args)->interleaved, (s)->inner, (args)->limit, (args)->alpha, \
            (args)->up_offset})

/* Where the gate and up of number i stand in a row of both. */
static inline int64_t gate_at(const gate *g, int64_t i)
{
    return g->interleaved ? 2 * i : i;
}

static inline int64_t up_at(const gate *g, int64_t i)
{
    return g->interleaved ? 2 * i + 1 : g->inner + i;
}

typedef struct gated {
    double value, of_gate, of_up; /* A, and its derivatives */
} gated;

static inline gated swiglu(const gate *g, double a, double u)
{
    const double most = g->limit, x = a > most ? most : a;
    const double v = (u > most ? most : u < -most ? -most : u) + g->up_offset;
    const double s = 1 / (1 + exp(-g->alpha * x)), rest = 1 / (1 + exp(g->alpha * x));
    return (gated){x * s * v, a > most ? 0 : s * (1 + g->alpha * x * rest) * v,
                   fabs(u) > most ? 0 : x * s};
}

static inline gated geglu(double a, double u, int exact)
{
    if (exact) {
        const double below = 0.5 * erfc(-a / sqrt(2)), bell = exp(-0.5 * a * a) / sqrt(2 * M_PI);
        return (gated){a * below * u, (below + a * bell) * u, a * below};
    }
    const double c = 2 * sqrt(2 / M_PI), slope = c * (1 + 3 * 0.044715 * a * a);
    const double v = c * (a + 0.044715 * a * a * a), s = 1 / (1 + exp(-v)), rest = 1 / (1 + exp(v));
    return (gated){a * s * u, (s + a * s * rest * slope) * u, a * s};
}

static inline gated gated_of(const gate *g, const double *pre, int64_t i)
{
    const double a = pre[gate_at(g, i)], u = pre[up_at(g, i)];
    return g->activation == TG_MOE_SWIGLU ? swiglu(g, a, u)
                                          : geglu(a, u, g->activation == TG_MOE_GEGLU_EXACT);
}

/* pre of a slot: x is multiplied by scale. */
static inline void project(const tg_tensor *x, const tg_tensor *gate_up, const tg_tensor *bias,
                           int64_t transposed, int64_t e, int64_t t, double scale, double *pre)
{
    const int64_t both = gate_up->shape[transposed ? 2 : 1], hidden = x->shape[1];
    for (int64_t i = 0; i < both; i++) {
        pre[i] = get(bias, e, i);
        for (int64_t h = 0; h < hidden; h++)
            pre[i] += at(gate_up, transposed, e, i, h) * (scale * get(x, t, h));
    }
}

#endif
