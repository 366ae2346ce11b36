/* src/simd/moments.h - mean and squared deviations of elements in memory, read from there once.
 *
 *   moments m = {0, 0, 0};
 *   moments_add(e, &m, x, n);     any number of times
 *   mean = m.sum / m.count, variance = m.squares / m.count; NaN of nothing
 *
 * A block that fits the first cache is passed over twice: around its own mean nothing cancels,
 * whatever that mean is. Blocks are joined in double (Chan, Golub and LeVeque 1979).
 *
 * Or a loop that does other work takes its elements, block by block:
 *
 *   moments_pass p = moments_begin(e, x, n);       MOMENTS_BLOCK elements at most
 *   moments_take(e, &p, x, i);                     each pair of vectors once, in any order
 *   moments_end(e, &m, &p, x, n);
 *
 * Those are distances from what the first elements say of the mean; where these say little, the
 * block is passed over as above.
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

/* The sum of a block and that of squared distances from its mean. */
typedef struct block_moments {
    double sum, squares;
} block_moments;

/* The mean comes from the second pass where it exceeds the deviation: there distances are small and
 * nearly exact. Elsewhere that pass would round all 16-bit x of one magnitude by the same, and the
 * plain sum is better. */
SIMD_INLINE block_moments moments_of_block(el e, const void *x, int64_t n)
{
    const double count = (double)n;
    const float plain = moments_sum(e, x, n), shift = plain / (float)n;
    float distance;
    const double raw = moments_squares(e, x, shift, n, &distance), moved = shift * count;
    const double sum = shift * moved > raw ? moved + distance : plain;
    return (block_moments){sum, raw - (sum - moved) * (sum - moved) / count};
}

SIMD_INLINE void moments_join(moments *m, block_moments block, double count)
{
    if (m->count > 0) {
        const double apart = block.sum / count - m->sum / m->count;
        m->squares += apart * apart * (count * m->count / (count + m->count));
    }
    m->count += count;
    m->sum += block.sum;
    m->squares += block.squares < 0 ? 0 : block.squares;
}

/* n more elements, in memory one behind the other */
SIMD_INLINE void moments_add(el e, moments *m, const void *x, int64_t n)
{
    for (int64_t j = 0; j < n; j += MOMENTS_BLOCK) {
        const int64_t count = n - j < MOMENTS_BLOCK ? n - j : MOMENTS_BLOCK;
        moments_join(m, moments_of_block(e, (const char *)x + j * el_size(e), count),
                     (double)count);
    }
}

/* ---- of a loop that does other work ---- */

/* Sums of d = x - shift and of d^2. */
typedef struct moments_pass {
    vf shift;
    vf2 sum, squares;
} moments_pass;

/* The shift is 0 where the first elements' deviation exceeds their mean, since distances from 0 are
 * exact; else a number of the type of x, so that those of 16-bit x from it are exact as well. */
SIMD_INLINE moments_pass moments_begin(el e, const void *x, int64_t n)
{
    enum { FIRST = 4 * VL };
    moments_pass p = {{0}, {{0}, {0}}, {{0}, {0}}};
    if (n < FIRST)
        return p;
    float sum;
    const float squares = moments_squares(e, x, 0, FIRST, &sum), mean = sum / FIRST;
    if (2 * mean * mean > squares / FIRST)
        p.shift = v_round(e, v_set(mean));
    return p;
}

SIMD_INLINE void moments_take(el e, moments_pass *p, const void *x, int64_t i)
{
    const vf2 a = v_load2(e, e, x, i);
    const vf2 d = {a.a - p->shift, a.b - p->shift};
    p->sum = (vf2){p->sum.a + d.a, p->sum.b + d.b};
    p->squares.a += d.a * d.a;
    p->squares.b += d.b * d.b;
}

/* The distance of the shift from the mean may be no larger than the deviation. */
SIMD_INLINE void moments_end(el e, moments *m, moments_pass *p, const void *x, int64_t n)
{
    for (int64_t i = v_whole_pairs(n); i < n; i += VL) {
        const vf d = v_load_n(e, x, i, v_tail(n, i), p->shift[0]) - p->shift;
        p->sum.a += d;
        p->squares.a += d * d;
    }
    const double count = (double)n, distance = v_sum(p->sum.a + p->sum.b),
                 raw = v_sum(p->squares.a + p->squares.b), apart = distance * (distance / count);
    if (raw < INFINITY && 2 * apart <= raw)
        moments_join(m, (block_moments){p->shift[0] * count + distance, raw - apart}, count);
    else
        moments_join(m, moments_of_block(e, x, n), count);
}

#endif
