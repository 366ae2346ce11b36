/* src/simd/exp_rest.h - what is left of an exponential near 0, whose digits exp(x) has lost: for
 * divergences of distributions that are near each other. */
#ifndef TG_SIMD_EXP_REST_H
#define TG_SIMD_EXP_REST_H

#include "simd.h"

/* exp(x) - 1 - x for |x| <= 1, by its series: relative error 2^-22 at most, however small x is. */
SIMD_INLINE vf v_exp_rest(vf x)
{
    vf p = v_set(1.0f / 39916800);
    p = p * x + v_set(1.0f / 3628800);
    p = p * x + v_set(1.0f / 362880);
    p = p * x + v_set(1.0f / 40320);
    p = p * x + v_set(1.0f / 5040);
    p = p * x + v_set(1.0f / 720);
    p = p * x + v_set(1.0f / 120);
    p = p * x + v_set(1.0f / 24);
    p = p * x + v_set(1.0f / 6);
    p = p * x + v_set(0.5f);
    return x * x * p;
}

/* exp(x) - 1 for x in [-80, 80]. */
SIMD_INLINE vf v_expm1(vf x)
{
    const vf one = v_set(1.0f);
    return v_select(v_abs(x) < one, x + v_exp_rest(x), v_exp_within(x) - one);
}

#endif
