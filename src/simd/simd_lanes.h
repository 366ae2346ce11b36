/* src/simd/simd_lanes.h - pairs of bf16, the transpose, complex numbers: work across
 * lanes. Part of simd.h. */
#ifndef TG_SIMD_LANES_H
#define TG_SIMD_LANES_H

#include "simd_convert.h"

/* ---- shuffles: lane i of the result is lane FROM(i) of a, or lane FROM(i) - VL of b ---- */

/* FROM is a macro: compilers want numbers. */
#if VL == 4
#define V_LANES(FROM) FROM(0), FROM(1), FROM(2), FROM(3)
#elif VL == 8
#define V_LANES(FROM) FROM(0), FROM(1), FROM(2), FROM(3), FROM(4), FROM(5), FROM(6), FROM(7)
#else
#define V_LANES(FROM)                                                                         \
    FROM(0), FROM(1), FROM(2), FROM(3), FROM(4), FROM(5), FROM(6), FROM(7), FROM(8), FROM(9), \
        FROM(10), FROM(11), FROM(12), FROM(13), FROM(14), FROM(15)
#endif
#define V_SHUFFLE(a, b, FROM) __builtin_shufflevector(a, b, V_LANES(FROM))

/* The even lanes of a, then of b; the odd ones. */
#define V_EVEN(i) (2 * (i))
#define V_ODD(i) (2 * (i) + 1)
/* Lane 0 of a, lane 0 of b, lane 1 of a, ...: the first half, and the second. */
#define V_ZIP_LOW(i) ((i) / 2 + (i) % 2 * VL)
#define V_ZIP_HIGH(i) (V_ZIP_LOW(i) + VL / 2)

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
    const vi both[2] = {V_SHUFFLE(a, b, V_ZIP_LOW), V_SHUFFLE(a, b, V_ZIP_HIGH)};
    memcpy(p, both, sizeof both);
}

SIMD_INLINE vf v_dot_bf16(vf sum, vi a, vi b)
{
    return (vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif

/* ---- the transpose of VL vectors, in place ---- */

/* Lane i of LOW: i of a, or i - step of b where i has the bit `step`; of HIGH: i +
 * step of a, or i of b. */
#define V_LOW(i, step) ((i) & (step) ? (i) - (step) + VL : (i))
#define V_HIGH(i, step) ((i) & (step) ? (i) + VL : (i) + (step))
#define V_LOW_1(i) V_LOW(i, 1)
#define V_HIGH_1(i) V_HIGH(i, 1)
#define V_LOW_2(i) V_LOW(i, 2)
#define V_HIGH_2(i) V_HIGH(i, 2)
#define V_LOW_4(i) V_LOW(i, 4)
#define V_HIGH_4(i) V_HIGH(i, 4)
#define V_LOW_8(i) V_LOW(i, 8)
#define V_HIGH_8(i) V_HIGH(i, 8)
#define V_TRANSPOSE_STEP(row, step)                           \
    _Pragma("GCC unroll 16") for (int i = 0; i < VL; i++)     \
    {                                                         \
        if (!(i & (step))) {                                  \
            const vi a = row[i], b = row[i + (step)];         \
            row[i] = V_SHUFFLE(a, b, V_LOW_##step);           \
            row[i + (step)] = V_SHUFFLE(a, b, V_HIGH_##step); \
        }                                                     \
    }

SIMD_INLINE void v_transpose(vi row[VL])
{
    V_TRANSPOSE_STEP(row, 1)
    V_TRANSPOSE_STEP(row, 2)
#if VL > 4
    V_TRANSPOSE_STEP(row, 4)
#endif
#if VL > 8
    V_TRANSPOSE_STEP(row, 8)
#endif
}

/* ---- sums of VL vectors over their lanes: lane i of the result is that of row[i] ---- */

/* Pairs of vectors become one, whose lanes are sums of two of the first or of the second. */
#define V_SUMS_STEP(row, step)                                                   \
    _Pragma("GCC unroll 16") for (int i = 0; i < VL; i += 2 * (step))            \
    {                                                                            \
        const vf a = row[i], b = row[i + (step)];                                \
        row[i] = V_SHUFFLE(a, b, V_LOW_##step) + V_SHUFFLE(a, b, V_HIGH_##step); \
    }

SIMD_INLINE vf v_sums(vf row[VL])
{
    V_SUMS_STEP(row, 1)
    V_SUMS_STEP(row, 2)
#if VL > 4
    V_SUMS_STEP(row, 4)
#endif
#if VL > 8
    V_SUMS_STEP(row, 8)
#endif
    return row[0];
}

/* ---- complex numbers: real and imaginary part in lanes 2i and 2i + 1 ---- */

#define V_REAL(i) ((i) & ~1)
#define V_IMAGINARY(i) ((i) | 1)
#define V_SWAP(i) ((i) ^ 1)

/* a b, or a conj(b) where sign is -1 */
SIMD_INLINE vf v_complex_mul(vf a, vf b, float sign)
{
    const vf real = V_SHUFFLE(b, b, V_REAL), imaginary = V_SHUFFLE(b, b, V_IMAGINARY);
    const vf signs = v_select((v_iota() & 1) != 0, v_set(sign), v_set(-sign));
    return a * real + V_SHUFFLE(a, a, V_SWAP) * (imaginary * signs);
}

#endif
