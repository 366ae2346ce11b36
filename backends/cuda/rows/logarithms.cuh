/* logarithms.cuh - logarithms of sums and of mixtures of probabilities, and what is small in them,
 * to a few roundings: from the card's approximations where these are exact enough, from short
 * series (minimax) where numbers nearly cancel. Logarithms are to base 2. */
#ifndef CUDA_LOGARITHMS_CUH
#define CUDA_LOGARITHMS_CUH

#include "elements.cuh"

#define LOG2_E 1.44269504f
#define LN_2 0.69314718055994530942

/* The larger of both; NaN stays NaN. */
__device__ __forceinline__ float no_less(float x, float least)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(least));
    return y;
}

/* 2^n - 1 of an n <= 0, for which t = 2^n. */
__device__ __forceinline__ float exp2m1_of(float n, float t)
{
    float series = fmaf(0.00115402752f, n, 0.00954105805f);
    series = fmaf(series, n, 0.0554904011f);
    series = fmaf(series, n, 0.240225649f);
    series = fmaf(series, n, 0.693147172f);
    return n > -0.5f ? series * n : t - 1;
}

/* Of a normal number. */
__device__ __forceinline__ float log2_of(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2(1 + g), for which m = 1 + g; each is taken where it tells more. Rounded by itself, whatever
 * is added to it, so that the same arguments give the same bits wherever the function stands. */
__device__ __forceinline__ float log2_1p(float g, float m)
{
    const float r = g * reciprocal(2 + g), square = r * r;
    float series = fmaf(0.455353731f, square, 0.575350819f);
    series = fmaf(series, square, 0.961818548f);
    series = fmaf(series, square, 2.88539004f);
    const float near = __fmul_rn(series, r), far = log2_of(m);
    return fabsf(r) < 0.25f ? near : far;
}

/* log2(1 + t) of 0 <= t < 0.4145: a polynomial alone. Rounded by itself as log2_1p() is. */
__device__ __forceinline__ float log2_1p_of_less(float t)
{
    float series = fmaf(0.0679563358f, t, -0.179284051f);
    series = fmaf(series, t, 0.273321837f);
    series = fmaf(series, t, -0.358624607f);
    series = fmaf(series, t, 0.480763376f);
    series = fmaf(series, t, -0.721344113f);
    series = fmaf(series, t, 1.44269502f);
    return __fmul_rn(series, t);
}

/* 1 - l, l = log2(1 + 2^n), n <= 0: how far the larger of two numbers lies above their mean, where
 * the smaller one is 2^n times as large. It is -n/2 less log cosh (n/2), which for a small n is a
 * series in n^2. */
__device__ __forceinline__ float above_mean(float n, float l)
{
    const float square = n * n;
    float series = fmaf(-1.73262516e-06f, square, 5.5189682e-05f);
    series = fmaf(series, square, -0.00173435363f);
    series = fmaf(series, square, 0.0866433879f);
    const float near = fmaf(-square, series, -0.5f * n);
    return n > -LOG2_E ? near : 1 - l;
}

/* (1 + t) times this, t = 2^n, is h + t (n + h) of a small n, h = above_mean(n): they differ by
 * little more than they are rounded by. With y = n LN_2 / 2 it is (y tanh y - log cosh y) /
 * LN_2. */
__device__ __forceinline__ float loss_of_near(float n)
{
    const float square = n * n;
    const float series = fmaf(0.000272538798f, square, -0.00520302055f);
    return fmaf(series, square, 0.0866433908f) * square;
}

/* ---- the mixture M = beta P + (1 - beta) Q of a teacher's and a student's probability ---- */

/* With E the larger of the two: UNIT E loss = beta P log(P / M) + (1 - beta) Q log(Q / M), and UNIT
 * slope = (1 - beta) log(Q / M). t is the ratio of the smaller one to E. */
struct mixture_term {
    float loss, slope, t;
};

/* The arguments are apart = log(P / Q); less than 2^-200 of the larger one is none. Where it is
 * less than `hardly`, and P so small that the slope is nearly UNIT `of_none`, the slope of P = 0,
 * it is less that, so that differences of such slopes are exact; only if RELATIVE. */

/* beta 1/2: with h = log(E / M) the loss is (h + t (n + h)) / 2. EXACT: logarithms are series, and
 * so is the loss of what nearly agrees; l counts where t is less than sqrt(2) - 1 alone, in
 * above_mean() and where P is hardly known. */
template <bool EXACT> struct even_mixture {
    static constexpr double UNIT = 0.5;
    static constexpr float of_none = 1;
    template <bool RELATIVE>
    __device__ __forceinline__ mixture_term at(float apart, float hardly) const
    {
        const float n = fmaxf(-fabsf(apart), -200), t = exp2_term(n); /* of NaN -200 */
        const float l = EXACT ? log2_1p_of_less(t) : log2_of(1 + t), h = above_mean(n, l);
        const float slope = (apart < 0 ? 0 : n) + h;
        const float loss = EXACT && n > -0.5f ? (1 + t) * loss_of_near(n) : fmaf(t, n + h, h);
        return {loss, RELATIVE && apart < hardly ? -l : slope, t};
    }
};

/* Any other beta; slopes, whose differences count, are rounded by themselves. With w the weight of
 * the smaller one in the mixture, r that of the other, u = t - 1 and s = M / E = r + w t, the loss
 * is w t n - s log s. Where the smaller one makes up most of M, those two are nearly equal, and M
 * is counted from it: with l the logarithm of M / (E t) = 1 - r u / t the loss is -r n - s l. */
struct mixture {
    static constexpr double UNIT = 1;
    float beta, rest, odds, of_none; /* rest: 1 - beta; odds: beta / rest */
    template <bool RELATIVE>
    __device__ __forceinline__ mixture_term at(float apart, float hardly) const
    {
        const bool student = apart < 0; /* has the larger probability */
        const float n = fmaxf(-fabsf(apart), -200), t = exp2_term(n), u = exp2m1_of(n, t);
        const float w = student ? beta : rest, r = student ? rest : beta, s = fmaf(w, t, r);
        const bool from_smaller = w > r && t > r;
        const float g = from_smaller ? __fmul_rn(__fmul_rn(-r, u), reciprocal(t)) : __fmul_rn(w, u);
        const float l = log2_1p(g, from_smaller ? 1 + g : s);
        /* l is counted from the student's probability, or from the other */
        float slope = (student == from_smaller ? (student ? -n : n) : 0) - l;
        if (RELATIVE && apart < hardly)
            slope = -log2_1p(__fmul_rn(odds, t), fmaf(odds, t, 1));
        return {(from_smaller ? -r : w * t) * n - s * l, __fmul_rn(rest, slope), t};
    }
};

static inline mixture mixture_of(double beta)
{
    const double rest = 1 - beta;
    const mixture m = {(float)beta, (float)rest, (float)(beta / rest),
                       (float)(-rest * log(rest) / LN_2)};
    return m;
}

#endif
