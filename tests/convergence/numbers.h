/* numbers.h - elements of the trainer's tensors as numbers. */
#ifndef CONVERGENCE_NUMBERS_H
#define CONVERGENCE_NUMBERS_H

#include <math.h>
#include <string.h>
#include <tigon/tigon.h>

static inline float from_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Element i of a compact tensor of f32 or bf16. */
static inline double get(const tg_tensor *t, int64_t i)
{
    return tg_type_of(t) == TG_F32 ? (double)((const float *)tg_data(t))[i]
                                   : (double)from_bf16(((const uint16_t *)tg_data(t))[i]);
}

/* A finite number as bf16 holds it: the upper half of an f32, rounded to the nearest. */
static inline uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void put(const tg_tensor *t, int64_t i, double value)
{
    if (tg_type_of(t) == TG_F32)
        ((float *)tg_data(t))[i] = (float)value;
    else
        ((uint16_t *)tg_data(t))[i] = to_bf16((float)value);
}

/* sqrt(sum (a - b)^2) / sqrt(sum (b - c)^2); c NULL: zeros. */
static inline double distance(const float *a, const float *b, const float *c, int64_t n)
{
    double gap = 0, way = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i], w = (double)b[i] - (c ? (double)c[i] : 0);
        gap += d * d;
        way += w * w;
    }
    return sqrt(gap / way);
}

#endif
