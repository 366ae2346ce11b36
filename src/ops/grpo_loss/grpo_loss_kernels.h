/* Passes over a row of logits, or a part of one: sums of exponentials, and the gradient. Exponents are
 * to base 2, x scale with scale = log2(e) / temperature, so that temperature costs nothing. */
#ifndef TG_GRPO_LOSS_KERNELS_H
#define TG_GRPO_LOSS_KERNELS_H

#include "simd/simd.h"

/* Elements [i, i + VL) of n; `fill` past the end. */
SIMD_INLINE vf part_load(el e, const void *x, int64_t i, int64_t n, float fill)
{
    return v_load_n(e, x, i, v_tail(n, i), fill);
}

/* sum of 2^(x scale - from), scale > 0 */
SIMD_INLINE void power_sum_body(el e, const void *x, int64_t n, float scale, float from, float *sum)
{
    const vf s = v_set(scale), f = v_set(from);
    vf a = {0}, b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        const vf2 p = v_load2(e, e, x, i), q = v_load2(e, e, x, i + 2 * VL);
        v_ahead2(e, x, i);
        v_ahead2(e, x, i + 2 * VL);
        a += v_exp2(p.a * s - f);
        b += v_exp2(p.b * s - f);
        c += v_exp2(q.a * s - f);
        d += v_exp2(q.b * s - f);
    }
    for (; i < n; i += VL)
        a += v_exp2(part_load(e, x, i, n, -INFINITY) * s - f);
    *sum = v_sum((a + b) + (c + d));
}

__attribute__((noinline)) static float power_sum(el e, const void *x, int64_t n, float scale,
                                                 float from)
{
    float sum;
    EL_SPECIALIZE(e, power_sum_body, x, n, scale, from, &sum);
    return sum;
}

/* The largest; NaN never is. */
SIMD_INLINE void largest_body(el e, const void *x, int64_t n, float *largest)
{
    vf a = v_set(-INFINITY), b = a;
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf2 p = v_load2(e, e, x, i);
        a = v_max(p.a, a);
        b = v_max(p.b, b);
    }
    for (; i < n; i += VL)
        a = v_max(part_load(e, x, i, n, -INFINITY), a);
    *largest = v_hmax(v_max(a, b));
}

__attribute__((noinline)) static float largest(el e, const void *x, int64_t n)
{
    float r;
    EL_SPECIALIZE(e, largest_body, x, n, &r);
    return r;
}

/* factor 2^(x scale - from). The factor lies between 1 and 2 or -1 and
 * -2: its size belongs into `from`, for then products
 * that would be subnormal become 0. A sharp softmax has many of them, and whoever multiplies such numbers
 * waits for them. */
typedef struct row_gradient {
    float scale, from, factor;
} row_gradient;

/* The same, ready for vectors. */
typedef struct vector_gradient {
    vf scale, from, factor;
} vector_gradient;

SIMD_INLINE vf gradient_of(const vector_gradient *g, vf x)
{
    return g->factor * v_exp2(x * g->scale - g->from);
}

/* Single vectors of [begin, end), the last one partial. */
SIMD_INLINE void gradient_part(el e, const vector_gradient *g, const void *x, void *out,
                               int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += VL)
        v_store_n(e, out, i, v_tail(end, i), gradient_of(g, part_load(e, x, i, end, 0)));
}

/* out may be x. */
SIMD_INLINE void gradient_body(el e, int stream, const row_gradient *r, const void *x, int64_t n,
                               void *out)
{
    const vector_gradient g = {v_set(r->scale), v_set(r->from), v_set(r->factor)};
    int64_t i = 0;
    if (stream && !v_streamable2(e, out)) { /* up to the first address that is */
        const int64_t line = VL * (e == EL_F16 ? 2 : 4);
        const int64_t head = (line - (int64_t)((uintptr_t)out % (uintptr_t)line)) / el_size(e);
        i = head < n ? head : n;
        gradient_part(e, &g, x, out, 0, i);
    }
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf2 a = v_load2(e, e, x, i);
        v_ahead2(e, x, i);
        const vf2 d = {gradient_of(&g, a.a), gradient_of(&g, a.b)};
        v_write2(e, stream, out, i, d);
    }
    gradient_part(e, &g, x, out, i, n);
}

__attribute__((noinline)) static void gradient_row(el e, int stream, const row_gradient *r,
                                                   const void *x, int64_t n, void *out)
{
    if (stream)
        EL_SPECIALIZE(e, gradient_body, 1, r, x, n, out);
    else
        EL_SPECIALIZE(e, gradient_body, 0, r, x, n, out);
}

#endif
