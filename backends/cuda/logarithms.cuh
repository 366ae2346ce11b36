/* logarithms.cuh - logarithms of sums of probabilities, and what is small in them, to a few roundings: from the card's approximations where
 * these are exact enough, from short series (minimax) where numbers nearly cancel. Logarithms are to base 2. */
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

/* log2(1 + g), for which m = 1 + g; each is taken where it tells more. */
__device__ __forceinline__ float log2_1p(float g, float m)
{
    const float r = g * reciprocal(2 + g), square = r * r;
    float series = fmaf(0.455353731f, square, 0.575350819f);
    series = fmaf(series, square, 0.961818548f);
    series = fmaf(series, square, 2.88539004f);
    return fabsf(r) < 0.25f ? series * r : __log2f(m);
}

#endif
