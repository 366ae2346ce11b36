/* src/simd/moments.h - mean and squared deviations of elements in memory, read from there once.
 *
 *   moments m = {0, 0, 0};
 *   moments_add(e, &m, x, n);     any number of times
 *   mean = m.sum / m.count, variance = m.squares / m.count; NaN of nothing
 *
 * A block that fits the first cache is passed over twice: around its own mean nothing cancels,
 * whatever that mean is. Blocks are joined in double (Chan, Golub and LeVeque 1979).
 */
#ifndef TG_MOMENTS_H
#define TG_MOMENTS_H

#include "simd.h"

/* squares: the sum of squared distances from the mean */
typedef struct moments {
    double count, sum, squares;
} moments;

enum { MOMENTS_BLOCK = 4096 };

SIMD_INLINE float moments_sum(el e, const void *x, int64_t n)
{
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL)
        for (int k = 0; k < 2; k++) {
            const vf2 a = v_load2(e, e, x, j + k * 2 * VL);
            sum[k].a += a.a;
            sum[k].b += a.b;
        }
    for (; j < n; j += VL)
        sum[0].a += v_load_n(e, x, j, n - j < VL ? n - j : VL, 0);
    return v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
}

/* The sums of d = x - shift, and of d^2, returned. */
SIMD_INLINE float moments_squares(el e, const void *x, float shift, int64_t n, float *distance)
{
    const vf s = v_set(shift);
    vf2 sum[2] = {{{0}, {0}}, {{0}, {0}}}, squares[2] = {{{0}, {0}}, {{0}, {0}}};
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL)
        for (int k = 0; k < 2; k++) {
            const vf2 a = v_load2(e, e, x, j + k * 2 * VL);
            const vf2 d = {a.a - s, a.b - s};
            sum[k].a += d.a;
            sum[k].b += d.b;
            squares[k].a += d.a * d.a;
            squares[k].b += d.b * d.b;
        }
    for (; j < n; j += VL) {
        const vf d = v_load_n(e, x, j, n - j < VL ? n - j : VL, shift) - s;
        sum[0].a += d;
        squares[0].a += d * d;
    }
    *distance = v_sum((sum[0].a + sum[0].b) + (sum[1].a + sum[1].b));
    return v_sum((squares[0].a + squares[0].b) + (squares[1].a + squares[1].b));
}

/* The mean comes from the second pass where it exceeds the deviation: there distances are small and
 * nearly exact. Elsewhere that pass would round all 16-bit x of one magnitude by the same, and the
 * plain sum is better. */
SIMD_INLINE void moments_add_block(el e, moments *m, const void *x, int64_t n)
{
    const double count = (double)n;
    const float plain = moments_sum(e, x, n), shift = plain / (float)n;
    float distance;
    const double raw = moments_squares(e, x, shift, n, &distance), moved = shift * count;
    const double sum = shift * moved > raw ? moved + distance : plain;
    const double squares = raw - (sum - moved) * (sum - moved) / count;
    if (m->count > 0) {
        const double apart = sum / count - m->sum / m->count;
        m->squares += apart * apart * (count * m->count / (count + m->count));
    }
    m->count += count;
    m->sum += sum;
    m->squares += squares < 0 ? 0 : squares;
}

/* n more elements, in memory one behind the other */
SIMD_INLINE void moments_add(el e, moments *m, const void *x, int64_t n)
{
    for (int64_t j = 0; j < n; j += MOMENTS_BLOCK)
        moments_add_block(e, m, (const char *)x + j * el_size(e),
                          n - j < MOMENTS_BLOCK ? n - j : MOMENTS_BLOCK);
}

#endif
