#include "value.h"

int size_of(type_id type)
{
    static const int bytes[] = {2, 4, 2, 1, 1, 2, 2, 4, 4, 8};
    return bytes[type];
}

int is_integer(type_id type)
{
    return type >= T_int8_t;
}

static float bf16_value(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

#define GET(T)                              \
    case T_##T: {                           \
        T value;                            \
        memcpy(&value, from, sizeof value); \
        return value;                       \
    }
long double get_value(type_id type, const void *from)
{
    switch (type) {
        GET(half)
        GET(float)
        GET(int8_t)
        GET(uint8_t)
        GET(int16_t)
        GET(uint16_t)
        GET(int32_t)
        GET(uint32_t)
        GET(int64_t)
    default: {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        return bf16_value(bits);
    }
    }
}

/* Magnitudes of a format of two or four bytes in order are its bit patterns in order. */
static long double magnitude(type_id type, uint32_t bits)
{
    const uint16_t narrow = (uint16_t)bits;
    return get_value(type, type == T_float ? (const void *)&bits : &narrow);
}

/* The largest pattern whose magnitude is at most x: a guess, put right. */
static uint32_t below(type_id type, long double x)
{
    const float wide = (float)x;
    const half narrow = (half)wide;
    uint32_t bits = 0;
    if (type == T_half)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &wide, sizeof wide);
    if (type == T_bfloat16_t)
        bits >>= 16;
    while (magnitude(type, bits) > x)
        bits--;
    return bits;
}

/* The value one place above the largest finite one, for rounding there. */
static long double above(type_id type, uint32_t bits)
{
    const long double next = magnitude(type, bits + 1);
    return isinf(next) ? 2 * magnitude(type, bits) - magnitude(type, bits - 1) : next;
}

static uint32_t round_real(type_id type, long double value, rounding how)
{
    const uint32_t sign = signbit(value) ? (type == T_float ? 0x80000000u : 0x8000u) : 0;
    const uint32_t infinity = type == T_half ? 0x7c00 : type == T_float ? 0x7f800000 : 0x7f80;
    const long double x = fabsl(value);
    if (isnan(value))
        return infinity | infinity >> 1;
    if (isinf(value))
        return sign | infinity;
    const uint32_t low = below(type, x);
    const long double floor = magnitude(type, low), ceiling = above(type, low);
    if (x == floor)
        return sign | low;
    const long double middle = floor + (ceiling - floor) / 2;
    switch (how) {
    case RZ:
        return sign | low;
    case RD:
        return sign ? sign | (low + 1) : low;
    case RU:
        return sign ? sign | low : low + 1;
    case RO:
        return sign | (low & 1 ? low : low + 1 < infinity ? low + 1 : low);
    case RNA:
        return sign | (x >= middle ? low + 1 : low);
    default:
        return sign | (x > middle || (x == middle && (low & 1)) ? low + 1 : low);
    }
}

static long double integer_near(long double x, rounding how)
{
    const long double whole = floorl(x), rest = x - whole;
    switch (how) {
    case RZ:
        return truncl(x);
    case RD:
        return whole;
    case RU:
        return ceill(x);
    case RNA:
        return rest == 0.5L ? (x < 0 ? whole : whole + 1) : rest > 0.5L ? whole + 1 : whole;
    default:
        return rest > 0.5L || (rest == 0.5L && fmodl(whole, 2) != 0) ? whole + 1 : whole;
    }
}

long double round_integer(long double x, rounding how)
{
    return isfinite(x) ? copysignl(integer_near(x, how), x) : x;
}

static void put_integer(type_id type, void *to, long double value, int saturate)
{
    const int bits = 8 * size_of(type),
              is_unsigned = type == T_uint8_t || type == T_uint16_t || type == T_uint32_t;
    const long double low = is_unsigned ? 0 : -ldexpl(1, bits - 1);
    const long double high = ldexpl(1, is_unsigned ? bits : bits - 1) - 1;
    if (isnan(value))
        value = 0;
    if (saturate)
        value = fminl(fmaxl(value, low), high);
    const uint64_t pattern = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    memcpy(to, &pattern, (size_t)size_of(type));
}

void put_value(type_id type, void *to, long double value, rounding how, int saturate)
{
    if (is_integer(type)) {
        put_integer(type, to, round_integer(value, how), saturate);
        return;
    }
    uint32_t bits = round_real(type, value, how);
    if (type == T_half) {
        if ((bits & 0x7fff) > 0x7c00)
            bits = 0;
        else if ((bits & 0x7fff) == 0x7c00)
            bits--;
    }
    memcpy(to, &bits, (size_t)size_of(type));
}

int same_value(type_id type, const void *a, const void *b, int units)
{
    if (!memcmp(a, b, (size_t)size_of(type)))
        return 1;
    if (is_integer(type))
        return 0;
    const long double x = get_value(type, a), y = get_value(type, b);
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    if (!units || signbit(x) != signbit(y))
        return units && x == y;
    uint32_t p = 0, q = 0;
    memcpy(&p, a, (size_t)size_of(type));
    memcpy(&q, b, (size_t)size_of(type));
    return (p > q ? p - q : q - p) <= (uint32_t)units;
}

long double estimate(long double x)
{
    const long double largest = 0x1.ffp127L;
    if (isnan(x) || x == 0)
        return x;
    if (isinf(x))
        return copysignl(largest, x);
    int exponent;
    const long double scaled = ldexpl(frexpl(x, &exponent), 9), low = floorl(scaled);
    const long double rest = scaled - low;
    const long double rounded = rest > 0.5L || (rest == 0.5L && fmodl(low, 2) != 0) ? low + 1 : low;
    const long double y = ldexpl(rounded, exponent - 9);
    return fabsl(x) < 0x1p-126L ? copysignl(0, x) : fabsl(y) > largest ? copysignl(largest, x) : y;
}

static uint64_t state;

void random_seed(uint64_t seed)
{
    state = seed;
}

uint64_t random_bits(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

int random_below(int below)
{
    return (int)(random_bits() % (uint64_t)below);
}

/* A float half-way between two halves or two bf16s, or one of them. */
static void put_tie(uint8_t *to, uint32_t bits)
{
    const uint32_t exponent =
        97 + bits % 61; /* 2^-30 to 2^30: subnormal halves and what is too large, too */
    const uint32_t tie =
        (bits & 0x80000000) | exponent << 23 | (bits & (bits & 1 << 8 ? 0x7ff000 : 0x7f8000));
    memcpy(to, &tie, sizeof tie);
}

void fill_values(uint8_t *to, int bytes, type_id type)
{
    for (int at = 0; at < bytes; at += size_of(type)) {
        const uint64_t bits = random_bits();
        const int kind = random_below(8);
        if (kind == 0)
            memcpy(to + at, &bits, (size_t)size_of(type));
        else if (kind == 1 && type == T_float)
            put_tie(to + at, (uint32_t)bits);
        else if (kind == 1 && !is_integer(type))
            put_value(type, to + at, (random_below(401) - 200) * 0.5L, RN, 1);
        else
            put_value(type, to + at, ldexpl((int32_t)bits, random_below(24) - 31), RN, 1);
    }
}
