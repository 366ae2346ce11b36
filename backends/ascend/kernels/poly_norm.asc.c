/* poly_norm.asc.c - y = sum over p of w_p x^p r_p + bias, r_p = 1 / sqrt(mean(x^2p) + eps), p = 3, 2, 1, and its gradients: with
 * S_p = sum of dy x^p
 *   dx = sum over p of p w_p r_p (dy x^(p-1) - x^(2p-1) r_p^2 S_p / N),   dw_p = sum over rows of r_p S_p,   dbias = sum of dy.
 * Arithmetic is f32 in UB.
 *
 * Whole rows, several if they are short, stay in UB between their sums and what is written. A wider row is gone through twice in
 * pieces. What belongs to a row are three values, or three blocks, in the order of the powers 3, 2, 1: as rstd has them. Blocks'
 * sums are added by kernels/partials.asc.c. */
#include "asc_row_tile.h"
#include "poly_norm.args.h"

#define POLY_NORM_BY(op, dst, src, by, k, rows, pitch) \
    ASC_BY_ROW_OF(POLY_NORM_POWERS, op, dst, src, (by) + 8 * (k), rows, pitch)

/* Block k of every row times a number. */
static inline __aicore__ void poly_norm_scale(__ubuf__ float *blocks, int k, float by, int64_t rows)
{
    asc_set_mask_count();
    asc_set_vector_mask(0, (uint64_t)(rows * 8));
    asc_mul_scalar(blocks + 8 * k, blocks + 8 * k, by, 1, POLY_NORM_POWERS, POLY_NORM_POWERS,
                   8 * POLY_NORM_POWERS, 8 * POLY_NORM_POWERS);
    asc_set_mask_norm();
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
}

/* The sums of x^6, x^4, x^2 of rows, or of one row's pieces so far. second and fourth are used up; s: scratch for the three sums. */
static inline __aicore__ void poly_norm_moments(__ubuf__ float *sums, __ubuf__ float *piece,
                                                asc_row_sums *s, __ubuf__ float *x,
                                                __ubuf__ float *second, __ubuf__ float *fourth,
                                                int first, int64_t rows, int64_t pitch,
                                                int64_t columns)
{
    const uint32_t n = (uint32_t)(rows * pitch);
    const int64_t eighth = (columns + 7) / 8, eighth_pitch = asc_round_up(eighth, 8);
    for (int k = 0; k < POLY_NORM_POWERS; k++) {
        s[k].sums = (first ? sums : piece) + k;
        s[k].src = s[k].b;
        s[k].step = POLY_NORM_POWERS;
    }
    asc_mul(second, x, x, n);
    ASC_THEN();
    asc_mul(fourth, second, second, n);
    ASC_THEN();
    asc_sum_eights(s[1].src, eighth_pitch, fourth, pitch, rows, columns);
    asc_sum_eights(s[2].src, eighth_pitch, second, pitch, rows, columns);
    ASC_THEN();
    asc_mul(fourth, fourth, second, n); /* the sixth */
    ASC_THEN();
    asc_sum_eights(s[0].src, eighth_pitch, fourth, pitch, rows, columns);
    ASC_THEN();
    asc_sum_rows_of(s, POLY_NORM_POWERS, rows, eighth_pitch, eighth);
    if (!first)
        asc_add(sums, sums, piece, POLY_NORM_POWERS);
    ASC_THEN();
}

/* y = ((s_3 x + s_2) x + s_1) x + bias; y is not x. bias: a block. */
static inline __aicore__ void poly_norm_polynomial(__ubuf__ float *y, __ubuf__ float *x,
                                                   __ubuf__ float *blocks, __ubuf__ float *bias,
                                                   int64_t rows, int64_t pitch)
{
    POLY_NORM_BY(asc_mul, y, x, blocks, 0, rows, pitch);
    ASC_THEN();
    POLY_NORM_BY(asc_add, y, y, blocks, 1, rows, pitch);
    ASC_THEN();
    POLY_NORM_BY(asc_mul_add, y, x, blocks, 2, rows, pitch);
    ASC_THEN();
    ASC_BY(asc_mul_add, y, x, bias, rows, pitch, 0, 0, 0);
    ASC_THEN();
}

/* p1 = dy x, p2 = dy x^2, p3 = dy x^3. */
static inline __aicore__ void poly_norm_products(__ubuf__ float *p1, __ubuf__ float *p2,
                                                 __ubuf__ float *p3, __ubuf__ float *dy,
                                                 __ubuf__ float *x, uint32_t n)
{
    asc_mul(p1, dy, x, n);
    ASC_THEN();
    asc_mul(p2, p1, x, n);
    ASC_THEN();
    if (p3)
        asc_mul(p3, p2, x, n);
    ASC_THEN();
}

/* to = 3A p2 + 2B p1 + C dy + x (F + z (E + z D)), z = x^2, with A, B, C the blocks of `linear` and D, E, F those of `cubic`. p1, p2 and z
 * are used up; to may be p1, but not x. */
static inline __aicore__ void poly_norm_dx(__ubuf__ float *to, __ubuf__ float *p1,
                                           __ubuf__ float *p2, __ubuf__ float *z,
                                           __ubuf__ float *dy, __ubuf__ float *x,
                                           __ubuf__ float *linear, __ubuf__ float *cubic,
                                           int64_t rows, int64_t pitch)
{
    const uint32_t n = (uint32_t)(rows * pitch);
    asc_mul(z, x, x, n);
    POLY_NORM_BY(asc_mul, p2, p2, linear, 0, rows, pitch);
    ASC_THEN();
    POLY_NORM_BY(asc_fma, p2, p1, linear, 1, rows, pitch);
    ASC_THEN();
    POLY_NORM_BY(asc_fma, p2, dy, linear, 2, rows, pitch);
    POLY_NORM_BY(asc_mul, p1, z, cubic, 0, rows, pitch);
    ASC_THEN();
    POLY_NORM_BY(asc_add, p1, p1, cubic, 1, rows, pitch);
    ASC_THEN();
    POLY_NORM_BY(asc_mul_add, p1, z, cubic, 2, rows, pitch);
    ASC_THEN();
    asc_mul(p1, p1, x, n);
    ASC_THEN();
    asc_add(to, p1, p2, n);
    ASC_THEN();
}

/* dw += r S of every row, a block a power; linear = p w r and cubic = - p w r^3 S / N. sums: S, and used up. */
static inline __aicore__ void poly_norm_factors(__ubuf__ float *linear, __ubuf__ float *cubic,
                                                __ubuf__ float *dw, __ubuf__ float *sums,
                                                __ubuf__ float *rstd, __ubuf__ float *weight,
                                                int summed, int64_t rows, float part)
{
    const int64_t values = rows * POLY_NORM_POWERS;
    asc_mul(sums, sums, rstd, (uint32_t)values);
    asc_spread(linear, rstd, values);
    ASC_THEN();
    if (summed) {
        asc_spread(cubic, sums, values);
        ASC_THEN();
        asc_set_vector_mask(0, (uint64_t)0xffffff);
        asc_add(dw, cubic, dw, (uint8_t)rows, 1, 1, 1, 0, POLY_NORM_POWERS, 0);
    }
    asc_mul(sums, sums, rstd, (uint32_t)values);
    ASC_THEN();
    asc_mul(sums, sums, rstd, (uint32_t)values);
    ASC_THEN();
    asc_spread(cubic, sums, values);
    ASC_THEN();
    for (int k = 0; k < POLY_NORM_POWERS; k++) {
        const float by = (float)(POLY_NORM_POWERS - k) * weight[k];
        poly_norm_scale(linear, k, by, rows);
        poly_norm_scale(cubic, k, -part * by, rows);
    }
    ASC_THEN();
}

#define ASC_TEMPLATE "poly_norm.asc.h"
#include "asc_each_type.h"
