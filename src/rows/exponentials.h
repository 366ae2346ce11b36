/* src/rows/exponentials.h - what the exponentials of a row of logits add up to: once through
 * memory, one exponential an element. Compiled once per level.
 *
 * A row is taken in blocks. The exponentials of a block are relative to a reference point, `from`:
 * the largest logit of the first block or the target's, whichever is larger. Only if the sum of a
 * block shows that some logit lies well above it, the block is done again from its own maximum, so
 * no pass looks for maxima. All that a loss is made of stays relative to `from`: an offset that the
 * logits have in common costs no digits.
 *
 * A block of EXPS_BLOCK elements stays in the first-level cache, so a pass that finds it there is
 * nearly free. The element type is a run-time argument: one branch a block.
 */
#ifndef TG_ROWS_EXPONENTIALS_H
#define TG_ROWS_EXPONENTIALS_H

#include "rows/level.h"
#include "simd.h"

#define exps_max TG_AT_LEVEL(exps_max)
#define exps_largest TG_AT_LEVEL(exps_largest)
#define exps_sum TG_AT_LEVEL(exps_sum)
#define exps_sum2 TG_AT_LEVEL(exps_sum2)

enum { EXPS_BLOCK = 2048 };

/* More than the sum of a whole block can be if no logit lies above `from`; below it, none lies
 * above by more than its logarithm. */
#define EXPS_RISE (2.0f * EXPS_BLOCK)

/* Any point will do where all is -inf. */
static inline float exps_point(float from)
{
    return from > -INFINITY ? from : 0;
}

/* Elements [i, i + VL) of n; `fill` past the end. */
SIMD_INLINE vf exps_load(el e, const void *x, int64_t i, int64_t n, float fill)
{
    return n - i >= VL ? v_load(e, x, i) : v_load_n(e, x, i, n - i, fill);
}

/* ---- segments: blocks, the one around the target y cut in two ----
 *
 * The target stands apart, so that for a confident row 1 - p_y, the sum of all others, and the
 * loss keep their digits.
 *
 *   for (int64_t begin = exps_first(y), end; begin < n; begin = exps_next(end, y)) {
 *       end = exps_end(begin, y, n);
 */
static inline int64_t exps_first(int64_t y)
{
    return y == 0;
}

static inline int64_t exps_end(int64_t begin, int64_t y, int64_t n)
{
    const int64_t end = begin / EXPS_BLOCK * EXPS_BLOCK + EXPS_BLOCK;
    return begin < y && y < end ? y : end < n ? end : n;
}

static inline int64_t exps_next(int64_t end, int64_t y)
{
    return end + (end == y);
}

/* ---- sums of a block ---- */

/* The largest; NaN never is. */
float exps_max(el e, const void *x, int64_t n);

/* Where the first of the largest of a row is; 0 if there is none: all are NaN. */
int64_t exps_largest(el e, const void *x, int64_t n);

/* Of exp(x - from), which goes into keep (if not NULL, padded to whole vectors), and of x. */
typedef struct exps_sums {
    float sum, max; /* max only if asked for */
} exps_sums;
exps_sums exps_sum(el e, int with_max, const void *x, int64_t n, float from, float *keep);

/* The point that those exponentials are relative to. */
static inline double exps_origin(float from)
{
    return fabsf(from) <= V_ORIGIN_FAR ? v_origin_at(from).at : from;
}

/* (x - shift) scale - from, exponents to base 2: with scale = log2(e) / temperature, the
 * temperature costs nothing. shift is 0 near 0; elsewhere differences of logits come first, which
 * are exact where they matter. */
typedef struct exps_power {
    float shift, scale, from;
} exps_power;

/* The same, ready for vectors. */
typedef struct exps_powers {
    vf shift, scale, from;
} exps_powers;

SIMD_INLINE exps_powers exps_spread(const exps_power *p)
{
    return (exps_powers){v_set(p->shift), v_set(p->scale), v_set(p->from)};
}

SIMD_INLINE vf exps_at(int far, const exps_powers *p, vf x)
{
    return v_exp2((far ? x - p->shift : x) * p->scale - p->from);
}

/* The sum of 2^exponent, scale > 0. */
float exps_sum2(el e, const void *x, int64_t n, const exps_power *power);

/* ---- what was saved of a row ---- */

/* Where backward takes lse as it was saved. In f32 it is off by up to 2^-24 |lse|, which is a
 * relative error of all p of the row: up to 2^-20 here, and of the target's q = 1 - p, p / q times
 * that: as many roundings of f32 as a sum of n classes may be off by, and 2^-15 at most. */
static inline int exps_trusts_lse(double lse, double p, double q, int64_t n)
{
    const double roundings = fmin(8 + 0.75 * sqrt((double)n), 512);
    return lse != lse || (fabs(lse) < 32 && fabs(lse) * p < roundings * q);
}

#endif
