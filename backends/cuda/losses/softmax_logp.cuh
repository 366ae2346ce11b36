/* softmax_logp.cuh - what a call of softmax_logp is given, and the sums of a row of logits.
 *
 * The largest logit stands apart from the sums, which are relative to it: where it has nearly all
 * of the probability they keep their digits (README.md of the family). With d = (x - max) /
 * temperature of the others, they are of exp(d), of -d exp(d) and of exp(2 d). */
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

/* ---- the sums of a row ---- */

struct slogp_sums {
    float max; /* after softcap */
    int best;
    float others, gaps, squares, total;
};

__device__ __forceinline__ static float distance(const slogp_args &a, float x, float max)
{
    return (capped<true>(x, a.softcap) - max) * a.per_temperature;
}

/* The first of the largest, before softcap; NaN is none, and where there is nothing else the first
 * is taken. */
template <class T>
__device__ __forceinline__ static void find_largest(const slogp_args &a, team &t,
                                                    const walked_row<T> &logits, slogp_sums *s)
{
    float best[1] = {-CUDART_INF_F}, total[1] = {0};
    int at = INT32_MAX;
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
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
    s->max = any ? capped<true>(best[0], a.softcap) : CUDART_NAN_F;
    s->total = total[0];
}

template <class T>
__device__ __forceinline__ static slogp_sums sums_of(const slogp_args &a, team &t,
                                                     const walked_row<T> &logits)
{
    slogp_sums s;
    find_largest(a, t, logits, &s);
    float sums[3] = {t.lane == 0 ? s.max - s.max : 0, 0, 0}; /* NaN without a finite largest */
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n || j + i == s.best)
                continue;
            const float d = distance(a, v[i], s.max), p = exp_term(d);
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
