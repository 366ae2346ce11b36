/* tanh.cuh - the hyperbolic tangent, and its slope without cancellation. */
#ifndef CUDA_TANH_CUH
#define CUDA_TANH_CUH

#include "elements.cuh"

/* The smaller in size of x and +-limit; NaN stays NaN. */
__device__ __forceinline__ static float clamp(float x, float limit)
{
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(limit));
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(-limit));
    return y;
}

/* x p(x^2) / q(x^2) on [-9, 9], beyond which tanh rounds to 1: minimax, relative error 2.1e-8. */
__device__ __forceinline__ static float tanh_of(float x)
{
    const float near = clamp(x, 9), u = near * near;
    float p = 1.3354634731399528e-08f, q = 7.776546908644377e-07f;
    p = p * u + 2.060906081169378e-05f;
    p = p * u + 0.0034955868031829596f;
    p = p * u + 0.13381025195121765f;
    p = p * u + 1;
    q = q * u + 0.0003285632701590657f;
    q = q * u + 0.025876976549625397f;
    q = q * u + 0.46714338660240173f;
    q = q * u + 1;
    return near * p * reciprocal(q);
}

struct tanh_pair {
    float value, slope;
};

/* With e = exp(-2 |x|): |tanh(x)| = (1 - e) / (1 + e), or near 0, where that cancels, x + x^3
 * q(x^2), fitted to a relative error of 3e-9; and 1 - tanh(x)^2 = 4 e / (1 + e)^2, all its digits,
 * however small it is. */
__device__ __forceinline__ static tanh_pair tanh_and_slope(float x)
{
    const float e = exp_of(-2 * fabsf(x)), r = reciprocal(1 + e), u = x * x;
    float q = -0.0058951363898813725f;
    q = q * u + 0.020795952528715134f;
    q = q * u - 0.05378382280468941f;
    q = q * u + 0.13331924378871918f;
    q = q * u - 0.33333298563957214f;
    tanh_pair t;
    t.value = fabsf(x) < 0.6f ? q * u * x + x : copysignf(r - e * r, x);
    t.slope = e * (2 * r) * (2 * r);
    return t;
}

#endif
