/* Passes over one block of a row of logits. A block of CE_BLOCK elements stays in the first-level
 * cache, so a pass that finds the block there is nearly free; the exponentials of a whole row stay
 * in the second-level cache. The element type is a run-time argument: one branch a block. */
#ifndef TG_CROSS_ENTROPY_BLOCK_H
#define TG_CROSS_ENTROPY_BLOCK_H

#include <math.h>
#include <stdint.h>

#include "simd/simd.h"

enum { CE_BLOCK = 2048, CE_UNROLL = 4, CE_STEP = CE_UNROLL * VL };
enum { CE_AHEAD = 8192 }; /* bytes; arithmetic keeps hardware prefetchers from running far ahead */

static inline const void *ce_at(el e, const void *p, int64_t i)
{
    return (const char *)p + i * el_size(e);
}

/* Elements [i, i + VL) of n; `fill` past the end. */
SIMD_INLINE vf ce_load(el e, const void *x, int64_t i, int64_t n, float fill)
{
    return n - i >= VL ? v_load(e, x, i) : v_load_n(e, x, i, n - i, fill);
}

SIMD_INLINE vf ce_fold(const vf *a)
{
    return (a[0] + a[1]) + (a[2] + a[3]);
}

SIMD_INLINE vf ce_fold_max(const vf *a)
{
    return v_max(v_max(a[0], a[1]), v_max(a[2], a[3]));
}

/* Of exp(x - from), which goes into keep (if not NULL, padded to whole vectors), and of x. NaN is
 * never the largest. */
typedef struct ce_sums {
    float sum, max; /* max only if asked for */
} ce_sums;

SIMD_INLINE void ce_exp_body(el e, int kept, int with_max, const void *x, int64_t n, float from,
                             float *keep, ce_sums *result)
{
    const int64_t ahead = CE_AHEAD / el_size(e);
    const v_origin origin = v_origin_at(from);
    const vf lowest = v_set(-INFINITY);
    vf max[CE_UNROLL] = {lowest, lowest, lowest, lowest}, sum[CE_UNROLL] = {{0}};
    int64_t i = 0;
    for (; i + CE_STEP <= n; i += CE_STEP)
        for (int u = 0; u < CE_UNROLL; u++) {
            const vf a = v_load(e, x, i + u * VL), p = v_exp_from(a, origin);
            if (u * VL * el_size(e) % 64 == 0)
                v_prefetch(ce_at(e, x, i + u * VL + ahead));
            sum[u] += p;
            if (with_max)
                max[u] = v_max(a, max[u]);
            if (kept)
                v_store(EL_F32, keep, i + u * VL, p);
        }
    for (; i < n; i += VL) {
        const vf a = ce_load(e, x, i, n, -INFINITY), p = v_exp_from(a, origin);
        sum[0] += p;
        if (with_max)
            max[0] = v_max(a, max[0]);
        if (kept)
            v_store(EL_F32, keep, i, p);
    }
    result->sum = v_sum(ce_fold(sum));
    result->max = with_max ? v_hmax(ce_fold_max(max)) : 0;
}

__attribute__((noinline)) static ce_sums ce_exp_block(el e, int with_max, const void *x, int64_t n,
                                                      float from, float *keep)
{
    ce_sums r;
    if (keep && with_max)
        EL_SPECIALIZE(e, ce_exp_body, 1, 1, x, n, from, keep, &r);
    else if (keep)
        EL_SPECIALIZE(e, ce_exp_body, 1, 0, x, n, from, keep, &r);
    else if (with_max)
        EL_SPECIALIZE(e, ce_exp_body, 0, 1, x, n, from, keep, &r);
    else
        EL_SPECIALIZE(e, ce_exp_body, 0, 0, x, n, from, keep, &r);
    return r;
}

SIMD_INLINE void ce_max_body(el e, const void *x, int64_t n, float *result)
{
    const vf lowest = v_set(-INFINITY);
    vf max[CE_UNROLL] = {lowest, lowest, lowest, lowest};
    int64_t i = 0;
    for (; i + CE_STEP <= n; i += CE_STEP)
        for (int u = 0; u < CE_UNROLL; u++)
            max[u] = v_max(v_load(e, x, i + u * VL), max[u]);
    for (; i < n; i += VL)
        max[0] = v_max(ce_load(e, x, i, n, -INFINITY), max[0]);
    *result = v_hmax(ce_fold_max(max));
}

__attribute__((noinline)) static float ce_max_block(el e, const void *x, int64_t n)
{
    float r;
    EL_SPECIALIZE(e, ce_max_body, x, n, &r);
    return r;
}

/* x - from, padded to whole vectors. */
SIMD_INLINE void ce_shift_body(el e, const void *x, int64_t n, float from, float *out)
{
    for (int64_t i = 0; i < n; i += VL)
        v_store(EL_F32, out, i, ce_load(e, x, i, n, 0) - v_set(from));
}

/* Beyond the reach of v_exp_from differences are formed first, which are exact where they matter. */
__attribute__((noinline)) static ce_sums ce_exp_far(el e, int with_max, const void *x, int64_t n,
                                                    float from, float *keep)
{
    float near[CE_BLOCK + VL];
    /* no case: of f16, whose logits do not go so far */
    EL_SPECIALIZE(e, ce_shift_body, x, n, from, near);
    ce_sums r = ce_exp_block(EL_F32, 0, near, n, 0, keep);
    r.max = with_max ? ce_max_block(e, x, n) : 0;
    return r;
}

/* ce_exp_block relative to any point, however far from 0. */
static inline ce_sums ce_exp_from(el e, int with_max, const void *x, int64_t n, float from,
                                  float *keep)
{
    return fabsf(from) <= V_ORIGIN_FAR ? ce_exp_block(e, with_max, x, n, from, keep)
                                       : ce_exp_far(e, with_max, x, n, from, keep);
}

/* The point that those exponentials are relative to. */
static inline double ce_origin(float from)
{
    return fabsf(from) <= V_ORIGIN_FAR ? v_origin_at(from).at : from;
}

/* The first element equal to value, n if there is none. */
SIMD_INLINE void ce_find_body(el e, const void *x, int64_t n, float value, int64_t *result)
{
    int64_t i = 0;
    /* no case: without a hit; tests/core/nan.c has a block of NaN alone beside a target of -inf */
    for (; i < n; i += VL) {
        const vf a = ce_load(e, x, i, n, NAN);
        const vf hit = v_select(a == v_set(value), v_set(1), v_set(0));
        if (v_hmax(hit) == 0)
            continue;
        while (el_get(e, x, i) != value)
            i++;
        break;
    }
    *result = i < n ? i : n;
}

__attribute__((noinline)) static int64_t ce_find(el e, const void *x, int64_t n, float value)
{
    int64_t r;
    EL_SPECIALIZE(e, ce_find_body, x, n, value, &r);
    return r;
}

/* For label smoothing: sum of w (x - at) and sum of w; w = 1 without weights. A class of weight 0
 * adds nothing, even if its logit is -inf. */
typedef struct ce_smooth {
    float wx, w;
} ce_smooth;

SIMD_INLINE void ce_smooth_body(el e, const void *x, int64_t n, float at, const float *weight,
                                ce_smooth *result)
{
    const vf shift = v_set(at), zero = {0};
    vf wx = {0}, ws = {0};
    for (int64_t i = 0; i < n; i += VL) {
        const vf a = ce_load(e, x, i, n, 0) - shift;
        const vf w =
            weight ? ce_load(EL_F32, weight, i, n, 0) : v_select(v_first(n - i), v_set(1), zero);
        wx += v_select(w != zero, w * a, zero);
        ws += w;
    }
    result->wx = v_sum(wx);
    result->w = v_sum(ws);
}

__attribute__((noinline)) static ce_smooth ce_smooth_block(el e, const void *x, int64_t n, float at,
                                                           const float *weight)
{
    ce_smooth r;
    EL_SPECIALIZE(e, ce_smooth_body, x, n, at, weight, &r);
    return r;
}

/* Softcap: t = tanh(x / cap), out = cap t, slope = 1 - t^2 (if not NULL); both padded to whole
 * vectors. */
SIMD_INLINE void ce_cap_body(el e, const void *x, int64_t n, float cap, float *out, float *slope)
{
    const vf c = v_set(cap), one = v_set(1);
    for (int64_t i = 0; i < n; i += VL) {
        const vf t = v_tanh(ce_load(e, x, i, n, 0) / c);
        v_store(EL_F32, out, i, c * t);
        if (slope)
            v_store(EL_F32, slope, i, one - t * t);
    }
}

__attribute__((noinline)) static void ce_cap_block(el e, const void *x, int64_t n, float cap,
                                                   float *out, float *slope)
{
    EL_SPECIALIZE(e, ce_cap_body, x, n, cap, out, slope);
}

/* What is less than the smallest normal p, or the smallest normal number, times the upstream gradient
 * `scale`, becomes 0: a sharp softmax has many such elements, and products that follow would be very
 * slow with them. */
static inline float ce_floor(double scale)
{
    return (float)(0x1p-126 * (fabs(scale) > 1 ? fabs(scale) : 1));
}

SIMD_INLINE vf ce_normal(vf d, vf floor)
{
    return v_select(v_abs(d) < floor, v_set(0.0f), d);
}

/* The gradient of a block from its exponentials: (p scale - w bias) slope. */
typedef struct ce_terms {
    const float *p, *weight, *slope; /* weight and slope may be NULL: 1 */
    float scale, bias;
    float floor; /* of ce_floor */
} ce_terms;

SIMD_INLINE vf ce_term(int plain, const ce_terms *t, int64_t i, int64_t n)
{
    vf d = v_load(EL_F32, t->p, i) * v_set(t->scale);
    if (plain)
        return ce_normal(d, v_set(t->floor));
    d -= t->weight ? ce_load(EL_F32, t->weight, i, n, 0) * v_set(t->bias) : v_set(t->bias);
    return t->slope ? d * v_load(EL_F32, t->slope, i) : d;
}

/* p and slope may be read up to VL elements past n. */
SIMD_INLINE void ce_grad_body(el e, int plain, int stream, const ce_terms *t, int64_t n, void *out)
{
    int64_t i = 0;
    if (stream) { /* up to the first aligned address */
        const int64_t off = (int64_t)((uintptr_t)out / (uintptr_t)el_size(e) % VL);
        i = off ? VL - off : 0;
        i = i < n ? i : n;
        v_store_n(e, out, 0, i, ce_term(plain, t, 0, n));
    }
    for (; i + VL <= n; i += VL) {
        if (stream)
            v_stream(e, out, i, ce_term(plain, t, i, n));
        else
            v_store(e, out, i, ce_term(plain, t, i, n));
    }
    if (i < n)
        v_store_n(e, out, i, n - i, ce_term(plain, t, i, n));
}

__attribute__((noinline)) static void ce_grad_block(el e, int stream, const ce_terms *t, int64_t n,
                                                    void *out)
{
    const int plain = t->bias == 0 && !t->slope;
    if (plain && stream)
        EL_SPECIALIZE(e, ce_grad_body, 1, 1, t, n, out);
    else if (plain)
        EL_SPECIALIZE(e, ce_grad_body, 1, 0, t, n, out);
    else if (stream)
        EL_SPECIALIZE(e, ce_grad_body, 0, 1, t, n, out);
    else
        EL_SPECIALIZE(e, ce_grad_body, 0, 0, t, n, out);
}

/* exp(x - from) scale of any length, |from| up to V_ORIGIN_FAR: the gradient from the logits, where
 * nothing else is asked for. out has the type of x and may be x. */
SIMD_INLINE void ce_direct_body(el e, int stream, const void *x, int64_t n, float from, float scale,
                                float lowest, void *out)
{
    const int64_t ahead = CE_AHEAD / el_size(e);
    const v_origin origin = v_origin_at(from);
    const vf s = v_set(scale), floor = v_set(lowest);
    int64_t i = 0;
    if (stream) { /* up to the first aligned address */
        const int64_t off = (int64_t)((uintptr_t)out / (uintptr_t)el_size(e) % VL);
        i = off ? VL - off : 0;
        i = i < n ? i : n;
        v_store_n(e, out, 0, i, ce_normal(s * v_exp_from(ce_load(e, x, 0, n, 0), origin), floor));
    }
    for (; i + VL <= n; i += VL) {
        v_prefetch(ce_at(e, x, i + ahead));
        const vf d = ce_normal(s * v_exp_from(v_load(e, x, i), origin), floor);
        if (stream)
            v_stream(e, out, i, d);
        else
            v_store(e, out, i, d);
    }
    if (i < n)
        v_store_n(e, out, i, n - i,
                  ce_normal(s * v_exp_from(v_load_n(e, x, i, n - i, 0), origin), floor));
}

__attribute__((noinline)) static void ce_direct(el e, int stream, const void *x, int64_t n,
                                                float from, float scale, float lowest, void *out)
{
    if (stream)
        EL_SPECIALIZE(e, ce_direct_body, 1, x, n, from, scale, lowest, out);
    else
        EL_SPECIALIZE(e, ce_direct_body, 0, x, n, from, scale, lowest, out);
}

#endif
