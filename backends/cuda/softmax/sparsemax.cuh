/* sparsemax.cuh - the threshold of a row, by Newton's iteration, whoever adds up the row; the
 * gradient; rows along any dimension. */
#ifndef CUDA_SPARSEMAX_CUH
#define CUDA_SPARSEMAX_CUH

#include "rows/rows.cuh"

/* What lies above the threshold: the sum of the distances, and how many there are. Many are added
 * up in parts: of equal terms one long sum would be off, each time by the same. */
struct sparsemax_excess {
    float sum, above;

    __device__ __forceinline__ void add(float distance)
    {
        if (!(distance <= 0)) { /* NaN is above everything, so that it stays in sight */
            sum += distance;
            above += 1;
        }
    }
    __device__ __forceinline__ void add(const sparsemax_excess &other)
    {
        sum += other.sum;
        above += other.above;
    }
};

/* y = max((x - base) - tau, 0) */
struct sparsemax_threshold {
    float base, tau;

    __device__ __forceinline__ float distance(float x) const
    {
        return x - base - tau;
    }
    __device__ __forceinline__ float operator()(float x) const
    {
        float y;
        asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(distance(x)));
        return y;
    }
};

/* From a tau that is too small to that at which the distances add up to 1: as long as elements
 * leave, tau grows; when none does, it is exact. excess(threshold): of the whole row; any(more):
 * whether some row that is done at the same time goes on. *last: how many are left at the end, and
 * before, if it is known, how many that will be. */
template <class EXCESS, class ANY>
__device__ __forceinline__ float sparsemax_newton(sparsemax_threshold t, const EXCESS &excess,
                                                  const ANY &any, float *last)
{
    const float known = *last;
    float before = CUDART_INF_F;
    for (;;) {
        const sparsemax_excess e = excess(t);
        const float next = t.tau + (e.sum - 1) / e.above;
        *last = e.above;
        if (!any(e.above < before && e.above != known))
            return next;
        before = e.above;
        t.tau = fmaxf(t.tau, next); /* rounding must not bring back what has left */
    }
}

/* max + tau, less what rounding can have added to it. */
__device__ __forceinline__ float sparsemax_below(float max, float tau)
{
    const float sum = max + tau;
    return sum - (fabsf(sum) + fabsf(tau)) * 0x1p-22f;
}

/* First relative to the largest element, where tau is in [-1, 0), from `start` on, which is not
 * above it; then relative to that tau, so that neither a large element nor a large tau costs
 * digits. Where the largest is beyond 2^12 it stays the base: differences to it are exact there. */
template <class EXCESS, class ANY>
__device__ __forceinline__ sparsemax_threshold sparsemax_find(float max, float start,
                                                              const EXCESS &excess, const ANY &any)
{
    const bool far = fabsf(max) > 4096;
    sparsemax_threshold t = {max, start};
    float last = 0;
    const float tau = sparsemax_newton(t, excess, any, &last);
    t.base = far ? max : sparsemax_below(max, tau);
    t.tau = far ? sparsemax_below(0, tau) : 0;
    t.tau = sparsemax_newton(t, excess, any, &last);
    return t;
}

/* The larger one, or NaN if either is. */
__device__ __forceinline__ float larger_or_nan(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

/* A bound that tau is not below: the tau of the lanes' numbers, as a number like x. All lanes of a
 * warp get the same. */
__device__ __forceinline__ float bound_of_lanes(float x)
{
    const unsigned all = 0xffffffffu;
    float max[1] = {x}, last = 0;
    over_lanes(max, larger(), 32, all);
    const sparsemax_threshold start = {max[0], -1};
    const float tau = sparsemax_newton(
        start,
        [&](const sparsemax_threshold &t) {
            float sum[1] = {fmaxf(t.distance(x), 0)};
            over_lanes(sum, plus(), 32, all);
            return sparsemax_excess{sum[0], (float)__popc(__ballot_sync(all, t.distance(x) > 0))};
        },
        [](bool more) { return more; }, &last);
    return sparsemax_below(max[0], tau);
}

/* ---- backward ---- */

/* On the support, where y > 0: dx = dy - mean of dy over the support; elsewhere 0. NaN in y is in
 * dx. */
struct sparsemax_gradient {
    enum { SUMS = 2, COLUMNS = 0, SCALARS = 0, OWN = 0, THIRD = 0, WEIGHT = 0 };
    typedef float state;
    __device__ __forceinline__ state begin(int64_t) const
    {
        return 0;
    }
    __device__ __forceinline__ float normal(const state &, float y) const
    {
        return y;
    }
    __device__ __forceinline__ void sum(float dy, float y, float (&sums)[2]) const
    {
        if (!(y <= 0)) {
            sums[0] += dy + (y - y); /* the difference is 0 or NaN */
            sums[1] += 1;
        }
    }
    __device__ __forceinline__ void finish(state &mean, const float (&sums)[2]) const
    {
        mean = sums[0] / sums[1];
    }
    __device__ __forceinline__ float gradient(const state &mean, float dy, float y) const
    {
        return y <= 0 ? 0 : dy - mean;
    }
};

/* ---- along any dimension ---- */

/* outer x n x inner, the elements of a row `step` apart, rows beside each other contiguous. Steps
 * in bytes. */
struct cut_span {
    char *data;
    int64_t outer_step, step;
    template <class T> __device__ __forceinline__ T *at(int64_t outer, int64_t k, int64_t i) const
    {
        return (T *)(data + outer * outer_step + k * step) + i;
    }
};

struct strip_args {
    cut_span x, dy, out; /* x or y; backward alone; y or dx */
    int64_t outer, n, inner;
};

/* Rows beside each other: dy.data NULL for forward. */
void launch_sparsemax_strips(const cuda_call &call, const tg_tensor *x, const strip_args &a);

#endif
