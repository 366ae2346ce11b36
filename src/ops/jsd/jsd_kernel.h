/* One span of a row of jsd: loss and gradient in one pass. Included once per level. */
#ifndef TG_JSD_KERNEL_H
#define TG_JSD_KERNEL_H

#include "simd.h"

/* beta 0, 1, 1/2, another between */
typedef enum jsd_kind { JSD_FORWARD, JSD_REVERSE, JSD_EVEN, JSD_MIXTURE } jsd_kind;

typedef struct jsd_weights {
    vf beta, rest; /* rest: 1 - beta */
    vf scale;      /* of the gradient; for a mixture 1 - beta and the unit are in it */
} jsd_weights;

/* A part of a row. */
typedef struct jsd_span {
    const char *student, *teacher;
    char *dstudent; /* or NULL */
    int64_t n;
} jsd_span;

/* Probabilities in mixtures are in units of 2^-60 and 0 below 2^-126: products with them are subnormal,
 * and slow, only where the gradient is. */
#define JSD_UNIT 0x1p-60

/* The gradient is before its scale; for a mixture both are in those units. */
typedef struct jsd_term {
    vf loss, gradient;
} jsd_term;

/* weight * logarithm; nothing if the weight is 0 */
SIMD_INLINE vf jsd_product(vf weight, vf logarithm)
{
    const vf zero = v_set(0.0f);
    return v_select(weight == zero, zero, weight * logarithm);
}

SIMD_INLINE vf jsd_probability(vf log_p)
{
    return v_exp_from(log_p, v_origin_at(0.0f)) * v_set((float)(1 / JSD_UNIT));
}

/* What follows from l = log m, m = 1 + shift: its logarithm, the loss over E, and log M - log E. */
typedef struct jsd_logs {
    vf l, loss, of_m;
} jsd_logs;

SIMD_INLINE jsd_logs jsd_weighed(vf n, vf2 power, vf w, vf r)
{
    const vi from_smaller = (w > r) & (power.a > r);
    const vf shift = w * power.b;
    const vf l = v_log1p(v_select(from_smaller, -r * power.b * v_recip(power.a), shift));
    const vf loss = v_select(from_smaller, -r, w * power.a) * n - l * (shift + v_set(1.0f));
    return (jsd_logs){l, loss, v_select(from_smaller, n, v_set(0.0f)) + l};
}

/* Let E be the larger of the two probabilities, w the weight of the smaller in the mixture and r the
 * other, n <= 0 the difference of the logarithms and t = exp(n). Then M = E m, m = 1 + w (t - 1), and
 * with l the logarithm of m the loss is E (w t n - l m). Where the smaller one makes up most of M, those
 * two are nearly equal; there m is counted from t instead, m = t (1 + r (1 - t) / t), and with l the
 * logarithm of that bracket the loss is E (-r n - l m). Neither E nor t has to be representable:
 * -1e30 stands for -inf, and log-probabilities more than 200 apart are as good as 200 apart. */
SIMD_INLINE jsd_term jsd_mixture(vf x, vf y, const jsd_weights *by)
{
    const vf lowest = v_set(-1e30f), zero = v_set(0.0f), one = v_set(1.0f);
    const vf a = v_max(lowest, x), b = v_max(lowest, y), d = b - a; /* d < 0: x is larger */
    const vf n = v_max(v_set(-200.0f), v_minus_abs(d));
    const vf2 power = v_exp_expm1(v_max(v_set(-87.0f), n));
    const vf larger = jsd_probability(v_max(a, b));
    const jsd_logs m = jsd_weighed(n, power, v_if_negative(d, by->beta, by->rest),
                                   v_if_negative(d, by->rest, by->beta));
    const vf kept = v_select(a < v_set(-87.0f), zero, power.a);
    const vf q = larger * v_if_negative(d, one, kept);
    /* log q - log E is 0 or n */
    return (jsd_term){larger * m.loss, q * (v_if_negative(d, zero, n) - m.of_m)};
}

/* -log(1 + u / 2) for u in [-1, 0] or NaN: -u p(u); p: minimax of degree 8, relative error 3.0e-8, odd and even
 * powers side by side */
SIMD_INLINE vf jsd_minus_log(vf u)
{
    const vf v = u * u;
    vf odd = v_set(0.005479129031300545f), even = v_set(0.002538924105465412f);
    odd = odd * v + v_set(0.001443274668417871f);
    odd = odd * v + v_set(-0.015415643341839314f);
    odd = odd * v + v_set(-0.125f);
    even = even * v + v_set(0.007879965007305145f);
    even = even * v + v_set(0.007555767893791199f);
    even = even * v + v_set(0.0416792631149292f);
    even = even * v + v_set(0.5f);
    return -u * (odd * u + even);
}

/* Both weights are 1/2. With E, n and t as above and h = log E - log M, the terms over E are h for the larger
 * probability, t (n + h) for the smaller one, and the loss is half their sum: it is given twice. Probabilities
 * below e^-120 are taken for that. */
SIMD_INLINE jsd_term jsd_even(vf x, vf y)
{
    const vf lowest = v_set(-120.0f);
    const vf a = v_max(lowest, x), b = v_max(lowest, y), d = b - a; /* d < 0: x is larger */
    const vf n = v_max(v_set(-87.0f), v_minus_abs(d));
    const vf2 power = v_exp_expm1(n);
    const vf h = jsd_minus_log(power.b), distance = n + h, two = v_set(2.0f);
    const vf larger = v_exp_scaled(v_max(a, b), (float)(1 / JSD_UNIT));
    const vf kept = v_select(a < v_set(-87.0f), v_set(0.0f), larger);
    /* h + t (n + h), whose terms nearly cancel, with t = 1 + u: n + 2 h is exact where they do */
    const vf loss = power.b * distance + (h * two + n);
    return (jsd_term){larger * loss, kept * v_if_negative(d, h, power.a * distance)};
}

SIMD_INLINE jsd_term jsd_term_of(jsd_kind kind, vf x, vf y, const jsd_weights *by)
{
    if (kind == JSD_EVEN)
        return jsd_even(x, y);
    if (kind == JSD_MIXTURE)
        return jsd_mixture(x, y, by);
    if (kind == JSD_FORWARD) {
        const vf p = v_exp_from(y, v_origin_at(0.0f));
        return (jsd_term){jsd_product(p, y - x), -p};
    }
    const vf q = v_exp_from(x, v_origin_at(0.0f)), loss = jsd_product(q, x - y);
    return (jsd_term){loss, loss + q};
}

/* Elements [begin, end), a vector at a time. */
SIMD_INLINE vf jsd_some(el e, jsd_kind kind, const jsd_weights *by, const jsd_span *s,
                        int64_t begin, int64_t end)
{
    vf sum = v_set(0.0f);
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        const jsd_term t = jsd_term_of(kind, v_load_n(e, s->student, i, n, -INFINITY),
                                       v_load_n(e, s->teacher, i, n, -INFINITY), by);
        sum += t.loss;
        if (s->dstudent)
            v_store_n(e, s->dstudent, i, n, t.gradient * by->scale);
    }
    return sum;
}

SIMD_INLINE void jsd_run(el e, jsd_kind kind, int stream, const jsd_weights *by, const jsd_span *s,
                         double *sum)
{
    int64_t i = stream ? v_head2(e, s->dstudent, s->n) : 0;
    vf a = jsd_some(e, kind, by, s, 0, i), b = v_set(0.0f);
    for (; i + 2 * VL <= s->n; i += 2 * VL) {
        v_ahead2(e, s->student, i);
        v_ahead2(e, s->teacher, i);
        const vf2 x = v_load2(e, e, s->student, i), y = v_load2(e, e, s->teacher, i);
        const jsd_term f = jsd_term_of(kind, x.a, y.a, by), g = jsd_term_of(kind, x.b, y.b, by);
        const vf2 d = {f.gradient * by->scale, g.gradient * by->scale};
        a += f.loss;
        b += g.loss;
        if (stream)
            v_stream2(e, s->dstudent, i, d);
        else if (s->dstudent)
            v_store2(e, s->dstudent, i, d);
    }
    *sum += v_sum(a + b + jsd_some(e, kind, by, s, i, s->n));
}

SIMD_INLINE void jsd_kinds(el e, jsd_kind kind, int stream, const jsd_weights *by,
                           const jsd_span *s, double *sum)
{
#define JSD_RUN(KIND)                    \
    if (kind == KIND && stream)          \
        jsd_run(e, KIND, 1, by, s, sum); \
    else if (kind == KIND)               \
    jsd_run(e, KIND, 0, by, s, sum)
    JSD_RUN(JSD_FORWARD);
    JSD_RUN(JSD_REVERSE);
    JSD_RUN(JSD_EVEN);
    JSD_RUN(JSD_MIXTURE);
#undef JSD_RUN
}

#endif
