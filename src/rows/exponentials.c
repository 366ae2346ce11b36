/* src/rows/exponentials.c - sums of exponentials over a block of logits. */
#include "rows/exponentials.h"

enum { UNROLL = 4, STEP = UNROLL * VL };

SIMD_INLINE vf fold(const vf *a)
{
    return (a[0] + a[1]) + (a[2] + a[3]);
}

SIMD_INLINE vf fold_max(const vf *a)
{
    return v_max(v_max(a[0], a[1]), v_max(a[2], a[3]));
}

SIMD_INLINE void sum_body(el e, int kept, int with_max, const void *x, int64_t n, float from,
                          float *keep, exps_sums *result)
{
    const int64_t ahead = v_distance.exps / el_size(e);
    const v_origin origin = v_origin_at(from);
    const vf lowest = v_set(-INFINITY);
    vf max[UNROLL] = {lowest, lowest, lowest, lowest}, sum[UNROLL] = {{0}};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (int u = 0; u < UNROLL; u++) {
            const vf a = v_load(e, x, i + u * VL), p = v_exp_from(a, origin);
            if (u * VL * el_size(e) % 64 == 0)
                v_prefetch((const char *)x + (i + u * VL + ahead) * el_size(e));
            sum[u] += p;
            if (with_max)
                max[u] = v_max(a, max[u]);
            if (kept)
                v_store(EL_F32, keep, i + u * VL, p);
        }
    for (; i < n; i += VL) {
        const vf a = exps_load(e, x, i, n, -INFINITY), p = v_exp_from(a, origin);
        sum[0] += p;
        if (with_max)
            max[0] = v_max(a, max[0]);
        if (kept)
            v_store(EL_F32, keep, i, p);
    }
    result->sum = v_sum(fold(sum));
    result->max = with_max ? v_hmax(fold_max(max)) : 0;
}

static exps_sums sum_near(el e, int with_max, const void *x, int64_t n, float from, float *keep)
{
    exps_sums r;
    if (keep && with_max)
        EL_SPECIALIZE(e, sum_body, 1, 1, x, n, from, keep, &r);
    else if (keep)
        EL_SPECIALIZE(e, sum_body, 1, 0, x, n, from, keep, &r);
    else if (with_max)
        EL_SPECIALIZE(e, sum_body, 0, 1, x, n, from, keep, &r);
    else
        EL_SPECIALIZE(e, sum_body, 0, 0, x, n, from, keep, &r);
    return r;
}

SIMD_INLINE void max_body(el e, const void *x, int64_t n, float *result)
{
    const vf lowest = v_set(-INFINITY);
    vf max[UNROLL] = {lowest, lowest, lowest, lowest};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (int u = 0; u < UNROLL; u += 2) {
            const vf2 a = v_load2(e, e, x, i + u * VL);
            max[u] = v_max(a.a, max[u]);
            max[u + 1] = v_max(a.b, max[u + 1]);
        }
    for (; i < n; i += VL)
        max[0] = v_max(exps_load(e, x, i, n, -INFINITY), max[0]);
    *result = v_hmax(fold_max(max));
}

float exps_max(el e, const void *x, int64_t n)
{
    float r;
    EL_SPECIALIZE(e, max_body, x, n, &r);
    return r;
}

/* x - from, padded to whole vectors. */
SIMD_INLINE void shift_body(el e, const void *x, int64_t n, float from, float *out)
{
    for (int64_t i = 0; i < n; i += VL)
        v_store(EL_F32, out, i, exps_load(e, x, i, n, 0) - v_set(from));
}

/* Beyond the reach of v_exp_from differences are formed first, which are exact
 * where they matter. */
static exps_sums sum_far(el e, int with_max, const void *x, int64_t n, float from, float *keep)
{
    float near[EXPS_BLOCK + VL];
    /* no case: f16 ends before V_ORIGIN_FAR */
    EL_SPECIALIZE(e, shift_body, x, n, from, near);
    exps_sums r = sum_near(EL_F32, 0, near, n, 0, keep);
    r.max = with_max ? exps_max(e, x, n) : 0;
    return r;
}

exps_sums exps_sum(el e, int with_max, const void *x, int64_t n, float from, float *keep)
{
    return fabsf(from) <= V_ORIGIN_FAR ? sum_near(e, with_max, x, n, from, keep)
                                       : sum_far(e, with_max, x, n, from, keep);
}

/* ---- to base 2 ---- */

/* sum of 2^exponent, scale > 0 */
SIMD_INLINE void sum2_body(el e, int far, const void *x, int64_t n, const exps_power *power,
                           float *sum)
{
    const exps_powers s = exps_spread(power);
    vf a = {0}, b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        const vf2 p = v_load2(e, e, x, i), q = v_load2(e, e, x, i + 2 * VL);
        v_ahead2(e, x, i);
        v_ahead2(e, x, i + 2 * VL);
        a += exps_at(far, &s, p.a);
        b += exps_at(far, &s, p.b);
        c += exps_at(far, &s, q.a);
        d += exps_at(far, &s, q.b);
    }
    for (; i < n; i += VL)
        a += exps_at(far, &s, v_load_n(e, x, i, v_tail(n, i), -INFINITY));
    *sum = v_sum((a + b) + (c + d));
}

float exps_sum2(el e, const void *x, int64_t n, const exps_power *power)
{
    float sum;
    if (power->shift != 0)
        EL_SPECIALIZE(e, sum2_body, 1, x, n, power, &sum);
    else
        EL_SPECIALIZE(e, sum2_body, 0, x, n, power, &sum);
    return sum;
}

/* ---- the largest of a row ---- */

int64_t exps_largest(el e, const void *x, int64_t n)
{
    float max = -INFINITY;
    int64_t in = 0;
    for (int64_t begin = 0; begin < n; begin += EXPS_BLOCK) {
        const int64_t left = n - begin;
        const void *block = (const char *)x + begin * el_size(e);
        const float m = exps_max(e, block, left < EXPS_BLOCK ? left : EXPS_BLOCK);
        if (m > max) {
            max = m;
            in = begin;
        }
    }
    for (int64_t i = in; i < n; i++)
        if (el_get(e, x, i) == max)
            return i;
    return 0;
}
