/* softmax_kl_div_once.cuh - the divergence of a row alone, read once where it lies: a thread counts
 * from the largest logit that it has seen, and moves what it has to a larger one. */
#ifndef CUDA_SOFTMAX_KL_DIV_ONCE_CUH
#define CUDA_SOFTMAX_KL_DIV_ONCE_CUH

#include "softmax_kl_div_rows.cuh"

enum { ONCE_LANES = 256 };
/* Chunks of logits and of targets that a thread loads before it computes. */
template <class T> constexpr int ONCE_AHEAD = V<T> == 4 ? 4 : 2;

/* Of a part of a row, relative to its largest logit; logarithms are to base 2. One class with that
 * logit, if one is `there`, is not in `others`, which is a sum of powers. */
struct kl_part {
    float max, others, targets, terms, there;

    /* Counts from a larger logit, or one as large, from here on. */
    __device__ __forceinline__ void move_to(float larger, float by)
    {
        const float distance = (larger - max) * by;
        others = (others + there) * exp2f(-distance);
        terms += there != 0 && targets != 0 ? targets * distance : 0;
        max = larger;
    }
};

/* A chunk of logits and the logarithms of its targets. */
template <int N>
__device__ __forceinline__ static void
add_chunk(kl_part &s, const float (&v)[N], const float (&q)[N], const float (&log_q)[N], float by)
{
    float power[N], largest = v[0], terms = 0;
    int best = -1;
#pragma unroll
    for (int i = 1; i < N; i++)
        largest = fmaxf(largest, v[i]);
    if (largest > s.max) {
        s.move_to(largest, by);
        s.there = 1;
#pragma unroll
        for (int i = N - 1; i >= 0; i--)
            best = v[i] == largest ? i : best;
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float d = (v[i] - s.max) * by;
        power[i] = exp2_term(d);
        terms += q[i] != 0 ? q[i] * (log_q[i] - d) : 0;
        s.targets += q[i];
    }
    s.terms += terms;
#pragma unroll
    for (int i = 0; i < N; i++)
        s.others += i == best ? 0 : power[i];
}

/* log2 max(q, eps) as logarithms_of() has it. */
template <class Y> __device__ __forceinline__ static float log2_of_target(float q, float eps)
{
    if constexpr (sizeof(Y) == 4)
        return log2f(fmaxf(q, eps));
    else
        return log2_of(fmaxf(q, fmaxf(eps, 0x1p-126f)));
}

/* Rows of whole chunks; Y: the type of the targets. */
template <class T, class Y>
__global__ void __launch_bounds__(ONCE_LANES, 4) softmax_kl_div_once_kernel(const skl_args a)
{
    typedef group_of<Y, V<T>> group;
    constexpr int EACH = sizeof(group) / sizeof(Y), GROUPS = V<T> / EACH;
    __shared__ team_memory memory;
    team t(&memory, ONCE_LANES);
    const int64_t r = blockIdx.x;
    const float by = scale_of(a);
    const T *const logits = a.logits.row<T>(r) + t.lane * V<T>;
    const Y *const target = a.target.row<Y>(r) + t.lane * V<T>;
    if (!batch_counts(a, r)) {
        if (t.lane == 0)
            a.partial[r] = 0;
        return;
    }
    kl_part s = {-CUDART_MAX_NORMAL_F, 0, 0, 0, 0};
    constexpr int AHEAD = ONCE_AHEAD<T>, STEP = ONCE_LANES * V<T>;
    const int left = a.n - t.lane * V<T>;
    for (int first = 0; first < left; first += AHEAD * STEP) {
        uint4 x[AHEAD];
        group y[AHEAD][GROUPS];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int j = first + u * STEP;
            if (j >= left)
                continue;
            x[u] = load(logits + j, V<T>);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                y[u][g] = load_group<Y, V<T>>(target + j + g * EACH, EACH);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            float v[V<T>], q[V<T>], log_q[V<T>];
            if (first + u * STEP >= left)
                continue;
            widen<T>(x[u], v);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                widen_group<Y, V<T>>(y[u][g], g * EACH, q);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                log_q[i] = log2_of_target<Y>(q[i], a.eps);
            add_chunk(s, v, q, log_q, by);
        }
    }
    float max[1] = {s.max};
    t.reduce(max, larger());
    const bool best = s.there != 0 && s.max == max[0];
    if (!best) {
        s.move_to(max[0], by);
        s.there = 0;
    }
    /* +inf is no largest logit that others can be counted from */
    float sums[4] = {s.others + (max[0] - max[0]), s.targets, s.terms, s.there};
    t.sum(sums);
    if (t.lane != 0)
        return;
    const float others = sums[0] + (sums[3] - 1), all = sums[0] + sums[3];
    const float log_sum = sums[3] == 1 ? log1pf(sums[0]) : all == 0 ? CUDART_NAN_F : log1pf(others);
    a.partial[r] = sums[1] == 0 ? (float)LN_2 * sums[2]
                                : (float)LN_2 * fmaf(sums[1], LOG2_E * log_sum, sums[2]);
}

#endif
