/* Passes over a row of logits, or a part of one: sums of exponentials, and the gradient. Exponents are
 * to base 2, x scale with scale = log2(e) / temperature, so that temperature costs nothing. They are
 * relative to a point: one multiply-add, unless the point is so far from 0 that its rounding would
 * tell; there differences of logits come first, which are exact where they matter. */
#ifndef TG_GRPO_LOSS_KERNELS_H
#define TG_GRPO_LOSS_KERNELS_H

#include "simd/simd.h"

/* Elements [i, i + VL) of n; `fill` past the end. */
SIMD_INLINE vf part_load(el e, const void *x, int64_t i, int64_t n, float fill)
{
    return v_load_n(e, x, i, v_tail(n, i), fill);
}

/* Points up to here are near 0: where the compiler makes no multiply-add of it, x scale is rounded before
 * the difference. */
#define NEAR 32.0f

/* (x - shift) scale - from; near 0 shift is 0. */
typedef struct exponent {
    float shift, scale, from;
} exponent;

/* The same, ready for vectors. */
typedef struct vector_exponent {
    vf shift, scale, from;
} vector_exponent;

SIMD_INLINE vector_exponent spread(const exponent *p)
{
    return (vector_exponent){v_set(p->shift), v_set(p->scale), v_set(p->from)};
}

SIMD_INLINE vf power(int far, const vector_exponent *p, vf x)
{
    return v_exp2((far ? x - p->shift : x) * p->scale - p->from);
}

/* sum of 2^exponent, scale > 0 */
SIMD_INLINE void power_sum_body(el e, int far, const void *x, int64_t n, const exponent *point,
                                float *sum)
{
    const vector_exponent s = spread(point);
    vf a = {0}, b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        const vf2 p = v_load2(e, e, x, i), q = v_load2(e, e, x, i + 2 * VL);
        v_ahead2(e, x, i);
        v_ahead2(e, x, i + 2 * VL);
        a += power(far, &s, p.a);
        b += power(far, &s, p.b);
        c += power(far, &s, q.a);
        d += power(far, &s, q.b);
    }
    for (; i < n; i += VL)
        a += power(far, &s, part_load(e, x, i, n, -INFINITY));
    *sum = v_sum((a + b) + (c + d));
}

__attribute__((noinline)) static float power_sum(el e, const void *x, int64_t n,
                                                 const exponent *point)
{
    float sum;
    if (point->shift != 0)
        EL_SPECIALIZE(e, power_sum_body, 1, x, n, point, &sum);
    else
        EL_SPECIALIZE(e, power_sum_body, 0, x, n, point, &sum);
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

/* factor 2^exponent. The factor lies between 1 and 2 or -1 and
 * -2: its size belongs into the exponent's `from`, for then products
 * that would be subnormal become 0. A sharp softmax has many of them, and whoever multiplies such numbers
 * waits for them. */
typedef struct row_gradient {
    exponent exponent;
    float factor;
} row_gradient;

/* Single vectors of [begin, end), the last one partial. */
SIMD_INLINE void gradient_part(el e, int far, const vector_exponent *p, vf factor, const void *x,
                               void *out, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += VL)
        v_store_n(e, out, i, v_tail(end, i), factor * power(far, p, part_load(e, x, i, end, 0)));
}

/* out may be x. */
SIMD_INLINE void gradient_body(el e, int far, int stream, const row_gradient *r, const void *x,
                               int64_t n, void *out)
{
    const vector_exponent p = spread(&r->exponent);
    const vf factor = v_set(r->factor);
    int64_t i = 0;
    if (stream && !v_streamable2(e, out)) { /* up to the first address that is */
        const int64_t line = VL * (e == EL_F16 ? 2 : 4);
        const int64_t head = (line - (int64_t)((uintptr_t)out % (uintptr_t)line)) / el_size(e);
        i = head < n ? head : n;
        gradient_part(e, far, &p, factor, x, out, 0, i);
    }
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf2 a = v_load2(e, e, x, i);
        v_ahead2(e, x, i);
        const vf2 d = {factor * power(far, &p, a.a), factor * power(far, &p, a.b)};
        v_write2(e, stream, out, i, d);
    }
    gradient_part(e, far, &p, factor, x, out, i, n);
}

__attribute__((noinline)) static void gradient_row(el e, int stream, const row_gradient *r,
                                                   const void *x, int64_t n, void *out)
{
    if (r->exponent.shift != 0 && stream)
        EL_SPECIALIZE(e, gradient_body, 1, 1, r, x, n, out);
    else if (r->exponent.shift != 0)
        EL_SPECIALIZE(e, gradient_body, 1, 0, r, x, n, out);
    else if (stream)
        EL_SPECIALIZE(e, gradient_body, 0, 1, r, x, n, out);
    else
        EL_SPECIALIZE(e, gradient_body, 0, 0, r, x, n, out);
}

#endif
