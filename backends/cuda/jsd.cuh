/* jsd.cuh - the generalised Jensen-Shannon divergence of an element of two rows of log-probabilities, x of the student, y of the teacher,
 * and its gradient by x; see tigon/ops.h, jsd. */
#ifndef CUDA_JSD_CUH
#define CUDA_JSD_CUH

#include "divergence.cuh"

/* exp(-87) is about the smallest normal number. */
#define JSD_LEAST -87.0f

/* beta 0 */
struct jsd_forward_loss {
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float p = expf(y);
        const divergence d = {p == 0 ? 0 : p * (y - x), -p};
        return d;
    }
};

/* beta 1 */
struct jsd_reverse_loss {
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float q = expf(x), loss = q == 0 ? 0 : q * (x - y);
        const divergence d = {loss, loss + q};
        return d;
    }
};

/* NaN stays NaN. */
__device__ __forceinline__ static float at_least(float least, float x)
{
    return x < least ? least : x;
}

/* Let E be the larger of the two probabilities, w the weight of the smaller in the mixture and r the other, n <= 0 the difference of the
 * logarithms, t = exp(n) and u = t - 1. Then M = E m with m = 1 + w u, and the loss is E (w t n - m log m). Where the smaller one makes up
 * most of M, those two are nearly equal, and m is counted from t instead: m = t (1 - r u / t); with l the logarithm of that bracket the loss
 * is E (-r n - l m). Neither E nor t has to be representable: -1e30 stands for -inf, and logarithms more than 200 apart are as good as
 * 200 apart. */
struct jsd_mixture_loss {
    float beta, rest; /* rest: 1 - beta */
    __device__ __forceinline__ divergence operator()(float x, float y) const
    {
        const float a = at_least(-1e30f, x), b = at_least(-1e30f, y), difference = b - a;
        const bool of_x = difference < 0; /* x is the larger */
        const float n = at_least(-200, -fabsf(difference)), least = at_least(JSD_LEAST, n);
        const float t = expf(least), u = expm1f(least), larger = expf(of_x ? a : b);
        const float w = of_x ? beta : rest, r = of_x ? rest : beta, shift = w * u;
        const bool from_smaller = w > r && t > r;
        const float m = shift < -0.5f ? r + w * t : 1 + shift; /* each where it is exact */
        const float l = from_smaller ? log1pf(-r * u / t) : m < 0.5f ? logf(m) : log1pf(shift);
        const float loss = (from_smaller ? -r : w * t) * n - l * m;
        const float of_m = (from_smaller ? n : 0) + l; /* log M - log E */
        const float q = larger * (of_x ? 1 : a < JSD_LEAST ? 0 : t);
        const divergence d = {larger * loss, rest * q * ((of_x ? 0 : n) - of_m)};
        return d;
    }
};

/* run(loss) with the loss of beta. */
template <class RUN> static tg_status by_beta(double beta, const RUN &run)
{
    const jsd_mixture_loss mixture = {(float)beta, (float)(1 - beta)};
    return beta == 0 ? run(jsd_forward_loss()) : beta == 1 ? run(jsd_reverse_loss()) : run(mixture);
}

#endif
