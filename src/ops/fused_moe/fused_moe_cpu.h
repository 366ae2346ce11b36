/* fused_moe_cpu.h - what both directions on the CPU share: a problem as they see it, and the gate
 * of a vector of columns.
 *
 * Rows of slots stand in the order of experts. Products are those of src/grouped: rows of x and dy
 * are read from where they lie, and what is made of complete sums is done while they are in
 * the cache.
 */
#ifndef TG_FUSED_MOE_CPU_H
#define TG_FUSED_MOE_CPU_H

#include <math.h>

#include "fused_moe.h"
#include "grouped/grouped_cpu.h"

#define moe_project TG_AT_LEVEL(moe_project)
#define moe_scaled_rows TG_AT_LEVEL(moe_scaled_rows)

/* What the gate is, as a constant of loops. */
typedef enum moe_kind { MOE_SILU, MOE_LIMITED, MOE_GELU, MOE_GELU_EXACT } moe_kind;

typedef struct moe_gate {
    moe_kind kind;
    int interleaved;
    float limit, alpha, up_offset;
} moe_gate;

static inline moe_gate moe_gate_of(int64_t activation, int64_t interleaved, double limit,
                                   double alpha, double up_offset)
{
    const int plain = !(limit < HUGE_VAL) && alpha == 1 && up_offset == 0;
    const moe_kind kind = activation == TG_MOE_GEGLU         ? MOE_GELU
                          : activation == TG_MOE_GEGLU_EXACT ? MOE_GELU_EXACT
                          : plain                            ? MOE_SILU
                                                             : MOE_LIMITED;
    return (moe_gate){kind, interleaved != 0, (float)limit, (float)alpha, (float)up_offset};
}

#define MOE_GATE(args)                                                                 \
    moe_gate_of((args)->activation, (args)->interleaved, (args)->limit, (args)->alpha, \
                (args)->up_offset)

/* Rows of slots, [slots, columns], in memory of a tensor or of the workspace. */
typedef struct moe_rows {
    char *data; /* NULL: none */
    int64_t stride;
} moe_rows;

static inline moe_rows moe_rows_of(const tg_tensor *t)
{
    const tg_rows rows = tg_rows_of(t);
    return t ? (moe_rows){rows.data, rows.stride} : (moe_rows){0};
}

SIMD_INLINE char *moe_row(el e, const moe_rows *t, int64_t row, int64_t col)
{
    return t->data + (row * t->stride + col) * el_size(e);
}

/* New rows in the workspace; data is NULL without memory. */
static inline moe_rows moe_new_rows(tg_ctx *ctx, el e, int64_t rows, int64_t cols)
{
    return (moe_rows){tg_workspace(ctx, (size_t)(rows * cols * el_size(e)) + 64), cols};
}

/* The first product: [G | U] of each slot, and what becomes of it. */
typedef struct moe_projection {
    moe_sizes sizes;
    moe_gate gate;
    grouped_factor x, gate_up;
    int64_t transposed;
    const int64_t *offset;
    const float *bias;
    moe_rows pre, act; /* either may be NULL */
    el type;
} moe_projection;

void moe_project(tg_ctx *ctx, const grouped_memory *memory, const moe_projection *p);

/* Row x[t] times the weight of its slot, for each slot that has an expert. */
void moe_scaled_rows(tg_ctx *ctx, const moe_sizes *s, const tg_tensor *x, const float *weights,
                     const int64_t *slot, int64_t used, const moe_rows *to);

/* ---- gate and up of VL columns: apart, or neighbours in `first` ---- */

/* n of them are there, the others 0. */
SIMD_INLINE vf2 moe_load(el e, int interleaved, const void *first, const void *second, int64_t i,
                         int64_t n)
{
    if (!interleaved && n >= VL)
        return (vf2){v_load(e, first, i), v_load(e, second, i)};
    if (!interleaved)
        return (vf2){v_load_n(e, first, i, n, 0.0f), v_load_n(e, second, i, n, 0.0f)};
    const int64_t low = 2 * n < VL ? 2 * n : VL;
    const vf a = v_load_n(e, first, 2 * i, low, 0.0f);
    const vf b = v_load_n(e, first, 2 * i + VL, 2 * n < VL ? 0 : 2 * n - VL, 0.0f);
    return (vf2){V_SHUFFLE(a, b, V_EVEN), V_SHUFFLE(a, b, V_ODD)};
}

SIMD_INLINE void moe_store(el e, int interleaved, void *first, void *second, int64_t i, int64_t n,
                           vf2 x)
{
    if (!interleaved) {
        v_store_n(e, first, i, n, x.a);
        v_store_n(e, second, i, n, x.b);
        return;
    }
    const int64_t low = 2 * n < VL ? 2 * n : VL;
    v_store_n(e, first, 2 * i, low, V_SHUFFLE(x.a, x.b, V_ZIP_LOW));
    v_store_n(e, first, 2 * i + VL, 2 * n < VL ? 0 : 2 * n - VL, V_SHUFFLE(x.a, x.b, V_ZIP_HIGH));
}

/* ---- the gate ---- */

/* A and its derivatives by gate and up. */
typedef struct moe_gated {
    vf value, of_gate, of_up;
} moe_gated;

SIMD_INLINE moe_gated moe_silu(vf gate, vf up)
{
    const v_logistic s = v_logistic_of(gate);
    const vf silu = gate * s.value;
    return (moe_gated){silu * up, s.value * (gate * s.rest + v_set(1.0f)) * up, silu};
}

/* NaN is within the limit: a comparison with it is false. */
SIMD_INLINE moe_gated moe_limited(const moe_gate *g, vf gate, vf up)
{
    const vf limit = v_set(g->limit), alpha = v_set(g->alpha), zero = v_set(0.0f);
    const vi gate_beyond = gate > limit, up_beyond = v_abs(up) > limit;
    const vf u = v_select(gate_beyond, limit, gate);
    const vf v = v_select(up_beyond, v_if_negative(up, -limit, limit), up) + v_set(g->up_offset);
    const v_logistic s = v_logistic_of(u * alpha);
    const vf slope = s.value * (u * (alpha * s.rest) + v_set(1.0f)) * v;
    return (moe_gated){u * s.value * v, v_select(gate_beyond, zero, slope),
                       v_select(up_beyond, zero, u * s.value)};
}

/* As in geglu: what is clamped at 16, where s is 0 or 1, keeps the square from overflowing. */
SIMD_INLINE moe_gated moe_gelu(vf gate, vf up)
{
    const vf near = v_min(v_set(16.0f), v_abs(gate)), square = near * near;
    const vf linear = v_set(1.5957691216f), cubic = v_set(0.0713548163f);
    const vf power = v_exp_nonpositive(near * (square * -cubic - linear));
    const vf slope = square * (v_set(3.0f) * cubic) + linear;
    const vf large = v_recip(v_set(1.0f) + power), small = power * large;
    const vf s = v_if_negative(gate, small, large), rest = v_if_negative(gate, large, small);
    const vf value = gate * s;
    return (moe_gated){value * up, (value * (rest * slope) + s) * up, value};
}

SIMD_INLINE moe_gated moe_gelu_exact(vf gate, vf up)
{
    const v_normals normal = v_normal(gate);
    const vf below = v_if_negative(gate, normal.tail, v_set(1.0f) - normal.tail);
    const vf value = gate * below;
    return (moe_gated){value * up, (gate * (normal.bell * v_set(0.3989422804f)) + below) * up,
                       value};
}

SIMD_INLINE moe_gated moe_gated_of(moe_kind kind, const moe_gate *g, vf gate, vf up)
{
    return kind == MOE_SILU      ? moe_silu(gate, up)
           : kind == MOE_LIMITED ? moe_limited(g, gate, up)
           : kind == MOE_GELU    ? moe_gelu(gate, up)
                                 : moe_gelu_exact(gate, up);
}

/* A copy of fn for each kind, and for neighbours: fn(e, kind, interleaved, ...). */
#define MOE_BY_KIND(fn, e, gate, ...)                            \
    do {                                                         \
        if ((gate)->interleaved) {                               \
            MOE_BY_KIND_AT(fn, e, (gate)->kind, 1, __VA_ARGS__); \
        } else {                                                 \
            MOE_BY_KIND_AT(fn, e, (gate)->kind, 0, __VA_ARGS__); \
        }                                                        \
    } while (0)
#define MOE_BY_KIND_AT(fn, e, k, interleaved, ...)           \
    do {                                                     \
        if ((k) == MOE_SILU)                                 \
            fn(e, MOE_SILU, interleaved, __VA_ARGS__);       \
        else if ((k) == MOE_LIMITED)                         \
            fn(e, MOE_LIMITED, interleaved, __VA_ARGS__);    \
        else if ((k) == MOE_GELU)                            \
            fn(e, MOE_GELU, interleaved, __VA_ARGS__);       \
        else                                                 \
            fn(e, MOE_GELU_EXACT, interleaved, __VA_ARGS__); \
    } while (0)

#endif
