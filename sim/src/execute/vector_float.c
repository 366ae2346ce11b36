/* execute/vector_float.c - float lanes. */
#include "vector.h"

#include <float.h>
#include <math.h>

#define BINARY(name, expression)                                                   \
    SIM_LOOP static void name(const sim_instr *instr, void *dst, const void *src0, \
                              const void *src1, int count)                         \
    {                                                                              \
        (void)instr;                                                               \
        float *d = dst;                                                            \
        const float *s = src0, *t = src1;                                          \
        SIM_INDEPENDENT for (int i = 0; i < count; i++)                            \
        {                                                                          \
            const float a = s[i], b = t[i];                                        \
            d[i] = expression;                                                     \
        }                                                                          \
    }
/* old: what dst holds; v: the value operand */
#define ACCUMULATE(name, expression)                                               \
    SIM_LOOP static void name(const sim_instr *instr, void *dst, const void *src0, \
                              const void *src1, int count)                         \
    {                                                                              \
        const int unfused = instr->mode & SIM_MODE_UNFUSED;                        \
        const float v = sim_float_of(instr->scalar_bytes[1]);                      \
        float *d = dst;                                                            \
        const float *s = src0, *t = src1 ? src1 : src0;                            \
        (void)v;                                                                   \
        SIM_INDEPENDENT for (int i = 0; i < count; i++)                            \
        {                                                                          \
            const float a = s[i], b = t[i], old = d[i];                            \
            (void)b;                                                               \
            d[i] = expression;                                                     \
        }                                                                          \
    }
/* v: the value operand, as a float */
#define UNARY(name, expression)                                                    \
    SIM_LOOP static void name(const sim_instr *instr, void *dst, const void *src0, \
                              const void *src1, int count)                         \
    {                                                                              \
        (void)src1;                                                                \
        float *d = dst;                                                            \
        const float *s = src0;                                                     \
        const float v = sim_float_of(instr->scalar_bytes[1]);                      \
        (void)v;                                                                   \
        SIM_INDEPENDENT for (int i = 0; i < count; i++)                            \
        {                                                                          \
            const float a = s[i];                                                  \
            d[i] = expression;                                                     \
        }                                                                          \
    }

/* A NaN wins. */
static inline float larger(float a, float b)
{
    return a > b || a != a ? a : b;
}
static inline float smaller(float a, float b)
{
    return a < b || a != a ? a : b;
}

/* Fused, the product is exact in double and one rounding to float follows the sum. */
static inline float product_sum(float a, float b, float c, int unfused)
{
    return unfused ? a * b + c : (float)((double)a * b + c);
}

static inline float flushed(float a)
{
    const uint32_t bits = sim_bits_of(a);
    return sim_float_of((bits & 0x7f800000) ? bits : bits & 0x80000000);
}

static inline float exponential(float a)
{
    /* In double: a = k ln 2 + r, exp(r) as a series, rounded once at the end. */
    const double shift = 0x1.8p52, x = a < -1000.f ? -1000. : a > 1000.f ? 1000. : a;
    const double shifted = x * 0x1.71547652b82fep0 + shift, k = shifted - shift;
    const double r = x - k * 0x1.62e42fefa39efp-1;
    const double p =
        1 +
        r * (1 +
             r * (1. / 2 +
                  r * (1. / 6 +
                       r * (1. / 24 + r * (1. / 120 +
                                           r * (1. / 720 + r * (1. / 5040 + r * (1. / 40320))))))));
    const double limited = k < -1000 ? -1000. : k > 1000 ? 1000. : k;
    const double power = limited + (shift + 1023);
    uint64_t bits;
    memcpy(&bits, &power, sizeof bits);
    bits <<= 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    const float y = flushed((float)(p * scale));
    return a != a ? a : y;
}

static inline float logarithm(float a)
{
    /* a = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh((m - 1) / (m + 1)). */
    const float x = flushed(a);
    const uint32_t bits = sim_bits_of(x), moved = bits - 0x3f3504f3;
    const int e = (int32_t)moved >> 23;
    const double m = sim_float_of((moved & 0x7fffff) + 0x3f3504f3);
    const double s = (m - 1) / (m + 1), q = s * s;
    const double series =
        1 + q * (1. / 3 + q * (1. / 5 + q * (1. / 7 + q * (1. / 9 + q * (1. / 11 + q / 13)))));
    const float y = (float)(e * 0x1.62e42fefa39efp-1 + 2 * s * series);
    const float special = x == 0 ? -INFINITY : x == INFINITY ? x : NAN;
    return x > 0 && x < INFINITY ? y : special;
}

/* To eight bits of fraction, to nearest; what is too large stays finite, what is too small is
 * flushed. */
static inline float estimate(double exact)
{
    uint64_t bits;
    memcpy(&bits, &exact, sizeof bits);
    bits = (bits + (((uint64_t)1 << 43) - 1) + (bits >> 44 & 1)) & ~(((uint64_t)1 << 44) - 1);
    double rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    const double largest = 0x1.ffp127, y = rounded > largest ? largest : rounded;
    return exact != exact ? (float)exact : flushed((float)(y < -largest ? -largest : y));
}

BINARY(lanes_add, a + b)
BINARY(lanes_sub, a - b)
BINARY(lanes_mul, a *b)
BINARY(lanes_div, a / b)
BINARY(lanes_max, larger(a, b))
BINARY(lanes_min, smaller(a, b))
BINARY(lanes_add_relu, larger(a + b, 0))
BINARY(lanes_sub_relu, larger(a - b, 0))
ACCUMULATE(lanes_fma, product_sum(a, b, old, unfused))
ACCUMULATE(lanes_mul_add, product_sum(a, old, b, unfused))
ACCUMULATE(lanes_mul_add_relu, larger(product_sum(a, old, b, unfused), 0))
UNARY(lanes_abs, sim_float_of(sim_bits_of(a) & 0x7fffffff))
UNARY(lanes_exp, exponential(a))
UNARY(lanes_log, logarithm(a))
UNARY(lanes_sqrt, sqrtf(flushed(a)))
UNARY(lanes_rcp, estimate(1. / flushed(a)))
UNARY(lanes_rsqrt, estimate(1. / sqrt(flushed(a))))
UNARY(lanes_relu, larger(a, 0))
UNARY(lanes_leakyrelu, a > 0 ? a : a * v)
UNARY(lanes_add_scalar, a + v)
UNARY(lanes_sub_scalar, a - v)
UNARY(lanes_mul_scalar, a *v)
UNARY(lanes_max_scalar, larger(a, v))
UNARY(lanes_min_scalar, smaller(a, v))
ACCUMULATE(lanes_axpy, product_sum(a, v, old, unfused))

static sim_lanes *const lanes[SIM_OPS] = {
#define LANES(name) [SIM_OP_##name] = lanes_##name
    LANES(add),          LANES(sub),        LANES(mul),        LANES(div),        LANES(max),
    LANES(min),          LANES(add_relu),   LANES(sub_relu),   LANES(fma),        LANES(mul_add),
    LANES(mul_add_relu), LANES(abs),        LANES(exp),        LANES(log),        LANES(sqrt),
    LANES(rcp),          LANES(rsqrt),      LANES(relu),       LANES(leakyrelu),  LANES(add_scalar),
    LANES(sub_scalar),   LANES(mul_scalar), LANES(max_scalar), LANES(min_scalar), LANES(axpy),
#undef LANES
};

sim_lanes *sim_float_lanes(sim_op op)
{
    return lanes[op];
}
