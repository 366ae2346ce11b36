/* cross_entropy_rows.cuh - what a call of cross_entropy is given, the sums of a row of logits, and
 * its gradient. */
#ifndef CUDA_CROSS_ENTROPY_ROWS_CUH
#define CUDA_CROSS_ENTROPY_ROWS_CUH

#include "logits.cuh"

/* What a mean divides by, and the sum of the class weights. */
struct loss_counts {
    float per_ce, per_z, class_weights;
    double rows; /* not ignored */
};

/* A row's part of a reduced loss. */
struct loss_terms {
    float loss, z;
    int hit;
};

struct loss_args {
    plane_span logits, dlogits; /* dlogits.data NULL: no gradient */
    const int64_t *target;
    const float *class_weight, *dloss;
    const loss_counts *counts; /* NULL: 1, 1, n */
    const float *saved;        /* lse, of backward; NULL: forward */
    float *loss, *z_loss, *lse, *accuracy;
    int64_t *predicted;
    loss_terms *terms; /* of a reduced loss */
    int64_t ignore_index;
    int64_t start, vocab; /* the logits are those of classes from start on, of so many */
    index_range range;
    int n, lanes, each; /* each: a loss a row */
    int slice;          /* other classes are elsewhere: saved is theirs, too */
    int dlogits_type, token_scaling, find_largest;
    float smoothing, z, softcap, grad_scale;
};

/* ---- the sums of a row ---- */

struct row_sums : target_sums {
    float
        /* of w_i (x_i - origin), over all classes; with smoothing; the origin of a slice is 0 */
        weighted;
    float origin;
    int largest; /* the first of the largest logits; if it is asked for */
};

template <bool CAP> __device__ __forceinline__ static float capped(float x, float softcap)
{
    return CAP && softcap > 0 ? softcap * tanhf(x / softcap) : x;
}

/* Where the target is in a chunk, it is taken out. ALL: every option; else neither softcap nor
 * smoothing nor the largest logit. */
template <class T, bool ALL, class TEAM, class ROW>
__device__ __forceinline__ static row_sums sum_row(const loss_args &a, TEAM &t, const ROW &logits,
                                                   float x_y, int y)
{
    row_sums s;
    float own = -CUDART_MAX_NORMAL_F, sums[2] = {0, 0}, best[1] = {-CUDART_INF_F};
    int at = INT32_MAX;
    s.x_y = x_y;
    s.origin = !a.slice && s.x_y - s.x_y == 0 ? s.x_y : 0;
    logits.walk(t, a.n, false, [&](int j, float(&v)[V<T>]) {
        if (ALL) {
            float w[V<T>];
            if (a.smoothing != 0 && a.class_weight)
                load_vector<T>(vector_span{(char *)a.class_weight, 1}, j, a.n - j, w);
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                if (j + i >= a.n)
                    continue;
                /* before softcap, which rounds what comes near its limit */
                if (a.find_largest && (v[i] > best[0] || (at == INT32_MAX && v[i] == v[i]))) {
                    best[0] = v[i];
                    at = j + i;
                }
                v[i] = capped<ALL>(v[i], a.softcap);
                if (a.smoothing != 0 && !(a.class_weight && w[i] == 0))
                    sums[1] += (a.class_weight ? w[i] : 1) * (v[i] - s.origin);
            }
        }
        if ((unsigned)(y - j) < (unsigned)V<T>)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                v[i] = j + i == y ? -CUDART_INF_F : v[i];
        float max = own;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            max = fmaxf(max, v[i]);
        if (max > own)
            sums[0] *= expf(own - max);
        own = max;
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sums[0] += exp_term(v[i] - own);
    });
    float max[1] = {own};
    t.reduce(max, larger());
    sums[0] *= expf(own - max[0]);
    t.sum(sums);
    s.max = max[0];
    s.sum = sums[0];
    s.weighted = sums[1];
    s.largest = 0;
    if (ALL && a.find_largest) {
        const float mine = best[0];
        t.reduce(best, larger());
        float first[1] = {__int_as_float(mine == best[0] ? at : INT32_MAX)};
        t.reduce(first, smaller_index());
        s.largest = __float_as_int(first[0]) == INT32_MAX ? 0 : __float_as_int(first[0]);
    }
    return s;
}

/* ---- the gradient ---- */

/* Four elements of a 16-bit type, at once where they lie so. */
template <class N>
__device__ __forceinline__ static void store_four(N *to, int left, const float (&d)[4])
{
    if (left >= 4 && (uintptr_t)to % 8 == 0) {
        __stcs((uint2 *)to, make_uint2(narrow_pair<N>(d[0], d[1]), narrow_pair<N>(d[2], d[3])));
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < left)
            put(to + i, d[i]);
}

/* Of an element of T, or of the 16-bit type that dlogits of f32 logits may have; written past the
 * cache: the row's logits shall stay. */
template <class T, class ARGS>
__device__ __forceinline__ static void store_gradient(const ARGS &a, char *row, int j,
                                                      const float (&d)[V<T>])
{
    const int left = a.n - j;
    if constexpr (sizeof(T) == 4) {
        if (a.dlogits_type == TG_BF16)
            return store_four((bf16 *)row + j, left, d);
        if (a.dlogits_type != TG_F32)
            return store_four((f16 *)row + j, left, d);
    }
    store_past((T *)row + j, left, narrow<T>(d));
}

/* 1 - tanh^2 (x / softcap), without a difference of numbers near 1. */
__device__ __forceinline__ static float softcap_slope(float x, float softcap)
{
    const float e = expf(-2 * fabsf(x / softcap)), r = 1 / (1 + e);
    return 4 * e * r * r;
}

/* The gradient is factor exp(x_i - max) - bias w_i, times the slope of softcap, and `target` in
 * place of it for the target. */
struct row_slopes {
    float factor, bias, target;
};

template <bool ALL>
__device__ __forceinline__ static row_slopes slopes_of(const loss_args &a, int64_t r, int y,
                                                       const row_odds &o, const loss_counts &c)
{
    const float w_y = a.class_weight ? a.class_weight[y] : 1;
    const float e = ALL ? a.smoothing / a.vocab : 0;
    const float upstream = a.grad_scale * (a.dloss ? a.dloss[a.each ? r : 0] : 1);
    const float g = a.token_scaling ? upstream * expf(-o.minus_log_p) : upstream;
    const float target = (1 - a.smoothing) * w_y * c.per_ce;
    const float of_lse = a.z != 0 ? 2 * a.z * o.lse * c.per_z : 0;
    const float both = (ALL && a.smoothing != 0 ? e * c.class_weights * c.per_ce : 0) + of_lse;
    row_slopes d = {g * ((target + both) * o.scale), 0, of_lse * o.p - target * o.doubt};
    if (ALL && a.smoothing !=
                   0) { /* what is not asked for is not multiplied with a g that is not finite */
        const float others = c.class_weights - w_y;
        d.bias = g * (e * c.per_ce);
        /* W p - w, which is 0 where there is no other class */
        d.target += e * c.per_ce * (others * o.p - w_y * o.doubt);
    }
    d.target *= g;
    return d;
}

template <class T, bool ALL, class TEAM, class ROW>
__device__ __forceinline__ static void write_gradient(const loss_args &a, const TEAM &t, int64_t r,
                                                      const ROW &logits, int y, const row_odds &o,
                                                      const loss_counts &c)
{
    const row_slopes slopes = slopes_of<ALL>(a, r, y, o, c);
    char *const row = a.dlogits.row(r);
    logits.walk(t, a.n, true, [&](int j, float(&v)[V<T>]) {
        float d[V<T>], w[V<T>];
        if (ALL && a.smoothing != 0 && a.class_weight)
            load_vector<T>(vector_span{(char *)a.class_weight, 1}, j, a.n - j, w);
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float x = capped<ALL>(v[i], a.softcap);
            d[i] = slopes.factor * exp_term(x - o.max);
            if (ALL && a.smoothing != 0)
                d[i] -= slopes.bias * (a.class_weight ? w[i] : 1);
            if (j + i == y)
                d[i] = slopes.target;
            if (ALL && a.softcap > 0)
                d[i] *= softcap_slope(v[i], a.softcap);
        }
        store_gradient<T>(a, row, j, d);
    });
}

template <class T, class ARGS, class TEAM>
__device__ __forceinline__ static void write_zeros(const ARGS &a, const TEAM &t, int64_t r)
{
    const float zeros[V<T>] = {};
    for (int j = t.lane * V<T>; j < a.n; j += t.lanes * V<T>)
        store_gradient<T>(a, a.dlogits.row(r), j, zeros);
}

#endif
