/* poly_norm.asc.c - y = sum over p of w_p x^p r_p + bias, r_p = 1 / sqrt(mean(x^2p) + eps), p = 3,
 * 2, 1, and its gradients: with
 * S_p = sum of dy x^p
 *   dx = sum over p of p w_p r_p (dy x^(p-1) - x^(2p-1) r_p^2 S_p / N),
 *   dw_p = sum over rows of r_p S_p,   dbias = sum of dy.
 * Arithmetic is f32 in UB.
 *
 * Whole rows, several if they are short, stay in UB between their sums and what is written. A wider
 * row is gone through twice in pieces. What belongs to a row are three values, or three blocks, in
 * the order of the powers 3, 2, 1: as rstd has them. Blocks' sums are added by
 * kernels/sums/partials.asc.c. */
#include "poly_norm.args.h"
#include "shared/asc_short.h"

/* How the three values of each row lie: from one to the next, and as ASC_BY() takes them. */
typedef struct poly_norm_values {
    int64_t next;
    int block, repeat, row;
} poly_norm_values;

/* As blocks of a row. */
static inline __aicore__ poly_norm_values poly_norm_blocks(void)
{
    poly_norm_values v = {8, 0, 0, POLY_NORM_POWERS};
    return v;
}

/* As lines of all rows, where they are short (asc_short.h). */
static inline __aicore__ poly_norm_values poly_norm_lines(int64_t lanes)
{
    poly_norm_values v = {lanes, 1, 8, 0};
    return v;
}

#define POLY_NORM_BY(op, dst, src, by, k, rows, pitch) \
    ASC_BY(op, dst, src, (by) + v.next * (k), rows, pitch, v.block, v.repeat, v.row)

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

/* The sums of x^6, x^4, x^2 of rows, or of one row's pieces so far. second and fourth are used up;
 * s: scratch for the three sums. */
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
                                                   poly_norm_values v, int64_t rows, int64_t pitch)
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

/* to = 3A p2 + 2B p1 + C dy + x (F + z (E + z D)), z = x^2, with A, B, C the blocks of `linear` and
 * D, E, F those of `cubic`. p1, p2 and z
 * are used up; to may be p1, but not x. */
static inline __aicore__ void poly_norm_dx(__ubuf__ float *to, __ubuf__ float *p1,
                                           __ubuf__ float *p2, __ubuf__ float *z,
                                           __ubuf__ float *dy, __ubuf__ float *x,
                                           __ubuf__ float *linear, __ubuf__ float *cubic,
                                           poly_norm_values v, int64_t rows, int64_t pitch)
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

/* dw += r S of every row, a block a power; linear = p w r and cubic = - p w r^3 S / N.
 * sums: S, and used up. */
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

/* ---- short rows: tiles of lines (asc_short.h), three of values ---- */

/* y = the polynomial. stat: rstd; s: the same times w; p: scratch. */
static inline __aicore__ void poly_norm_forward_lines(__ubuf__ float *y, __ubuf__ float *x,
                                                      __ubuf__ float *p, __ubuf__ float *stat,
                                                      __ubuf__ float *s, __ubuf__ float *w,
                                                      __ubuf__ float *bias, float part, float eps,
                                                      int64_t columns, int64_t lanes)
{
    const uint32_t n = (uint32_t)(columns * lanes), values = (uint32_t)(POLY_NORM_POWERS * lanes);
    asc_mul(p, x, x, n);
    ASC_THEN();
    asc_short_sum(stat + 2 * lanes, p, columns, lanes);
    asc_mul(y, p, p, n);
    ASC_THEN();
    asc_short_sum(stat + lanes, y, columns, lanes);
    asc_mul(y, y, p, n);
    ASC_THEN();
    asc_short_sum(stat, y, columns, lanes);
    asc_mul_scalar(stat, stat, part, values);
    ASC_THEN();
    asc_inverse_roots(stat, s, values, eps);
    for (int k = 0; k < POLY_NORM_POWERS; k++)
        asc_mul_scalar(s + k * lanes, stat + k * lanes, w[k], (uint32_t)lanes);
    ASC_THEN();
    poly_norm_polynomial(y, x, s, bias, poly_norm_lines(lanes), columns, lanes);
}

/* p1 = dx. p2, p3: scratch of a tile; sums and cubic: of three lines. r: rstd, used up. dw, db:
 * sums, of 64 lanes each, of the first
 * `count` rows. */
static inline __aicore__ void
poly_norm_backward_lines(__ubuf__ float *p1, __ubuf__ float *p2, __ubuf__ float *p3,
                         __ubuf__ float *g, __ubuf__ float *x, __ubuf__ float *r,
                         __ubuf__ float *sums, __ubuf__ float *cubic, __ubuf__ float *dw,
                         __ubuf__ float *db, __ubuf__ float *w, float part, int64_t columns,
                         int64_t lanes, int64_t count)
{
    const uint32_t values = (uint32_t)(POLY_NORM_POWERS * lanes);
    poly_norm_products(p1, p2, p3, g, x, (uint32_t)(columns * lanes));
    asc_short_sum(cubic, g, columns, lanes);
    asc_short_add(db, cubic, 1, lanes, count);
    asc_short_sum(sums, p3, columns, lanes);
    asc_short_sum(sums + lanes, p2, columns, lanes);
    asc_short_sum(sums + 2 * lanes, p1, columns, lanes);
    asc_mul(sums, sums, r, values);
    ASC_THEN();
    asc_short_add(dw, sums, POLY_NORM_POWERS, lanes, count);
    ASC_THEN();
    asc_mul(cubic, sums, r, values);
    ASC_THEN();
    asc_mul(cubic, cubic, r, values);
    ASC_THEN();
    for (int k = 0; k < POLY_NORM_POWERS; k++) {
        const float by = (float)(POLY_NORM_POWERS - k) * w[k];
        asc_mul_scalar(r + k * lanes, r + k * lanes, by, (uint32_t)lanes);
        asc_mul_scalar(cubic + k * lanes, cubic + k * lanes, -part * by, (uint32_t)lanes);
    }
    ASC_THEN();
    poly_norm_dx(p1, p1, p2, p3, g, x, r, cubic, poly_norm_lines(lanes), columns, lanes);
}

#define ASC_TEMPLATE "norms/poly_norm.asc.h"
#include "shared/asc_each_type.h"
