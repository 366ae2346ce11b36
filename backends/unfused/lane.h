/* lane.h - the arithmetic of one element, without branches or calls, so that compilers make vectors
 * of loops over it. */
#ifndef UNFUSED_LANE_H
#define UNFUSED_LANE_H

#include <math.h>
#include <stdint.h>

typedef union lane {
    float f;
    uint32_t bits;
    int32_t i;
} lane;

static inline float of_bits(uint32_t bits)
{
    return (lane){.bits = bits}.f;
}

static inline uint32_t bits_of(float x)
{
    return (lane){.f = x}.bits;
}

/* ---- 16 bits ---- */

static inline float from_bf16(uint16_t x)
{
    return of_bits((uint32_t)x << 16);
}

/* To the nearest, ties to even; NaN stays NaN. */
static inline uint16_t to_bf16(float x)
{
    const uint32_t bits = bits_of(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(x == x ? rounded : bits >> 16 | 0x40);
}

static inline float from_f16(uint16_t x)
{
    /* The exponent's bias changes by 112; the product makes subnormal numbers normal, too. */
    const uint32_t bits = bits_of(of_bits((uint32_t)(x & 0x7fff) << 13) * 0x1p112f);
    const uint32_t ends = (x & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    return of_bits(bits | ends | (uint32_t)(x & 0x8000) << 16);
}

static inline uint16_t to_f16(float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, positive = bits & 0x7fffffff;
    const uint32_t normal = (positive - 0x38000000 + 0xfff + (positive >> 13 & 1)) >> 13;
    /* The last place of f32 at 1/2 is that of the subnormal numbers of f16. */
    const uint32_t subnormal = bits_of(of_bits(positive) + 0.5f) - 0x3f000000;
    const uint32_t number = positive < 0x38800000 ? subnormal : normal < 0x7c00 ? normal : 0x7c00;
    return (uint16_t)(sign | (positive > 0x7f800000 ? 0x7e00 : number));
}

/* ---- functions ---- */

/* exp(x) = 2^n (1 + part), |part| < 0.42, for x in [-104, 89] or NaN. */
typedef struct lane_power {
    int32_t n;
    float part;
} lane_power;

static inline lane_power lane_split(float x)
{
    /* x = n ln 2 + r; adding 1.5 * 2^23 rounds to an integer. */
    const float magic = 12582912.0f, t = x * 1.44269504f + magic, n = t - magic;
    const float r = (x - n * 0.693145751953125f) - n * 1.428606765330187e-06f;
    /* exp(r) = 1 + r + r^2 q(r) */
    float q = 0.0013813144760206342f;
    q = q * r + 0.008369418792426586f;
    q = q * r + 0.04166845604777336f;
    q = q * r + 0.16666515171527863f;
    q = q * r + 0.4999999403953552f;
    return (lane_power){(int32_t)(bits_of(t) - bits_of(magic)), q * (r * r) + r};
}

/* p 2^n in two factors: neither overflows, and subnormal results are rounded once. */
static inline float lane_scale(float p, int32_t n)
{
    const int32_t half = n >> 1;
    return p * of_bits((uint32_t)(half + 127) << 23) * of_bits((uint32_t)(n - half + 127) << 23);
}

static inline float lane_exp(float x)
{
    const float above = x < -104.0f ? -104.0f : x, within = above > 89.0f ? 89.0f : above;
    const lane_power e = lane_split(within);
    return lane_scale(e.part + 1.0f, e.n);
}

static inline float lane_log(float x)
{
    /* x = 2^k m, m in [3/4, 3/2) */
    const int32_t shift = x < 0x1p-126f ? 23 : 0;
    const uint32_t bits = bits_of(shift ? x * 0x1p23f : x);
    const int32_t k = (int32_t)(bits - 0x3f400000u) >> 23;
    const float f = of_bits(bits - ((uint32_t)k << 23)) - 1.0f;
    /* log(1 + f) = f - f^2 / 2 + f^3 p(f) */
    float p = 0.05559725314378738f;
    p = p * f - 0.12114137411117554f;
    p = p * f + 0.14904440939426422f;
    p = p * f - 0.16788817942142487f;
    p = p * f + 0.19982320070266724f;
    p = p * f - 0.24996361136436462f;
    p = p * f + 0.33333471417427063f;
    p = p * f - 0.5f;
    const float log = (float)(k - shift) * 0.693147181f + (p * (f * f) + f);
    const float positive = x == INFINITY ? x : log, number = x == 0 ? -INFINITY : positive;
    return x >= 0 ? number : NAN;
}

static inline float lane_sigmoid(float x)
{
    const float p = lane_exp(-fabsf(x)), large = 1.0f / (1.0f + p);
    return x < 0 ? p * large : large;
}

/* p = exp(-2 |x|), and p - 1 without cancellation: tanh |x| = (1 - p) / (1 + p), 1 - tanh^2
 * = 4 p / (1 + p)^2 */
typedef struct lane_tanhs {
    float tanh, slope;
} lane_tanhs;

static inline lane_tanhs lane_tanh(float x)
{
    const float twice = -2.0f * fabsf(x);
    const lane_power e = lane_split(twice < -104.0f ? -104.0f : twice);
    const float power = lane_scale(1.0f, e.n), p = power * e.part + power;
    const float r = 1.0f / (1.0f + p);
    return (lane_tanhs){copysignf((power * e.part + (power - 1.0f)) * r, x), 4.0f * r * r * p};
}

/* erfc(|x|) = exp(-x^2) t q(1 - t), t = 1 / (1 + 0.346 sqrt(2) |x|) */
static inline float lane_erfc(float x)
{
    const float wide = fabsf(x) * 1.41421356f, m = wide > 15.0f ? 15.0f : wide;
    const float bell = lane_exp(m * m * -0.5f), scaled = m * 0.346f;
    const float t = 1.0f / (1.0f + scaled), s = scaled * t;
    float q = -0.02857433259487152f;
    q = q * s + 0.08339162915945053f;
    q = q * s - 0.05204221233725548f;
    q = q * s - 0.02057555504143238f;
    q = q * s - 0.06970731914043427f;
    q = q * s + 0.0963611751794815f;
    q = q * s + 0.2821767032146454f;
    q = q * s - 0.6530102491378784f;
    q = q * s + 0.5f;
    const float tail = 2.0f * bell * t * q;
    return x < 0 ? 2.0f - tail : tail;
}

#endif
