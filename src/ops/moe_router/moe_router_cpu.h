/* moe_router_cpu.h - what both directions share: a token's logits as f32, and softmax over what is
 * held as f32. Runs of numbers have room for whole vectors, and in the last of them what changes no
 * result. Compiled once per level. */
#ifndef TG_MOE_ROUTER_CPU_H
#define TG_MOE_ROUTER_CPU_H

#include "rows/columns.h"
#include "rows/rows.h"
#include "runs.h"

/* WORTH: exponentials that are worth a thread. */
enum { WORTH = ROWS_WORTH / 4 };

/* n elements take so many floats. */
static inline int64_t router_room(int64_t n)
{
    return (n + VL - 1) / VL * VL + VL;
}

SIMD_INLINE void router_fill(float *x, int64_t n, float last)
{
    for (int64_t e = n; e < router_room(n); e++)
        x[e] = last;
}

/* x = a row of logits, and -inf behind it */
static inline void router_read(el type, const char *row, int64_t n, float *x)
{
    EL_SPECIALIZE(type, run_widen, row, x, n);
    router_fill(x, n, -INFINITY);
}

/* w = x of the chosen experts, and -inf behind them */
static inline void router_pick(const float *x, const int64_t *index, int64_t top_k, float *w)
{
    for (int64_t k = 0; k < top_k; k++)
        w[k] = x[index[k]];
    router_fill(w, top_k, -INFINITY);
}

static inline float router_max(const float *x, int64_t n)
{
    vf most = v_set(-INFINITY);
    for (int64_t e = 0; e < n; e += VL)
        most = v_max(v_load(EL_F32, x, e), most);
    return v_hmax(most);
}

/* y = exp(x - max); returns their sum. y may be x. */
static inline float router_exps(const float *x, float *y, int64_t n, float max)
{
    vf sum = v_set(0.0f);
    for (int64_t e = 0; e < n; e += VL) {
        const vf power = v_exp(v_load(EL_F32, x, e) - v_set(max));
        v_store(EL_F32, y, e, power);
        sum += power;
    }
    return v_sum(sum);
}

/* x = factor x */
static inline void router_scale(float *x, int64_t n, float factor)
{
    for (int64_t e = 0; e < n; e += VL)
        v_store(EL_F32, x, e, v_load(EL_F32, x, e) * v_set(factor));
}

#endif
