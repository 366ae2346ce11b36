/* src/simd/simd_e4m3.h - between f32 and E4M3, numbers of 8 bits without infinities. */
#ifndef TG_SIMD_E4M3_H
#define TG_SIMD_E4M3_H

#include "simd_convert.h"

typedef uint8_t vb __attribute__((vector_size(VL)));
typedef uint8_t vb_mem __attribute__((vector_size(VL), aligned(1), may_alias));

/* The codes of the numbers next to a, to nearest even, in lanes of 32 bits. Numbers beyond 448, the
 * largest of E4M3, become 448. */
SIMD_INLINE vu v_e4m3_codes(vf a)
{
    const vf magnitude = v_min(v_set(448.0f), v_abs(a)); /* NaN stays */
    const vu bits = (vu)magnitude, sign = (vu)a >> 24 & 0x80u;
    /* normal results: round the mantissa to 3 bits, move the bias */
    const vu normal = (bits + 0x7ffffu + (bits >> 20 & 1u) - 0x3c000000u) >> 20;
    /* subnormal results are multiples of 2^-9, as are the numbers from 2^14 on */
    const vu subnormal = (vu)(magnitude + v_set(0x1p14f)) - 0x46800000u;
    const vu tiny = (vu)(magnitude < v_set(0x1p-6f)), nan = (vu)(a != a);
    const vu code = (subnormal & tiny) | (normal & ~tiny);
    return sign | (0x7fu & nan) | (code & ~nan);
}

SIMD_INLINE vb v_bytes(vu codes)
{
#if defined(__AVX512F__)
    return (vb)_mm512_cvtepi32_epi8((__m512i)codes);
#else
    return __builtin_convertvector(codes, vb);
#endif
}

/* Their numbers are those of f16 times 2^8. */
SIMD_INLINE vf v_from_e4m3(vb code)
{
    const vh wide = __builtin_convertvector(code, vh);
    const vf a = v_from_f16((wide & 0x80) << 8 | (wide & 0x7f) << 7) * v_set(256.0f);
    return v_select(v_abs(a) > v_set(448.0f), v_set(NAN), a);
}

#endif
