/* softmax_kl_div_rows.cuh - a row of softmax_kl_div in three passes: for the largest logit, for the
 * sums relative to it, and for loss and gradient. The class with the largest logit stands apart
 * from the sums (README.md of the family). */
#ifndef CUDA_SOFTMAX_KL_DIV_ROWS_CUH
#define CUDA_SOFTMAX_KL_DIV_ROWS_CUH

#include "losses/batch.cuh"
#include "losses/largest.cuh"
#include "losses/logits.cuh"
#include "rows/logarithms.cuh"
#include "rows/mixed.cuh"

struct skl_args : batch_args {
    row_span logits, target, dlogits; /* dlogits.data NULL: no gradient */
    float per_temperature, eps;
    int target_type, dlogits_type;
};

/* ---- chunks beside those of the logits ---- */

/* Y as those that are whole if T is. */
template <class T, class Y> struct like_whole {
    typedef Y type;
};
template <class T, class Y> struct like_whole<whole<T>, Y> {
    typedef whole<Y> type;
};

template <class T, class RUN>
__device__ __forceinline__ static void by_type_there(int type, const RUN &run)
{
    if (type == TG_F32)
        run(typename like_whole<T, float>::type());
    else if (type == TG_BF16)
        run(typename like_whole<T, bf16>::type());
    else
        run(typename like_whole<T, f16>::type());
}

/* Elements beyond the row are 0. */
template <class T>
__device__ __forceinline__ static void load_target(const skl_args &a, int64_t r, int j,
                                                   float (&t)[V<T>])
{
    by_type_there<T>(a.target_type, [&](auto e) {
        load_as<decltype(e)>(a.target.row<decltype(e)>(r) + j, a.n - j, t);
    });
}

template <class T>
__device__ __forceinline__ static void store_dlogits(const skl_args &a, int64_t r, int j,
                                                     const float (&d)[V<T>])
{
    by_type_there<T>(a.dlogits_type, [&](auto e) {
        store_as<decltype(e)>(a.dlogits.row<decltype(e)>(r) + j, a.n - j, d);
    });
}

/* ---- a row ---- */

/* Relative to the largest logit; rest, of_best: targets of the other classes, and of that one. */
struct skl_sums {
    softmax_largest top;
    float others, rest, of_best;
};

/* NaN is not the largest, nor is -inf: without another the sums are NaN. */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static softmax_largest find_largest(const skl_args &a, TEAM &t,
                                                               const ROW &logits)
{
    softmax_largest own = {-CUDART_INF_F, INT32_MAX};
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) { own.add(v, j); });
    float max[1] = {own.max};
    t.reduce(max, larger());
    float at[1] = {__int_as_float(own.max == max[0] ? own.at : INT32_MAX)};
    t.reduce(at, smaller_index());
    return {max[0], __float_as_int(at[0])};
}

/* To base 2 of a class' power beside the largest. */
__device__ __forceinline__ static float scale_of(const skl_args &a)
{
    return a.per_temperature * LOG2_E;
}

template <class T, class TEAM, class ROW>
__device__ __forceinline__ static skl_sums sums_of(const skl_args &a, TEAM &t, const ROW &logits,
                                                   int64_t r)
{
    skl_sums s;
    s.top = find_largest<T>(a, t, logits);
    const float by = scale_of(a);
    float sums[3] = {t.lane == 0 ? s.top.max - s.top.max : 0, 0, 0};
    logits.walk(t, a.n, true, [&](int j, float(&v)[V<T>]) {
        float target[V<T>], power[V<T>];
        load_target<T>(a, r, j, target);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            power[i] = exp2_term((v[i] - s.top.max) * by);
        if (j == s.top.at) {
            const int best = place_of(s.top, v, j);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                sums[2] += i == best ? target[i] : 0;
                power[i] = i == best ? 0 : power[i];
                target[i] = i == best ? 0 : target[i];
            }
        }
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            sums[0] += power[i];
            sums[1] += target[i];
        }
    });
    t.sum(sums);
    s.others = sums[0];
    s.rest = sums[1];
    s.of_best = sums[2];
    return s;
}

/* log max(q, eps) of a chunk's targets. Those of 16 bits are rounded more than an approximation. */
template <class T>
__device__ __forceinline__ static void logarithms_of(const skl_args &a, const float (&q)[V<T>],
                                                     float (&log_q)[V<T>])
{
    if (a.target_type == TG_F32)
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            log_q[i] = logf(fmaxf(q[i], a.eps));
    else
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            log_q[i] = (float)LN_2 * log2_of(fmaxf(q[i], fmaxf(a.eps, 0x1p-126f)));
}

/* What the classes of a chunk add to the divergence. */
template <class T>
__device__ __forceinline__ static float loss_of_chunk(const skl_args &a, const float (&v)[V<T>],
                                                      const float (&q)[V<T>], float max,
                                                      float log_sum)
{
    float log_q[V<T>], loss = 0;
    logarithms_of<T>(a, q, log_q);
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        const float d = (v[i] - max) * a.per_temperature;
        loss += q[i] != 0 ? q[i] * (log_q[i] - (d - log_sum)) : 0;
    }
    return loss;
}

/* Returns the row's divergence. */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static float run_row(const skl_args &a, TEAM &t, const ROW &logits,
                                                int64_t r, float factor)
{
    const skl_sums s = sums_of<T>(a, t, logits, r);
    const float log_sum = log1pf(s.others), p_best = 1 / (1 + s.others), all = s.rest + s.of_best;
    const float of_best = s.rest * p_best - s.of_best * (s.others * p_best);
    const float share = p_best * all, by = scale_of(a);
    float loss[1] = {0};
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
        float q[V<T>], g[V<T>];
        load_target<T>(a, r, j, q);
        if (a.partial)
            loss[0] += loss_of_chunk<T>(a, v, q, s.top.max, log_sum);
        if (!a.dlogits.data)
            return;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            g[i] = exp2_term((v[i] - s.top.max) * by) * share - q[i];
        if (j == s.top.at) {
            const int best = place_of(s.top, v, j);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                g[i] = i == best ? of_best : g[i];
        }
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            g[i] = fabsf(g[i]) < 0x1p-110f ? 0 : factor * g[i]; /* the README of the family */
        store_dlogits<T>(a, r, j, g);
    });
    t.sum(loss);
    return loss[0];
}

#endif
