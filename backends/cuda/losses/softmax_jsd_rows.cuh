/* softmax_jsd_rows.cuh - a pair of rows of softmax_jsd: where they lie, and the four passes over
 * them: for the largest logits, the sums of exponentials, loss and sum of slopes, and the
 * gradient. */
#ifndef CUDA_SOFTMAX_JSD_ROWS_CUH
#define CUDA_SOFTMAX_JSD_ROWS_CUH

#include "losses/batch_rows.cuh"
#include "losses/largest.cuh"
#include "softmax_jsd.cuh"
#include "softmax_jsd_pair.cuh"

struct softmax_jsd_args : batch_args {
    row_span student, teacher, dstudent; /* dstudent.data NULL: no gradient */
    float scale;                         /* log2(e) / temperature */
};

/* A class with logits x and y has probabilities share 2^((x - height) scale - base), and its
 * logarithms are (y - x) scale - offset - lacks - rest apart: offset is what is large of that,
 * rounded, lacks what the rounding took, and rest how far the sums of the rows are apart, which may
 * be much smaller. height is 0 but for rows so high that base alone would lose their digits. */
struct softmax_pair {
    float height[2], base[2], share[2]; /* of student and teacher */
    float offset, lacks, rest;
    float best; /* how far apart they are for the student's likeliest class */
    /* PLAIN: lacks, rest and heights are 0. */
    template <bool PLAIN = false>
    __device__ __forceinline__ float apart(float difference, float scale) const
    {
        const float all = fmaf(difference, scale, -offset);
        return PLAIN ? all : all - lacks - rest;
    }
    /* 2 to this times share[m] is the probability of a class with logit x in row m. */
    template <bool PLAIN = false>
    __device__ __forceinline__ float power(int m, float x, float scale) const
    {
        return fmaf(PLAIN ? x : x - height[m], scale, -base[m]);
    }
    __device__ __forceinline__ bool low() const
    {
        return height[0] == 0 && height[1] == 0;
    }
    __device__ __forceinline__ bool plain() const
    {
        return low() && lacks == 0 && rest == 0;
    }
};

template <bool IS> struct plainness {
    static constexpr bool PLAIN = IS;
};

/* run(plainness<plain>()) for rows that are held, which have code for either; else that which is
 * right for both. */
template <class PAIR, class RUN>
__device__ __forceinline__ static void by_plainness(bool plain, const RUN &run)
{
    if (PAIR::HELD && plain)
        run(plainness<PAIR::HELD>());
    else
        run(plainness<false>());
}

/* The largest logits of the rows, and this thread's first chunks that have them. */
template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static void find_largest(TEAM &t, int n, const PAIR &pair,
                                                    softmax_largest (&top)[2])
{
    float value[2];
#pragma unroll
    for (int m = 0; m < 2; m++)
        top[m] = softmax_largest{-CUDART_INF_F, INT32_MAX};
    pair.template for_each<false>(t, n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
        top[0].add(x, j);
        top[1].add(y, j);
    });
#pragma unroll
    for (int m = 0; m < 2; m++)
        value[m] = top[m].max;
    t.reduce(value, larger());
#pragma unroll
    for (int m = 0; m < 2; m++)
        top[m] = softmax_largest{value[m], top[m].max == value[m] ? top[m].at : INT32_MAX};
}

/* log2(b / a), more = b - a: from the difference, unless it is not known better than b. */
__device__ __forceinline__ static float log_of_ratio(float a, float b, float more)
{
    const float z = more / a;
    return z > -0.5f ? LOG2_E * log1pf(z) : log2f(b / a);
}

/* What classes with these logits add: powers of both rows, one class with the largest logit of
 * each left out, and their difference; what stands beside the student's largest; the teacher's
 * powers less the student's, all from one base, and how much they differ at all. EXACT: powers that
 * nearly agree are told apart by their logarithms. */
template <bool EXACT, bool PLAIN, class T>
__device__ __forceinline__ static void
add_powers(const softmax_jsd_args &a, const softmax_pair &s, const softmax_largest (&top)[2],
           float ratio, int j, const float (&x)[V<T>], const float (&y)[V<T>], float (&sums)[4],
           float (&more)[4])
{
    float q[V<T>], p[V<T>];
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        q[i] = exp2_term(s.power<PLAIN>(0, x[i], a.scale));
        p[i] = exp2_term(s.power<PLAIN>(1, y[i], a.scale));
        const float by = EXACT ? difference_of(q[i], p[i] * ratio, (y[i] - x[i]) * a.scale)
                               : fmaf(p[i], ratio, -q[i]);
        more[0] += by;
        more[3] += fabsf(by);
    }
    if (EXACT)
        return;
    if (j == top[0].at || j == top[1].at) {
        const int out[2] = {place_of(top[0], x, j), place_of(top[1], y, j)};
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            sums[3] += i == out[0] ? y[i] : 0;
            q[i] = i == out[0] ? 0 : q[i];
            p[i] = i == out[1] ? 0 : p[i];
        }
    }
#pragma unroll
    for (int i = 0; i < V<T>; i++) {
        sums[0] += q[i];
        sums[1] += p[i];
        sums[2] += p[i] - q[i];
    }
}

/* Where rows differ by less than this part of the student's sum, the difference is taken from the
 * logarithms. */
#define NEARLY_ALIKE 0.015625f

template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static softmax_pair compare_rows(const softmax_jsd_args &a, TEAM &t,
                                                            const PAIR &pair)
{
    softmax_largest top[2];
    softmax_pair s;
    float sums[4] = {0, 0, 0, 0}, up[2], others[2];
    find_largest<T>(t, a.n, pair, top);
    /* of add_powers(), and between them how many threads have left out a class */
    float more[4] = {0, top[0].at != INT32_MAX ? 1.0f : 0.0f, top[1].at != INT32_MAX ? 1.0f : 0.0f,
                     0};
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const bool high = fabsf(top[m].max * a.scale) > HIGHEST_BASE;
        s.height[m] = high && fabsf(top[m].max) != CUDART_INF_F ? top[m].max : 0;
        /* rounded for all that it is taken from */
        s.base[m] = __fmul_rn(top[m].max - s.height[m], a.scale);
    }
    const float between = s.base[1] - s.base[0] + (s.height[1] - s.height[0]) * a.scale;
    const float ratio = exp2_term(between);
    by_plainness<PAIR>(s.low(), [&](auto is) {
        pair.template for_each<false>(t, a.n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
            add_powers<false, decltype(is)::PLAIN, T>(a, s, top, ratio, j, x, y, sums, more);
        });
    });
    sum_both(t, sums, more);
    if (fabsf(between) < ROOM_OF_BASES && more[3] < NEARLY_ALIKE * (sums[0] + more[1])) {
        float exactly[4] = {0, 0, 0, 0}, none[4];
        pair.template for_each<false>(t, a.n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
            add_powers<true, false, T>(a, s, top, ratio, j, x, y, none, exactly);
        });
        float difference[1] = {exactly[0]};
        t.sum(difference);
        more[0] = difference[0];
    }
    /* those left out by more than one thread count after all, but for one */
    const float again[2] = {fmaxf(more[1] - 1, 0), fmaxf(more[2] - 1, 0)};
#pragma unroll
    for (int m = 0; m < 2; m++) {
        /* base is rounded; relative to the largest logit powers are so many times larger */
        up[m] = exp2f(-s.power(m, top[m].max, a.scale));
        others[m] = sums[m] * up[m] + again[m];
        s.share[m] = up[m] / (1 + others[m]);
    }
    const bool alike = fabsf(more[0]) * s.share[0] < 1 - s.share[0];
    if ((s.share[0] <= 0.5f || alike) && fabsf(between) < ROOM_OF_BASES) {
        /* many classes nearly agree where the temperature is high: their sums differ by what they
         * differ by, which is as exact */
        s.offset = log_of_ratio(1 / s.share[0], ratio / s.share[1], more[0]);
        s.lacks = s.rest = 0;
    } else {
        const float of_others = up[1] * sums[2] + (up[1] - up[0]) * sums[0] + (again[1] - again[0]);
        const float lower = top[1].max - top[0].max;
        s.offset = __fmul_rn(lower, a.scale);
        s.lacks = fmaf(lower, a.scale, -s.offset);
        s.rest = log_of_ratio(1 + others[0], 1 + others[1], of_others);
    }
    s.best = s.apart(sums[3] - top[0].max, a.scale);
    return s;
}

/* Of a row: what slopes are relative to, the sum of the losses, and what the mean of slopes is
 * beyond that: as hardly known classes see it, and as all others do. Of slopes that stand alone,
 * which are differences of probabilities, the sum: what the logarithms are off by, all alike. */
struct softmax_jsd_sums {
    float middle, loss, of_hardly, of_others;
};

/* *weight: of the slope, the student's probability; of one that stands alone the teacher's, which
 * what is off in all of them goes with. */
template <bool PLAIN, class F>
__device__ __forceinline__ static softmax_jsd_term term_of(const F &f, const softmax_jsd_args &a,
                                                           const softmax_pair &s, float x, float y,
                                                           float *weight)
{
    const float q = s.share[0] * exp2_term(s.power<PLAIN>(0, x, a.scale));
    const float p = s.share[1] * exp2_term(s.power<PLAIN>(1, y, a.scale));
    *weight = F::SLOPE_ALONE ? p : q;
    return f(q, p, s.apart<PLAIN>(y - x, a.scale));
}

template <class T, class F, class TEAM, class PAIR>
__device__ __forceinline__ static softmax_jsd_sums
sum_losses(const F &f, const softmax_jsd_args &a, TEAM &t, const PAIR &pair, const softmax_pair &s)
{
    /* of a class with most of the probability, which then is out of the sum; NaN if a row is */
    const float middle = (s.share[0] > 0.5f ? f(1, 1, s.best).slope : 0) + 0 * (s.offset + s.rest);
    float sums[F::RELATIVE ? 4 : 2] =
        {}; /* losses, q (slope - middle), q of others and of hardly known classes */
    by_plainness<PAIR>(s.plain(), [&](auto is) {
        pair.template for_each<true>(t, a.n, [&](int, float(&x)[V<T>], float(&y)[V<T>]) {
#pragma unroll
            for (int i = 0; i < V<T>; i++) {
                float weight;
                const softmax_jsd_term d =
                    term_of<decltype(is)::PLAIN>(f, a, s, x[i], y[i], &weight);
                sums[0] += d.loss;
                sums[1] += F::SLOPE_ALONE ? d.slope : weight * (d.slope - middle);
                if constexpr (F::RELATIVE) {
                    if (d.hardly)
                        sums[3] += weight;
                    else
                        sums[2] += weight;
                }
                x[i] = d.slope;
                y[i] = d.hardly ? -weight : weight;
            }
        });
    });
    t.sum(sums);
    if constexpr (F::RELATIVE)
        return {middle, sums[0], sums[1] - f.mixture.of_none * sums[2],
                sums[1] + f.mixture.of_none * sums[3]};
    if constexpr (F::SLOPE_ALONE) /* p - q is off by p times what its logarithm is */
        sums[0] += sums[1] * LOG2_E;
    return {middle, sums[0], 0, sums[1]};
}

template <class T, class Y, class F, class TEAM, class PAIR>
__device__ __forceinline__ static void
write_gradients(const F &f, const softmax_jsd_args &a, TEAM &t, const PAIR &pair, int64_t r,
                const softmax_pair &s, const softmax_jsd_sums &sums, float factor)
{
    pair.template for_each<false>(t, a.n, [&](int j, float(&x)[V<T>], float(&y)[V<T>]) {
        float dx[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            float weight = fabsf(y[i]), slope = x[i];
            bool hardly = y[i] < 0;
            if (!PAIR::CAN_KEEP) {
                const softmax_jsd_term d = term_of<false>(f, a, s, x[i], y[i], &weight);
                slope = d.slope;
                hardly = d.hardly;
            }
            const float mean = hardly ? sums.of_hardly : sums.of_others;
            const float d =
                F::SLOPE_ALONE ? slope - weight * mean : weight * (slope - sums.middle - mean);
            dx[i] = fabsf(d) < 0x1p-110f ? 0 : factor * d; /* the README of the family */
        }
        store_as<Y>(a.dstudent.row<Y>(r) + j, a.n - j, dx);
    });
}

/* Returns the row's loss. */
template <class T, class Y, class F, class TEAM, class PAIR>
__device__ __forceinline__ static float run_row(const F &f, const softmax_jsd_args &a, TEAM &t,
                                                const PAIR &pair, int64_t r, float factor)
{
    const softmax_pair s = compare_rows<T>(a, t, pair);
    const softmax_jsd_sums sums = sum_losses<T>(f, a, t, pair, s);
    if (a.dstudent.data)
        write_gradients<T, Y>(f, a, t, pair, r, s, sums, factor);
    return (float)F::LOSS_UNIT * sums.loss;
}

#endif
