/* softmax_logp on the CPU: a row's largest logit, the sums relative to it, and its gradient. A row
 * is read once for each of them; the second time it comes from the cache. */
#include "softmax_logp_cpu.h"

#include "rows/exponentials.h"

static const void *at(const slogp_row *r, int64_t i)
{
    return (const char *)r->x + i * el_size(r->type);
}

/* ---- passes over a block ---- */

SIMD_INLINE v_tanhs capped(int cap, const slogp_row *r, vf x)
{
    v_tanhs c = {x, v_set(1)};
    if (cap) {
        c = v_tanh_slope(x / v_set(r->cap));
        c.tanh *= v_set(r->cap);
    }
    return c;
}

/* (x - max) degree, the difference first: it is exact where it matters. */
SIMD_INLINE vf distance(const slogp_row *r, vf x, float max)
{
    return (x - v_set(max)) * v_set(r->degree);
}

SIMD_INLINE void sum_body(el e, int cap, const slogp_row *r, const void *x, int64_t n,
                          slogp_sums *s)
{
    const vf zero = {0};
    vf others = zero, gaps = zero, squares = zero;
    for (int64_t i = 0; i < n; i += VL) {
        const vf d = distance(r, capped(cap, r, exps_load(e, x, i, n, 0)).tanh, s->max);
        const vf p = v_select(v_first(n - i), v_exp(d), zero);
        others += p;
        gaps -= v_select(p == zero, zero, p * d);
        squares += p * p;
    }
    s->others += v_sum(others);
    s->gaps += v_sum(gaps);
    s->squares += v_sum(squares);
}

SIMD_INLINE void total_body(el e, const void *x, int64_t n, double *total)
{
    vf sum = {0};
    for (int64_t i = 0; i < n; i += VL)
        sum += exps_load(e, x, i, n, 0);
    *total += v_sum(sum);
}

SIMD_INLINE void gradient_body(el e, int cap, const slogp_row *r, const slogp_gradient *g,
                               const void *x, int64_t n, float *out)
{
    const vf zero = {0};
    for (int64_t i = 0; i < n; i += VL) {
        const v_tanhs c = capped(cap, r, exps_load(e, x, i, n, 0));
        const vf d = distance(r, c.tanh, g->max), p = v_exp(d) * v_set(g->factor);
        vf of_p = v_set(g->logp);
        if (g->entropy != 0)
            of_p += v_select(p == zero, zero, v_set(g->entropy) * (d + v_set(g->mean_gap)));
        const vf gradient = of_p * p * c.slope;
        v_store(EL_F32, out, i, v_select(v_abs(gradient) < v_set(g->floor), zero, gradient));
    }
}

SIMD_INLINE void store_body(el e, const float *from, int64_t n, void *out)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(e, out, i, v_load(EL_F32, from, i));
    if (i < n)
        v_store_n(e, out, i, n - i, v_load(EL_F32, from, i));
}

/* ---- a row ---- */

float slogp_logit(const slogp_row *r, int64_t i, float *slope)
{
    const v_tanhs c = capped(r->cap > 0, r, v_set(el_get(r->type, r->x, i)));
    float values[VL], slopes[VL];
    v_store(EL_F32, values, 0, c.tanh);
    v_store(EL_F32, slopes, 0, c.slope);
    *slope = slopes[0];
    return values[0];
}

void slogp_sum_row(const slogp_row *r, int with_total, slogp_sums *s)
{
    float slope;
    *s = (slogp_sums){.best = exps_largest(r->type, r->x, r->n)};
    s->max = slogp_logit(r, s->best, &slope); /* softcap keeps their order but not in f32 */
    s->others = (double)s->max - s->max;      /* NaN where there is no finite largest */
    for (int64_t begin = exps_first(s->best), end; begin < r->n; begin = exps_next(end, s->best)) {
        end = exps_end(begin, s->best, r->n);
        if (r->cap > 0)
            EL_SPECIALIZE(r->type, sum_body, 1, r, at(r, begin), end - begin, s);
        else
            EL_SPECIALIZE(r->type, sum_body, 0, r, at(r, begin), end - begin, s);
    }
    for (int64_t begin = 0; with_total && begin < r->n; begin += EXPS_BLOCK) {
        const int64_t left = r->n - begin, n = left < EXPS_BLOCK ? left : EXPS_BLOCK;
        EL_SPECIALIZE(r->type, total_body, at(r, begin), n, &s->total);
    }
}

void slogp_write_row(const slogp_row *r, const slogp_gradient *g, el type, void *out)
{
    float block[EXPS_BLOCK + VL];
    for (int64_t begin = 0; begin < r->n; begin += EXPS_BLOCK) {
        const int64_t left = r->n - begin, n = left < EXPS_BLOCK ? left : EXPS_BLOCK;
        if (r->cap > 0)
            EL_SPECIALIZE(r->type, gradient_body, 1, r, g, at(r, begin), n, block);
        else
            EL_SPECIALIZE(r->type, gradient_body, 0, r, g, at(r, begin), n, block);
        EL_SPECIALIZE(type, store_body, block, n, (char *)out + begin * el_size(type));
    }
}
