/* src/simd/simd_lanes.h - pairs of bf16, the transpose, complex numbers: work across lanes. Part of simd.h. */
#ifndef TG_SIMD_LANES_H
#define TG_SIMD_LANES_H

#include "simd_convert.h"

/* ---- pairs of bf16: two in a 32-bit lane, the first in the low half ---- */

/* v_pack_pairs rounds lo and hi to bf16 and puts lane i of both into lane i; v_pack_row rounds 2 VL
 * floats in a row, so that lane i holds elements 2i and 2i + 1. v_dot_bf16 adds the products of the
 * pairs of a and b to sum. These three are the machine's own instructions: subnormal operands and
 * results count as zero, unlike in the conversions above. */
#if defined(__AVX512BF16__)
#define SIMD_BF16_DOT 1

SIMD_INLINE vi v_pack_row(vf first, vf second)
{
    return (vi)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
}

SIMD_INLINE vi v_pack_pairs(vf lo, vf hi)
{
    const vi order = v_iota() | (v_iota() + VL) << 16;
    return (vi)_mm512_permutexvar_epi16((__m512i)order, (__m512i)v_pack_row(lo, hi));
}

/* Writes lane 0 of a, lane 0 of b, lane 1 of a, ... : 2 VL lanes. */
SIMD_INLINE void v_store_interleaved(void *p, vi a, vi b)
{
    const vi low = (v_iota() >> 1) + (v_iota() & 1) * VL;
    const vi both[2] = {__builtin_shuffle(a, b, low), __builtin_shuffle(a, b, low + VL / 2)};
    memcpy(p, both, sizeof both);
}

SIMD_INLINE vf v_dot_bf16(vf sum, vi a, vi b)
{
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif

/* ---- the transpose of VL vectors, in place ---- */

SIMD_INLINE void v_transpose(vi row[VL])
{
#pragma GCC unroll 8
    for (int step = 1; step < VL; step *= 2) {
        /* lane i of low: i of a, or i - step of b where i has the bit `step`; high: i + step of a,
         * or i of b */
        const vi bit = v_iota() & step;
        const vi low = v_iota() + bit * (VL / step - 1);
        const vi high = v_iota() + (step - bit) + bit * (VL / step);
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            if (!(i & step)) {
                const vi a = row[i], b = row[i + step];
                row[i] = __builtin_shuffle(a, b, low);
                row[i + step] = __builtin_shuffle(a, b, high);
            }
    }
}

/* ---- complex numbers: real and imaginary part in lanes 2i and 2i + 1 ---- */

/* a b, or a conj(b) where sign is -1 */
SIMD_INLINE vf v_complex_mul(vf a, vf b, float sign)
{
    const vi lane = v_iota();
    const vf real = __builtin_shuffle(b, lane & ~1), imaginary = __builtin_shuffle(b, lane | 1);
    const vf signs = v_select((lane & 1) != 0, v_set(sign), v_set(-sign));
    return a * real + __builtin_shuffle(a, lane ^ 1) * (imaginary * signs);
}

#endif
