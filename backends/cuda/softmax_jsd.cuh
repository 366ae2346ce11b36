/* softmax_jsd.cuh - the losses and slopes of a class, from what its two logits say relative to their rows. All logarithms are to base 2.
 *
 * A family of losses gives a struct F with
 *   UNIT                               what gradients are multiplied with afterwards
 *   SLOPE_ALONE                        1: the gradient is slope; 0: it is q (slope - sum of q slope)
 *   begin(apart)                       a row begins, whose likeliest class of the student has logarithms this far apart
 *   softmax_jsd_term operator()(q, p, apart)   of a class with probabilities q of the student and p of the teacher, apart = log (p / q) */
#ifndef CUDA_SOFTMAX_JSD_CUH
#define CUDA_SOFTMAX_JSD_CUH

#include "logarithms.cuh"

struct softmax_jsd_term {
    float loss, slope;
};

/* beta 0 */
struct softmax_jsd_forward_kl {
    static constexpr double UNIT = 1;
    static constexpr bool SLOPE_ALONE = true;
    __device__ __forceinline__ void begin(float) {}
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float p, float apart) const
    {
        const float n = fmaxf(-fabsf(apart), -60); /* of NaN, where both probabilities are 0, -60 */
        const float difference = no_less(p, q) * exp2m1_of(n, exp2_term(n));
        return {p == 0 ? 0 : p * apart, apart < 0 ? -difference : difference};
    }
};

/* beta 1 */
struct softmax_jsd_reverse_kl {
    static constexpr double UNIT = LN_2;
    static constexpr bool SLOPE_ALONE = false;
    __device__ __forceinline__ void begin(float) {}
    __device__ __forceinline__ softmax_jsd_term operator()(float q, float, float apart) const
    {
        const float slope = q == 0 ? q : -apart;
        return {q * slope, slope};
    }
};

/* With E the larger of the two probabilities, t <= 1 the ratio of the smaller to it, n = log t, w the weight of the smaller in the mixture M, r
 * that of the other: M / E = s = r + w t, the loss is E (w t n - s log s), and the slope is the student's logarithm less that of M. log s
 * is log (1 + w (t - 1)), or for a small t log r + log (1 + t w / r).
 *
 * A constant added to all slopes of a row changes nothing. Where the teacher hardly knows the student's likeliest class its slope, and that of most
 * others, is nearly -log (1 - beta): there slopes are given less that, exactly, so that their differences are not lost. */
struct softmax_jsd_mixture {
    static constexpr double UNIT = LN_2;
    static constexpr bool SLOPE_ALONE = false;
    struct side {
        float w, r, ratio, rest; /* ratio: w / r; rest: log r */
    } of_student, of_teacher;    /* whose probability is the larger */
    float from;                  /* what slopes are given less */

    __device__ __forceinline__ void begin(float apart)
    {
        from = 0;
        const float slope = (*this)(1, 1, apart).slope;
        from = slope > -0.5f * of_student.rest ? -of_student.rest : 0;
    }

    __device__ __forceinline__ softmax_jsd_term operator()(float q, float p, float apart) const
    {
        const bool student = apart < 0;
        const side a = student ? of_student : of_teacher;
        const float n = fmaxf(-fabsf(apart), -200), t = exp2_term(n); /* of NaN -200 */
        const float s = fmaf(a.w, t, a.r), far = a.ratio * t;
        const bool is_far = t < 0.5f;
        const float g = is_far ? far : a.w * exp2m1_of(n, t);
        const float l = log2_1p(g, is_far ? 1 + g : s), rest = is_far ? a.rest : 0;
        const float loss = fmaxf(p, q) * (a.w * t * n - s * (rest + l));
        return {loss, (student ? 0 : n) - l - (rest + from)};
    }
};

/* ---- the host's side ---- */

static inline softmax_jsd_mixture softmax_jsd_mixture_of(double beta)
{
    const double rest = 1 - beta;
    softmax_jsd_mixture m;
    m.of_student = {(float)beta, (float)rest, (float)(beta / rest), (float)(log(rest) / LN_2)};
    m.of_teacher = {(float)rest, (float)beta, (float)(rest / beta), (float)(log(beta) / LN_2)};
    m.from = 0;
    return m;
}

#endif
