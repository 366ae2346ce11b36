/* Element types: their names, and one element as double, for ref. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/services.h"

static const struct {
    int type;
    const char *name;
} types[] = {{TG_F32, "f32"}, {TG_BF16, "bf16"}, {TG_F16, "f16"},
             {TG_F64, "f64"}, {TG_I64, "i64"},   {TG_I32, "i32"},
             {TG_U8, "u8"},   {TG_BOOL, "bool"}, {TG_F8E4M3, "f8e4m3"}};

const char *tg_type_name(int type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].name;
    return "?";
}

/* DLPack's codes of types; the first ones come in several sizes, which their names end with. */
enum { SIZED = 7 };
static const char *const codes[] = {"i",
                                    "u",
                                    "f",
                                    "opaque",
                                    "bf",
                                    "complex",
                                    "bool",
                                    "float8_e3m4",
                                    "float8_e4m3",
                                    "float8_e4m3b11fnuz",
                                    "float8_e4m3fn",
                                    "float8_e4m3fnuz",
                                    "float8_e5m2",
                                    "float8_e5m2fnuz",
                                    "float8_e8m0fnu",
                                    "float6_e2m3fn",
                                    "float6_e3m2fn",
                                    "float4_e2m1fn"};

tg_words tg_type_words(int type)
{
    tg_words w;
    const unsigned code = (unsigned)type & 255, bits = (unsigned)type >> 8 & 255;
    const unsigned lanes = (unsigned)type >> 16;
    const char *known = tg_type_name(type);
    int n;
    if (*known != '?')
        n = snprintf(w.text, sizeof w.text, "%s", known);
    else if (code >= sizeof codes / sizeof *codes)
        n = snprintf(w.text, sizeof w.text, "unknown (code %u of DLPack, %u bits)", code, bits);
    else if (code < SIZED)
        n = snprintf(w.text, sizeof w.text, "%s%u", codes[code], bits);
    else
        n = snprintf(w.text, sizeof w.text, "%s", codes[code]);
    if (lanes != 1)
        snprintf(w.text + n, sizeof w.text - (size_t)n, " in vectors of %u", lanes);
    return w;
}

int tg_type_by_name(const char *name)
{
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    return 0;
}

/* 2^n of a normal double: ldexp() for whom speed counts, with the reference's inner loops. */
static double power_of_2(int n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double get_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    double a;
    if (exponent == 31)
        a = mantissa ? NAN : INFINITY;
    else
        a = exponent ? (1024 + mantissa) * power_of_2(exponent - 25) : mantissa * 0x1p-24;
    return h & 0x8000 ? -a : a;
}

static double get_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Nearest-even rounding of |value| to a binary format of `bits` mantissa bits; the encoding without
 * sign. */
static uint32_t encode(double a, int bits, int min_exponent, int bias, uint32_t infinity)
{
    if (a == 0)
        return 0;
    int exponent = ilogb(a);
    if (exponent < min_exponent)
        exponent = min_exponent;
    const double steps =
        nearbyint(a * power_of_2(bits - exponent)); /* 2^bits and more for normal numbers */
    if (exponent > bias || steps * power_of_2(exponent - bits) >= power_of_2(bias) * 2)
        return infinity;
    const uint32_t mantissa = (uint32_t)steps;
    if (mantissa < 1u << bits) /* subnormal */
        return mantissa;
    return ((uint32_t)(exponent + bias) << bits) + (mantissa - (1u << bits));
}

static uint16_t to_16(double value, int bits, int bias)
{
    const uint32_t infinity = (uint32_t)(2 * bias + 1) << bits;
    const uint32_t sign = signbit(value) ? 0x8000u : 0;
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (bits - 1));
    const double a = fabs(value);
    return (uint16_t)(sign | (isinf(a) ? infinity : encode(a, bits, 1 - bias, bias, infinity)));
}

static double get_e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    double a = exponent ? (8 + mantissa) * power_of_2(exponent - 10) : mantissa * 0x1p-9;
    if ((code & 127) == 127)
        a = NAN;
    return code & 128 ? -a : a;
}

/* What is larger than 448, the largest of its numbers, becomes 448. */
static uint8_t to_e4m3(double value)
{
    const uint8_t sign = signbit(value) ? 128 : 0;
    const double a = fabs(value);
    if (isnan(value) || a > 448)
        return (uint8_t)(sign | (isnan(value) ? 127 : 126));
    const int exponent = a < 0x1p-6 ? -6 : ilogb(a);
    const int steps = (int)nearbyint(a * power_of_2(3 - exponent)); /* 8 and more if it is normal */
    return (uint8_t)(sign | ((exponent + 6) * 8 + steps));
}

double tg_get_narrow(const void *data, int type, int64_t i)
{
    if (type == TG_I64)
        return (double)((const int64_t *)data)[i];
    if (type == TG_I32)
        return ((const int32_t *)data)[i];
    if (type == TG_U8 || type == TG_BOOL)
        return ((const uint8_t *)data)[i];
    if (type == TG_F8E4M3)
        return get_e4m3(((const uint8_t *)data)[i]);
    const uint16_t h = ((const uint16_t *)data)[i];
    return type == TG_F16 ? get_f16(h) : get_bf16(h);
}

const double *tg_get_row(double *memory, const void *data, int type, int64_t first, int64_t count)
{
    const float *f32 = data;
    const uint16_t *bf16 = data;
    if (type == TG_F64)
        return (const double *)data + first;
    if (type == TG_F32)
        for (int64_t i = 0; i < count; i++)
            memory[i] = (double)f32[first + i];
    else if (type == TG_BF16)
        for (int64_t i = 0; i < count; i++)
            memory[i] = get_bf16(bf16[first + i]);
    else
        for (int64_t i = 0; i < count; i++)
            memory[i] = tg_get(data, type, first + i);
    return memory;
}

void tg_set(void *data, int type, int64_t i, double value)
{
    if (type == TG_F32)
        ((float *)data)[i] = (float)value;
    else if (type == TG_F64)
        ((double *)data)[i] = value;
    else if (type == TG_I64)
        ((int64_t *)data)[i] = (int64_t)value;
    else if (type == TG_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else if (type == TG_U8 || type == TG_BOOL)
        ((uint8_t *)data)[i] = (uint8_t)value;
    else if (type == TG_F8E4M3)
        ((uint8_t *)data)[i] = to_e4m3(value);
    else
        ((uint16_t *)data)[i] = type == TG_F16 ? to_16(value, 10, 15) : to_16(value, 7, 127);
}
