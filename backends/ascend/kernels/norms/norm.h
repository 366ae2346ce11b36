/* norm.h - mean and variance of rows, or of one group of them: what layer_norm and group_norm
 * share; and what they share with dyt. f32 in UB. */
#ifndef NORM_H
#define NORM_H

#include "shared/asc_short.h"
#include "shared/asc_strip.h"

/* What belongs to the rows of a tile: a value each, or a block each. */
typedef struct norm_rows {
    __ubuf__ float *mean, *rstd, *sum, *squares, *piece; /* values */
    __ubuf__ float *means, *rstds;                       /* blocks */
    __ubuf__ float *eighth, *rest;                       /* scratch */
} norm_rows;

/* mean, rstd and their blocks. part: 1 / columns. */
static inline __aicore__ void norm_statistics(const norm_rows *r, int whole, int64_t rows,
                                              float part, float eps)
{
    asc_mul_scalar(r->rstd, r->squares, part, (uint32_t)rows);
    if (!whole) { /* the mean of q is to be taken off: piece */
        asc_mul_scalar(r->sum, r->sum, part, 1);
        ASC_THEN();
        asc_sub(r->piece, r->sum, r->mean, 1);
        ASC_THEN();
        asc_mul(r->piece, r->piece, r->piece, 1);
        asc_add_scalar(r->mean, r->sum, 0.0f, 1);
        ASC_THEN();
        asc_sub(r->rstd, r->rstd, r->piece, 1);
        asc_spread(r->means, r->mean, 1);
        ASC_THEN();
        asc_max_scalar(r->rstd, r->rstd, 0.0f, 1);
    }
    ASC_THEN();
    asc_rstd(r->rstd, r->rstds, rows, eps);
}

/* y = y scale + shift, of which either may be absent: a value a column or, of lines
 * (asc_short.h), a block a line. */
static inline __aicore__ void norm_affine(__ubuf__ float *y, __ubuf__ float *scale,
                                          __ubuf__ float *shift, int lines, int64_t rows,
                                          int64_t pitch)
{
    const uint8_t block = !lines, repeat = lines ? 0 : 8, row = (uint8_t)lines;
    if (scale && shift)
        ASC_FMA_BY(y, scale, shift, rows, pitch, block, repeat, row);
    else if (scale)
        ASC_BY(asc_mul, y, y, scale, rows, pitch, block, repeat, row);
    else if (shift)
        ASC_BY(asc_add, y, y, shift, rows, pitch, block, repeat, row);
    ASC_THEN();
}

/* ---- short rows: a tile of lines (asc_short.h) ---- */

/* x = (x - mean) rstd, with both of each row. q: scratch of a tile; ones: of a line. */
static inline __aicore__ void norm_forward_lines(__ubuf__ float *x, __ubuf__ float *q,
                                                 __ubuf__ float *mean, __ubuf__ float *rstd,
                                                 __ubuf__ float *ones, float part, float eps,
                                                 int64_t columns, int64_t lanes)
{
    asc_short_sum(mean, x, columns, lanes);
    asc_mul_scalar(mean, mean, part, (uint32_t)lanes);
    ASC_THEN();
    ASC_BY_COLUMN(asc_sub, x, x, mean, columns, lanes);
    ASC_THEN();
    asc_mul(q, x, x, (uint32_t)(columns * lanes));
    asc_short_sum(rstd, q, columns, lanes);
    asc_mul_scalar(rstd, rstd, part, (uint32_t)lanes);
    ASC_THEN();
    asc_inverse_roots(rstd, ones, (uint32_t)lanes, eps);
    ASC_BY_COLUMN(asc_mul, x, x, rstd, columns, lanes);
    ASC_THEN();
}

/* x becomes dx = rstd (m - x mean(m x) - mean(m)), x normalised; m is used up. p: scratch of a
 * tile; sum, product: of a line. */
static inline __aicore__ void norm_backward_lines(__ubuf__ float *m, __ubuf__ float *x,
                                                  __ubuf__ float *p, __ubuf__ float *rstd,
                                                  __ubuf__ float *sum, __ubuf__ float *product,
                                                  float part, int64_t columns, int64_t lanes)
{
    asc_mul(p, m, x, (uint32_t)(columns * lanes));
    asc_short_sum(sum, m, columns, lanes);
    asc_short_sum(product, p, columns, lanes);
    asc_mul_scalar(sum, sum, -part, (uint32_t)lanes);
    asc_mul_scalar(product, product, -part, (uint32_t)lanes);
    ASC_THEN();
    ASC_BY_COLUMN(asc_add, m, m, sum, columns, lanes);
    ASC_THEN();
    ASC_BY_COLUMN(ASC_MUL_ADD, x, m, product, columns, lanes);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, x, x, rstd, columns, lanes);
    ASC_THEN();
}

#endif
