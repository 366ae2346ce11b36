/* optimizer.cuh - what optimizers share: four elements of any type at a time, and the clipping of
 * gradients by their norm, which is read on the card. */
#ifndef CUDA_OPTIMIZER_CUH
#define CUDA_OPTIMIZER_CUH

#include "rows/elements.cuh"

enum { FOUR = V<float> };

/* Four elements of T or of f32. */
template <class T>
__device__ __forceinline__ static void load_four(const char *p, int64_t j, int64_t left,
                                                 float (&x)[FOUR])
{
    const T *const at = (const T *)p + j;
    if constexpr (sizeof(T) == 4) {
        widen<float>(load((const float *)at, left), x);
    } else if (left >= FOUR && (uintptr_t)at % 8 == 0) {
        const uint2 raw = *(const uint2 *)at;
        const float2 low = widen_pair<T>(raw.x), high = widen_pair<T>(raw.y);
        x[0] = low.x;
        x[1] = low.y;
        x[2] = high.x;
        x[3] = high.y;
    } else {
#pragma unroll
        for (int i = 0; i < FOUR; i++)
            x[i] = i < left ? get(at + i) : 0;
    }
}

template <class T>
__device__ __forceinline__ static void store_four(char *p, int64_t j, int64_t left,
                                                  const float (&x)[FOUR])
{
    T *const at = (T *)p + j;
    if constexpr (sizeof(T) == 4) {
        store((float *)at, left, narrow<float>(x));
    } else if (left >= FOUR && (uintptr_t)at % 8 == 0) {
        *(uint2 *)at = make_uint2(narrow_pair<T>(x[0], x[1]), narrow_pair<T>(x[2], x[3]));
    } else {
#pragma unroll
        for (int i = 0; i < FOUR; i++)
            if (i < left)
                put(at + i, x[i]);
    }
}

/* How gradients are clipped. */
struct clipping {
    const float *grad_squares; /* NULL: the gradients are neither clipped nor looked at */
    float grad_scale, max_norm;
};

/* What gradients are multiplied with; NaN where their norm is not finite. */
__device__ __forceinline__ static float scale_of(const clipping &c)
{
    if (!c.grad_squares)
        return c.grad_scale;
    const float squares = __ldg(c.grad_squares), norm = fabsf(c.grad_scale) * sqrtf(squares);
    if (!isfinite(squares))
        return NAN;
    return c.max_norm > 0 && norm > c.max_norm ? c.grad_scale * (c.max_norm / norm) : c.grad_scale;
}

#endif
