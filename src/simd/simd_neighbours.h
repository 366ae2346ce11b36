/* src/simd/simd_neighbours.h - pairs of neighbouring elements: the first of each in one vector, the
 * second of each in another. Part of simd.h. */
#ifndef TG_SIMD_NEIGHBOURS_H
#define TG_SIMD_NEIGHBOURS_H

#include "simd_pairs.h"
#include "simd_part.h"

/* Pairs [d, d + VL). */
SIMD_INLINE vf2 v_load_neighbours(el e, const void *p, int64_t d)
{
    return v_load2(EL_BF16, e, p, 2 * d); /* the lane order of bf16 is just that */
}

SIMD_INLINE void v_write_neighbours(el e, int stream, void *p, int64_t d, vf2 x)
{
    v_write2(e, stream, p, 2 * d, e == EL_BF16 ? x : v_natural2(EL_BF16, x));
}

/* Pairs [d, d + n), n <= VL; the rest is 0. */
SIMD_INLINE vf2 v_load_neighbours_n(el e, const void *p, int64_t d, int64_t n)
{
    const int64_t low = 2 * n < VL ? 2 * n : VL;
    const vf first = v_load_n(e, p, 2 * d, low, 0.0f);
    const vf second = v_load_n(e, p, 2 * d + VL, 2 * n - low, 0.0f);
    return (vf2){V_SHUFFLE(first, second, V_EVEN), V_SHUFFLE(first, second, V_ODD)};
}

SIMD_INLINE void v_store_neighbours_n(el e, void *p, int64_t d, int64_t n, vf2 x)
{
    const int64_t low = 2 * n < VL ? 2 * n : VL;
    const vf2 natural = v_natural2(EL_BF16, x);
    v_store_n(e, p, 2 * d, low, natural.a);
    v_store_n(e, p, 2 * d + VL, 2 * n - low, natural.b);
}

#endif
