/* softmax_logp.cuh - what a call of softmax_logp is given, and the sums of a row of logits.
 *
 * One logit stands apart from the sums, which are relative to the largest: where it has nearly all
 * of the probability they keep their digits (README.md of the family). If log-probabilities of the
 * targets alone are asked for, that is the target's, and the row is gone through once; else it is
 * the largest, which is found first. With d = (x - max) / temperature of the others, sums are of
 * exp(d), of -d exp(d) and of exp(2 d). */
#ifndef CUDA_SOFTMAX_LOGP_CUH
#define CUDA_SOFTMAX_LOGP_CUH

#include "cross_entropy_rows.cuh"

struct slogp_args {
    plane_span logits, dlogits;
    const int64_t *target, *ids;
    float *logp, *lse, *entropy, *selected, *mean, *squares; /* NULL: not asked for */
    int64_t *predicted;
    const float *saved_lse, *saved_entropy, *dlogp, *dentropy, *dselected; /* dlogp NULL: forward */
    int64_t ignore_index, start;
    index_range range, ids_range;
    int n, count, lanes, slice; /* count: of ids; slice: other classes are elsewhere */
    int dlogits_type;
    float softcap, temperature, per_temperature, grad_scale;
};

/* What a kernel computes: log-probabilities of the targets and lse, or the gradient of these alone;
 * or all; and with softcap. */
enum { LOGP_ALONE, LOGP_ALL, LOGP_CAPPED };

/* Classes whose sum is rounded about as much as their logarithm is when it is saved. */
enum { LSE_OF_MANY = 1024 };

/* ---- the sums beside the target ---- */

/* In units of 1 / temperature, as are the sums: the target's logit counts from the largest of the
 * others, or from itself where these have no part. */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static row_odds odds_beside(const slogp_args &a, TEAM &t,
                                                       const ROW &logits, float x_y, int y)
{
    const float by = a.per_temperature * 1.44269504088896341f;
    float own = -CUDART_MAX_NORMAL_F, sum[1] = {0};
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
        if ((unsigned)(y - j) < (unsigned)V<T>)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] = j + i == y ? -CUDART_INF_F : v[i];
        float max = own;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            max = fmaxf(max, v[i]);
        if (max > own)
            sum[0] *= exp2_term((own - max) * by);
        own = max;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum[0] += exp2_term((v[i] - own) * by);
    });
    float max[1] = {own};
    t.reduce(max, larger());
    sum[0] *= exp2_term((own - max[0]) * by);
    t.sum(sum);
    const bool alone = sum[0] == 0;
    row_odds o = odds_of({alone ? x_y - x_y : (x_y - max[0]) * a.per_temperature,
                          alone ? -CUDART_MAX_NORMAL_F : 0, sum[0]});
    o.max = alone || x_y >= max[0] ? x_y : max[0];
    o.lse = alone && x_y == -CUDART_INF_F ? x_y : o.max * a.per_temperature + o.log_sum;
    return o;
}

/* From a saved lse, where its rounding does not tell; 0 where it does, as beside the sum of few
 * classes. */
__device__ __forceinline__ static int odds_saved(const slogp_args &a, float lse, float x_y,
                                                 row_odds *o)
{
    const int tells = odds_from(lse, x_y * a.per_temperature, a.n, o) && a.n >= LSE_OF_MANY;
    o->max = lse * a.temperature;
    o->scale = expf(o->max * a.per_temperature - lse);
    return tells;
}

/* ---- the sums beside the largest ---- */

struct slogp_sums {
    float max; /* after softcap */
    int best;
    float others, gaps, squares, total;
};

template <int MODE>
__device__ __forceinline__ static float distance(const slogp_args &a, float x, float max)
{
    return (capped<MODE == LOGP_CAPPED>(x, a.softcap) - max) * a.per_temperature;
}

/* The first of the largest, before softcap; NaN is none, and where there is nothing else the first
 * is taken. */
template <class T, int MODE, class TEAM, class ROW>
__device__ __forceinline__ static void find_largest(const slogp_args &a, TEAM &t, const ROW &logits,
                                                    slogp_sums *s)
{
    float best[1] = {-CUDART_INF_F}, total[1] = {0};
    int at = INT32_MAX;
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (!element<T>::WHOLE && j + i >= a.n)
                continue;
            total[0] += v[i];
            if (v[i] > best[0] || (at == INT32_MAX && v[i] == v[i])) {
                best[0] = v[i];
                at = j + i;
            }
        }
    });
    const float mine = best[0];
    t.reduce(best, larger());
    float first[1] = {__int_as_float(mine == best[0] ? at : INT32_MAX)};
    t.reduce(first, smaller_index());
    t.sum(total);
    const bool any = __float_as_int(first[0]) != INT32_MAX;
    s->best = any ? __float_as_int(first[0]) : 0;
    s->max = any ? capped<MODE == LOGP_CAPPED>(best[0], a.softcap) : CUDART_NAN_F;
    s->total = total[0];
}

template <class T, int MODE, class TEAM, class ROW>
__device__ __forceinline__ static slogp_sums sums_of(const slogp_args &a, TEAM &t,
                                                     const ROW &logits)
{
    slogp_sums s;
    find_largest<T, MODE>(a, t, logits, &s);
    float sums[3] = {t.lane == 0 ? s.max - s.max : 0, 0, 0}; /* NaN without a finite largest */
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if ((!element<T>::WHOLE && j + i >= a.n) || j + i == s.best)
                continue;
            const float d = distance<MODE>(a, v[i], s.max), p = exp_term(d);
            sums[0] += p;
            sums[1] -= p == 0 ? 0 : p * d;
            sums[2] += p * p;
        }
    });
    t.sum(sums);
    s.others = sums[0];
    s.gaps = sums[1];
    s.squares = sums[2];
    return s;
}

#endif
