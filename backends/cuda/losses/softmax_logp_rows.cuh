/* softmax_logp_rows.cuh - what becomes of one row of softmax_logp: its results, the target's
 * log-probability alone, and the gradients of both. */
#ifndef CUDA_SOFTMAX_LOGP_ROWS_CUH
#define CUDA_SOFTMAX_LOGP_ROWS_CUH

#include "softmax_logp.cuh"

/* ---- forward ---- */

__device__ __forceinline__ static int64_t place_of(const slogp_args &a, int64_t id)
{
    const int64_t place = id - a.start;
    return place >= 0 && place < a.n ? place : -1;
}

/* Of the class at `place`, -1 for another slice's. */
template <class T, int MODE>
__device__ __forceinline__ static float logp_at(const slogp_args &a, const slogp_sums &s,
                                                const T *row, int64_t place)
{
    if (place < 0)
        return 0;
    if (a.slice)
        return capped<MODE == LOGP_CAPPED>(get(row + place), a.softcap) * a.per_temperature;
    const float log_sum = log1pf(s.others);
    return place == s.best ? -log_sum : distance<MODE>(a, get(row + place), s.max) - log_sum;
}

template <class T, int MODE, class TEAM>
__device__ __forceinline__ static void write_results(const slogp_args &a, const slogp_sums &s,
                                                     const TEAM &t, const T *row, int64_t r)
{
    for (int k = t.lane; a.selected && k < a.count; k += t.lanes)
        if (a.ids_range.holds(k, a.ids[k], true))
            a.selected[r * a.count + k] = logp_at<T, MODE>(a, s, row, place_of(a, a.ids[k]));
    if (t.lane != 0)
        return;
    const float log_sum = log1pf(s.others);
    a.logp[r] = logp_at<T, MODE>(a, s, row, place_of(a, a.target[r]));
    if (a.lse)
        a.lse[r] = s.max == -CUDART_INF_F ? s.max : s.max * a.per_temperature + log_sum;
    if (a.entropy)
        a.entropy[r] = log_sum + s.gaps / (1 + s.others);
    if (a.mean)
        a.mean[r] = s.total / a.n;
    if (a.squares)
        a.squares[r] = log1pf(s.squares) - 2 * log_sum;
    if (a.predicted)
        a.predicted[r] = s.best;
}

template <class TEAM>
__device__ __forceinline__ static void write_ignored(const slogp_args &a, const TEAM &t, int64_t r)
{
    float *const zeros[] = {a.logp, a.lse, a.entropy, a.mean, a.squares};
    for (int k = t.lane; a.selected && k < a.count; k += t.lanes)
        a.selected[r * a.count + k] = 0;
    if (t.lane != 0)
        return;
#pragma unroll
    for (int i = 0; i < 5; i++)
        if (zeros[i])
            zeros[i][r] = 0;
    if (a.predicted)
        a.predicted[r] = -1;
}

/* ---- the target alone ---- */

/* y: the target's place, -1 in another slice. */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static void write_slopes(const slogp_args &a, const TEAM &t,
                                                    const ROW &logits, int64_t r, int y,
                                                    const row_odds &o)
{
    const float g = a.dlogp[r] * a.grad_scale * a.per_temperature;
    const float factor = -g * o.scale, own = g * o.doubt;
    const float by = a.per_temperature * 1.44269504088896341f;
    char *const row = a.dlogits.row(r);
    logits.walk(t, a.n, true, [&](int j, float(&v)[V<T>]) {
        float d[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            d[i] = factor * exp2_term((v[i] - o.max) * by);
        if ((unsigned)(y - j) < (unsigned)V<T>)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                d[i] = j + i == y ? own : d[i];
        store_gradient<T>(a, row, j, d);
    });
}

/* A row that has a target; x: the logit that stands apart, the target's if y >= 0. */
template <class T, class TEAM, class ROW>
__device__ __forceinline__ static void run_alone(const slogp_args &a, TEAM &t, const ROW &logits,
                                                 int64_t r, int y, float x)
{
    row_odds o;
    if (!a.dlogp || !(odds_saved(a, a.saved_lse[r], x, &o) || a.slice))
        o = odds_beside<T>(a, t, logits, x, max(y, 0));
    if (a.dlogp) {
        t.barrier(); /* all have read x: dlogits may be the same memory */
        write_slopes<T>(a, t, logits, r, y, o);
    } else if (t.lane == 0) {
        a.logp[r] = !a.slice ? -o.minus_log_p : y < 0 ? 0 : x * a.per_temperature;
        if (a.lse)
            a.lse[r] = o.lse;
    }
}

/* ---- the gradient of all ---- */

/* p = factor exp(d), log p + entropy = d + mean_gap; upstream gradients: of the target, of the
 * entropy, of all log-probabilities. */
struct slogp_slopes {
    float max, factor, mean_gap, doubt; /* doubt: 1 - p of `best` */
    int best;                           /* -1: of none it is known */
    float logp, entropy, all, scale;
};

template <class T, int MODE, class TEAM, class ROW>
__device__ __forceinline__ static slogp_slopes slopes_of(const slogp_args &a, TEAM &t,
                                                         const ROW &logits, int64_t r)
{
    slogp_slopes g;
    if (a.slice) {
        const float lse = a.saved_lse[r];
        g.max = lse * a.temperature;
        const float shift = g.max * a.per_temperature - lse;
        g.factor = expf(shift);
        g.mean_gap = shift + (a.saved_entropy ? a.saved_entropy[r] : 0);
        g.doubt = 0;
        g.best = -1;
    } else {
        const slogp_sums s = sums_of<T, MODE>(a, t, logits);
        const float sum = 1 + s.others;
        g = {s.max, 1 / sum, s.gaps / sum, s.others / sum, s.best};
    }
    g.logp = g.all = a.dlogp[r];
    g.entropy = a.dentropy ? a.dentropy[r] : 0;
    for (int k = 0; a.dselected && k < a.count; k++)
        if (a.ids_range.holds(k, a.ids[k], t.lane == 0))
            g.all += a.dselected[r * a.count + k];
    g.scale = a.grad_scale * a.per_temperature;
    return g;
}

/* At a class that upstream gradients name: from 1 - p, and from the upstream gradients of the
 * others. */
__device__ __forceinline__ static float named_gradient(const slogp_args &a, const slogp_slopes &g,
                                                       int64_t r, int64_t place, float d)
{
    const float p = g.factor * expf(d), q = place == g.best ? g.doubt : 1 - p;
    const bool is_target = place_of(a, a.target[r]) == place;
    float own = is_target ? g.logp : 0, others = is_target ? 0 : g.logp;
    for (int k = 0; a.dselected && k < a.count; k++) {
        const float u = a.dselected[r * a.count + k];
        const bool is = place_of(a, a.ids[k]) == place;
        own += is ? u : 0;
        others += is ? 0 : u;
    }
    return own * q - others * p - (g.entropy != 0 && p != 0 ? g.entropy * p * (d + g.mean_gap) : 0);
}

/* The place that name k has: the target's, then those of ids. */
__device__ __forceinline__ static int64_t named_place(const slogp_args &a, int64_t r, int k)
{
    return place_of(a, k < 0 ? a.target[r] : a.ids[k]);
}

/* 1 if a chunk of this thread's has a named class. */
template <class T, class TEAM>
__device__ __forceinline__ static bool has_name(const slogp_args &a, const TEAM &t, int64_t r,
                                                int names)
{
    for (int k = -1; k < names; k++) {
        const int place = (int)named_place(a, r, k);
        if (place >= 0 && place / V<T> % t.lanes == t.lane)
            return true;
    }
    return false;
}

template <class T, int MODE, class TEAM, class ROW>
__device__ __forceinline__ static void
write_row(const slogp_args &a, const TEAM &t, const ROW &logits, int64_t r, const slogp_slopes &g)
{
    char *const row = a.dlogits.row(r);
    const int names = a.dselected ? a.count : 0;
    const bool named = has_name<T>(a, t, r, names);
    logits.walk(t, a.n, true, [&](int j, float(&v)[V<T>]) {
        float d[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float e = distance<MODE>(a, v[i], g.max), p = g.factor * exp_term(e);
            d[i] = -g.all * p;
            if (g.entropy != 0 && p != 0)
                d[i] -= g.entropy * p * (e + g.mean_gap);
        }
        for (int k = -1; named && k < names; k++) {
            const int64_t place = named_place(a, r, k);
            if (place < j || place >= j + V<T>)
                continue;
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                if (j + i == place)
                    d[i] = named_gradient(a, g, r, place, distance<MODE>(a, v[i], g.max));
        }
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            d[i] *= g.scale;
            if (MODE == LOGP_CAPPED && a.softcap > 0)
                d[i] *= softcap_slope(v[i], a.softcap);
        }
        store_gradient<T>(a, row, j, d);
    });
}
#endif
