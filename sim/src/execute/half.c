/* execute/half.c - half and float, whole arrays at a time: loops of integer operations that the
 * compiler makes vectors of. */
#include "vector.h"

#include <math.h>

static inline float widen(uint32_t half)
{
    /* The exponent moves by 112; a product does that and normalises the subnormals at once. */
    const uint32_t magnitude = (half & 0x7fff) << 13, sign = (half & 0x8000) << 16;
    const uint32_t bits = sim_bits_of(sim_float_of(magnitude) * 0x1p112f);
    const uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000 : 0;
    return sim_float_of(bits | special | sign);
}

static inline uint16_t narrow(float value)
{
    const uint32_t bits = sim_bits_of(value), sign = bits >> 16 & 0x8000, u = bits & 0x7fffffff;
    /* Below 2^-14 the unit of the result is 2^-24, which is that of floats at 0.5: the addition
     * rounds. */
    const uint32_t small = sim_bits_of(sim_float_of(u) + 0.5f) - 0x3f000000;
    const uint32_t normal = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    uint32_t half = u < 113u << 23 ? small : normal;
    half = u >= 0x477ff000 ? 0x7c00 : half; /* 65520 and above */
    half = u > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(half | sign);
}

float sim_half_to_float(uint16_t half)
{
    return widen(half);
}

uint16_t sim_float_to_half(float value)
{
    return narrow(value);
}

SIM_LOOP void sim_widen(float *restrict to, const uint16_t *restrict from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = widen(from[i]);
}

SIM_LOOP void sim_narrow(uint16_t *restrict to, const float *restrict from, int count, int mode)
{
    if (mode & SIM_MODE_HALF_INF) {
        for (int i = 0; i < count; i++)
            to[i] = narrow(from[i]);
        return;
    }
    for (int i = 0; i < count; i++) {
        const uint32_t half = narrow(from[i]), magnitude = half & 0x7fff;
        const uint32_t finite = magnitude == 0x7c00 ? half - 1 : half;
        to[i] = (uint16_t)(magnitude > 0x7c00 ? 0 : finite);
    }
}

/* Any rounding, by the neighbours of the value: slow and plain. */
uint16_t sim_float_to_half_as(double value, asc_round how)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double x = fabs(value);
    if (isnan(value))
        return 0x7e00;
    if (isinf(value))
        return sign | 0x7c00;
    int exponent;
    frexp(x, &exponent); /* x in [2^(e-1), 2^e) */
    const double unit = ldexp(1.0, exponent - 11 < -24 ? -24 : exponent - 11);
    const double scaled = x / unit, below = floor(scaled), rest = scaled - below;
    int up;
    switch (how) {
    case ASC_RZ:
        up = 0;
        break;
    case ASC_RD:
        up = rest > 0 && sign;
        break;
    case ASC_RU:
        up = rest > 0 && !sign;
        break;
    case ASC_RO:
        up = rest > 0 && fmod(below, 2) == 0;
        break;
    case ASC_RNA:
        up = rest >= 0.5;
        break;
    default:
        up = rest > 0.5 || (rest == 0.5 && fmod(below, 2) == 1);
    }
    const double rounded = (below + up) * unit;
    if (rounded > 65504)
        /* Past the largest: infinity, unless the rounding goes towards zero. */
        return sign | (how == ASC_RZ || how == ASC_RO || (how == ASC_RD && !sign) ||
                               (how == ASC_RU && sign)
                           ? SIM_HALF_MAX
                           : 0x7c00);
    return sign | narrow((float)rounded);
}
