/* softmax_jsd.cuh - the losses and slopes of a class, from what its two logits say relative to
 * their rows. All logarithms are to base 2.
 *
 * A family of losses gives a struct F with
 *   UNIT, LOSS_UNIT   what gradients and losses are multiplied with afterwards
 *   SLOPE_ALONE       1: the gradient is slope; 0: it is q (slope - sum of q slope)
 *   RELATIVE          slopes of classes that the teacher hardly knows are less mixture.of_none, the
 *                     slope of one that it does not know
 *   operator()(q, p, apart)   of a class with probabilities q of the student and p of the teacher,
 *                             apart = log (p / q)
 *
 * Where the teacher hardly knows what the student holds for likely, nearly all slopes of a row are
 * nearly -log (1 - beta), and the gradient is what is left when their mean is taken away. So such
 * slopes are given less that, exactly, and what the constant adds to the difference of a slope and
 * the mean is counted apart: for a class of this kind it is the constant times the probability of
 * all that are not, for any other the constant times that of those that are, less than nothing. */
#ifndef CUDA_SOFTMAX_JSD_CUH
#define CUDA_SOFTMAX_JSD_CUH

#include "rows/logarithms.cuh"

struct softmax_jsd_term {
    float loss, slope;
    bool hardly; /* known to the teacher: the slope is relative */
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
    static constexpr bool SLOPE_ALONE = true, RELATIVE = false;
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float p, float apart) const
    {
        return {p == 0 ? 0 : p * apart, -difference_of(q, p, apart), false};
    }
};

/* beta 1 */
struct softmax_jsd_reverse_kl {
    static constexpr double UNIT = LN_2, LOSS_UNIT = LN_2;
    static constexpr bool SLOPE_ALONE = false, RELATIVE = false;
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float, float apart) const
    {
        const float slope = q == 0 ? q : -apart;
        return {q * slope, slope, false};
    }
};

/* beta between; M: its mixture. */
template <class M> struct softmax_jsd_mixture {
    static constexpr double UNIT = LN_2 * M::UNIT, LOSS_UNIT = UNIT;
    static constexpr bool SLOPE_ALONE = false, RELATIVE = true;
    M mixture;
    float hardly; /* how far apart logarithms are there, at most */
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float p, float apart) const
    {
        const mixture_term m = mixture.template at<true>(apart, hardly);
        return {no_less(p, q) * m.loss, m.slope, apart < hardly};
    }
};

/* Slopes of hardly known classes are more than half of -log (1 - beta). */
template <class M> static softmax_jsd_mixture<M> softmax_jsd_mixture_of(const M &m, double beta)
{
    const double rest = 1 - beta;
    return softmax_jsd_mixture<M>{m, (float)(log((sqrt(rest) - rest) / beta) / LN_2)};
}

#endif
