/* softmax_jsd.cuh - the losses and slopes of a class, from what its two logits say relative to their rows. All logarithms are to base 2.
 *
 * A family of losses gives a struct F with
 *   UNIT, LOSS_UNIT                    what gradients and losses are multiplied with afterwards
 *   SLOPE_ALONE                        1: the gradient is slope; 0: it is q (slope - sum of q slope)
 *   for_row(apart, run)                calls run(f), f of a row whose likeliest class of the student has logarithms this far apart;
 *                                      0 where that class has little of the probability
 * and f has
 *   softmax_jsd_term operator()(q, p, apart)   of a class with probabilities q of the student and p of the teacher, apart = log (p / q)
 *
 * A constant added to all slopes of a row changes nothing. Where the teacher hardly knows the student's likeliest class its slope, and that of most
 * others, is nearly -log (1 - beta): there slopes are given less that, exactly, so that their differences are not lost. */
#ifndef CUDA_SOFTMAX_JSD_CUH
#define CUDA_SOFTMAX_JSD_CUH

#include "logarithms.cuh"

struct softmax_jsd_term {
    float loss, slope;
};

/* p - q of two powers of 2 whose logarithms are this far apart: exact where they nearly agree. */
__device__ __forceinline__ float difference_of(float q, float p, float apart)
{
    const float n = fmaxf(-fabsf(apart), -60); /* of NaN, where both are 0, -60 */
    const float difference = no_less(p, q) * exp2m1_of(n, exp2_term(n));
    return apart < 0 ? difference : -difference;
}

/* beta 0 */
struct softmax_jsd_forward_kl {
    static constexpr double UNIT = 1, LOSS_UNIT = LN_2;
    static constexpr bool SLOPE_ALONE = true;
    template <class RUN> __device__ __forceinline__ void for_row(float, const RUN &run) const
    {
        run(*this);
    }
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float p, float apart) const
    {
        return {p == 0 ? 0 : p * apart, -difference_of(q, p, apart)};
    }
};

/* beta 1 */
struct softmax_jsd_reverse_kl {
    static constexpr double UNIT = LN_2, LOSS_UNIT = LN_2;
    static constexpr bool SLOPE_ALONE = false;
    template <class RUN> __device__ __forceinline__ void for_row(float, const RUN &run) const
    {
        run(*this);
    }
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float, float apart) const
    {
        const float slope = q == 0 ? q : -apart;
        return {q * slope, slope};
    }
};

/* beta between; M: its mixture. */
template <class M, bool HARDLY> struct softmax_jsd_mixture_row {
    M mixture;
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float p, float apart) const
    {
        const mixture_term m = mixture.template at<HARDLY>(apart);
        return {no_less(p, q) * m.loss, m.slope};
    }
};

template <class M> struct softmax_jsd_mixture {
    static constexpr double UNIT = LN_2 * M::UNIT, LOSS_UNIT = UNIT;
    static constexpr bool SLOPE_ALONE = false;
    M mixture;
    float hardly; /* how far apart they are there, at most */
    template <class RUN> __device__ __forceinline__ void for_row(float apart, const RUN &run) const
    {
        if (apart < hardly)
            run(softmax_jsd_mixture_row<M, true>{mixture});
        else
            run(softmax_jsd_mixture_row<M, false>{mixture});
    }
};

/* The slope of the likeliest class is more than half of -log (1 - beta) then. */
template <class M> static softmax_jsd_mixture<M> softmax_jsd_mixture_of(const M &m, double beta)
{
    const double rest = 1 - beta;
    return softmax_jsd_mixture<M>{m, (float)(log((sqrt(rest) - rest) / beta) / LN_2)};
}

#endif
