/* execute/convert.c - conversions of lanes. Those that kernels live on are loops of their own; all
 * others go through double. */
#include "vector.h"

#include <math.h>

#define CONVERSION(name)                                                                    \
    static void name(const sim_instr *instr, void *dst, const void *src0, const void *src1, \
                     int count)

CONVERSION(half_to_float)
{
    (void)instr, (void)src1;
    sim_widen(dst, src0, count);
}

CONVERSION(float_to_half)
{
    (void)src1;
    sim_narrow(dst, src0, count, instr->mode);
}

CONVERSION(bf16_to_float)
{
    (void)instr, (void)src1;
    const uint16_t *restrict from = src0;
    uint32_t *restrict to = dst;
    for (int i = 0; i < count; i++)
        to[i] = (uint32_t)from[i] << 16;
}

/* What is added before the low half is cut off. */
static inline uint32_t bf16_carry(uint32_t bits, asc_round how)
{
    const uint32_t negative = bits >> 31;
    return how == ASC_RZ    ? 0
           : how == ASC_RNA ? 0x8000
           : how == ASC_RD  ? 0xffff * negative
           : how == ASC_RU  ? 0xffff * (1 - negative)
                            : 0x7fff + (bits >> 16 & 1);
}

static inline void to_bf16(uint16_t *restrict to, const uint32_t *restrict from, int count,
                           asc_round how)
{
    for (int i = 0; i < count; i++) {
        const uint32_t bits = from[i], magnitude = bits & 0x7fffffff;
        const uint32_t rounded = magnitude >= 0x7f800000 ? bits : bits + bf16_carry(bits, how);
        to[i] = (uint16_t)((rounded >> 16) | (magnitude > 0x7f800000 ? 0x40 : 0));
    }
}

CONVERSION(float_to_bf16_rn)
{
    (void)instr, (void)src1;
    to_bf16(dst, src0, count, ASC_RN);
}

CONVERSION(float_to_bf16)
{
    (void)src1;
    to_bf16(dst, src0, count, (asc_round)instr->extra[0]);
}

static double integral(double x, asc_round how)
{
    switch (how) {
    case ASC_RD:
        return floor(x);
    case ASC_RU:
        return ceil(x);
    case ASC_RZ:
        return trunc(x);
    case ASC_RNA:
        return round(x);
    default:
        return rint(x);
    }
}

/* A float with the integral value. */
CONVERSION(float_to_float)
{
    (void)src1;
    for (int i = 0; i < count; i++)
        ((float *)dst)[i] = (float)integral(((const float *)src0)[i], (asc_round)instr->extra[0]);
}

/* An integer as the nearest that `digits` binary digits hold, in the sense of `how`. */
static double shorten(int64_t value, int digits, asc_round how)
{
    const uint64_t u = value < 0 ? -(uint64_t)value : (uint64_t)value;
    const int length = u ? 64 - __builtin_clzll(u) : 0, excess = length - digits;
    if (excess <= 0)
        return (double)value;
    uint64_t kept = u >> excess;
    const uint64_t rest = u & (((uint64_t)1 << excess) - 1), half = (uint64_t)1 << (excess - 1);
    const int away = how == ASC_RZ    ? 0
                     : how == ASC_RD  ? rest && value < 0
                     : how == ASC_RU  ? rest && value > 0
                     : how == ASC_RNA ? rest >= half
                                      : rest > half || (rest == half && (kept & 1));
    kept += (uint64_t)away;
    return ldexp(value < 0 ? -(double)kept : (double)kept, excess);
}

static int64_t load_integer(sim_type type, const void *from, int i)
{
    switch (type) {
    case SIM_I8:
        return ((const int8_t *)from)[i];
    case SIM_U8:
        return ((const uint8_t *)from)[i];
    case SIM_I16:
        return ((const int16_t *)from)[i];
    case SIM_I32:
        return ((const int32_t *)from)[i];
    default:
        return ((const int64_t *)from)[i];
    }
}

static void store_integer(sim_type type, void *to, int i, int64_t value)
{
    const uint64_t bits = (uint64_t)value;
    switch (sim_type_bytes[type]) {
    case 1:
        ((uint8_t *)to)[i] = (uint8_t)bits;
        break;
    case 2:
        ((uint16_t *)to)[i] = (uint16_t)bits;
        break;
    case 4:
        ((uint32_t *)to)[i] = (uint32_t)bits;
        break;
    default:
        ((uint64_t *)to)[i] = bits;
    }
}

static int64_t fit(sim_type type, int64_t value, int mode)
{
    const int bits = 8 * sim_type_bytes[type];
    if (bits == 64 || mode & SIM_MODE_CAST_CUTS)
        return value;
    const int64_t low = type == SIM_U8 ? 0 : -((int64_t)1 << (bits - 1));
    const int64_t high = type == SIM_U8 ? 255 : ((int64_t)1 << (bits - 1)) - 1;
    return value < low ? low : value > high ? high : value;
}

static double load_real(sim_type type, const void *from, int i)
{
    if (type == SIM_HALF)
        return sim_half_to_float(((const uint16_t *)from)[i]);
    if (type == SIM_BF16)
        return sim_float_of((uint32_t)((const uint16_t *)from)[i] << 16);
    return ((const float *)from)[i];
}

CONVERSION(real_to_integer)
{
    (void)src1;
    for (int i = 0; i < count; i++) {
        const double x = integral(load_real(instr->from, src0, i), (asc_round)instr->extra[0]);
        const int64_t value = x != x        ? 0
                              : x >= 0x1p63 ? INT64_MAX
                              : x < -0x1p63 ? INT64_MIN
                                            : (int64_t)x;
        store_integer(instr->type, dst, i, fit(instr->type, value, instr->mode));
    }
}

CONVERSION(integer_to_real)
{
    (void)src1;
    const asc_round how = (asc_round)instr->extra[0];
    for (int i = 0; i < count; i++) {
        const int64_t value = load_integer(instr->from, src0, i);
        if (instr->type == SIM_FLOAT)
            ((float *)dst)[i] = (float)shorten(value, 24, how);
        else
            ((uint16_t *)dst)[i] = sim_float_to_half((float)shorten(value, 11, how));
    }
}

CONVERSION(integer_to_integer)
{
    (void)src1;
    for (int i = 0; i < count; i++) {
        const int64_t value = load_integer(instr->from, src0, i);
        store_integer(instr->type, dst, i, fit(instr->type, value, instr->mode));
    }
}

CONVERSION(float_to_half_as)
{
    (void)src1;
    for (int i = 0; i < count; i++) {
        const float x = ((const float *)src0)[i];
        const uint16_t half = sim_float_to_half_as(x, (asc_round)instr->extra[0]);
        const float rounded = sim_half_to_float(half);
        if (instr->mode & SIM_MODE_HALF_INF)
            ((uint16_t *)dst)[i] = half;
        else
            sim_narrow((uint16_t *)dst + i, &rounded, 1, instr->mode);
    }
}

static int is_real(sim_type type)
{
    return type == SIM_HALF || type == SIM_FLOAT || type == SIM_BF16;
}

sim_lanes *sim_convert_lanes(sim_type type, sim_type from, asc_round how)
{
    const int nearest = how == ASC_RN || how == ASC_EXACT;
    if (!is_real(type))
        return is_real(from) ? real_to_integer : integer_to_integer;
    if (!is_real(from))
        return integer_to_real;
    if (from == SIM_HALF)
        return half_to_float;
    if (from == SIM_BF16)
        return bf16_to_float;
    if (type == SIM_HALF)
        return nearest ? float_to_half : float_to_half_as;
    if (type == SIM_BF16)
        return nearest ? float_to_bf16_rn : float_to_bf16;
    return float_to_float;
}
