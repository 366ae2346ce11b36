/* mhc_coeffs.h - coefficients of the tokens of a tile, and their gradients: the arithmetic on
 * lines. */
#ifndef MHC_COEFFS_H
#define MHC_COEFFS_H

#include "mhc_lines.h"
#include "shared/asc_short.h"

/* ---- matrices ---- */

/* Numbers of a matrix of all tokens. */
static inline __aicore__ uint32_t mhc_matrix(const mhc_tile *t)
{
    return (uint32_t)(t->streams * t->row);
}

/* x becomes alpha x + bias, of all columns. */
static inline __aicore__ void mhc_logits(const mhc_tile *t, __ubuf__ float *x, __gm__ float *bias,
                                         const float *alpha)
{
    for (int64_t row = 0; row < t->streams + 2; row++)
        asc_mul_scalar(x + row * t->row, x + row * t->row, alpha[row < 2 ? row : 2],
                       (uint32_t)t->row);
    ASC_THEN();
    const uint16_t block = (uint16_t)t->streams;
    ASC_COUNTED(t->groups * MHC_GROUP);
    for (int64_t m = 0; m < MHC_COLUMNS(t->streams); m++) {
        __ubuf__ float *at = x + m / t->streams * t->row + m % t->streams * MHC_GROUP;
        asc_add_scalar(at, at, bias[m], 1, block, block, (uint16_t)(8 * block),
                       (uint16_t)(8 * block));
    }
    ASC_UNCOUNTED();
    ASC_THEN();
}

/* The softmax of each row; sums: scratch. */
static inline __aicore__ void mhc_softmax(const mhc_tile *t, __ubuf__ float *x,
                                          __ubuf__ float *sums)
{
    const mhc_lines rows = mhc_rows_of(t);
    MHC_FOLD(asc_max, t, rows, sums, x, t->row, 0.0f);
    MHC_BY_LINE(asc_sub, t, rows, x, x, sums);
    asc_exp(x, x, mhc_matrix(t));
    ASC_THEN();
    MHC_FOLD(asc_add, t, rows, sums, x, t->row, 0.0f);
    MHC_BY_LINE(asc_div, t, rows, x, x, sums);
}

/* x, a softmax, becomes the last of its iterates. divisors: what step k has divided by goes to row
 * k - 1 of them, or all to one if `keep` is 0. */
static inline __aicore__ void mhc_iterate(const mhc_tile *t, __ubuf__ float *x,
                                          __ubuf__ float *divisors, int keep)
{
    asc_add_scalar(x, x, t->eps, mhc_matrix(t));
    ASC_THEN();
    for (int64_t k = 1; k < 2 * t->iterations; k++) {
        const mhc_lines lines = mhc_step_of(t, k);
        MHC_FOLD(asc_add, t, lines, divisors, x, t->row, t->eps);
        MHC_BY_LINE(asc_div, t, lines, x, x, divisors);
        if (keep)
            divisors += t->row;
    }
}

/* d, the gradient of the last iterate x, becomes that of the softmax' logits. p: the softmax; x,
 * product, sums: scratch in the end. A step's operand is its result by what it was divided by. */
static inline __aicore__ void mhc_iterate_back(const mhc_tile *t, __ubuf__ float *d,
                                               __ubuf__ float *x, __ubuf__ float *p,
                                               __ubuf__ float *divisors, __ubuf__ float *product,
                                               __ubuf__ float *sums)
{
    const mhc_lines rows = mhc_rows_of(t);
    for (int64_t k = 2 * t->iterations - 1; k > 0; k--) {
        const mhc_lines lines = mhc_step_of(t, k);
        __ubuf__ float *by = divisors + (k - 1) * t->row;
        asc_mul(product, d, x, mhc_matrix(t));
        ASC_THEN();
        MHC_FOLD(asc_add, t, lines, sums, product, t->row, 0.0f);
        MHC_BY_LINE(asc_sub, t, lines, d, d, sums);
        MHC_BY_LINE(asc_div, t, lines, d, d, by);
        MHC_BY_LINE(asc_mul, t, lines, x, x, by);
    }
    asc_mul(product, d, p, mhc_matrix(t));
    ASC_THEN();
    MHC_FOLD(asc_add, t, rows, sums, product, t->row, 0.0f);
    MHC_BY_LINE(asc_sub, t, rows, d, d, sums);
    asc_mul(d, d, p, mhc_matrix(t));
    ASC_THEN();
}

/* x becomes its logistic function; ones: as many numbers of scratch. */
static inline __aicore__ void mhc_logistic(__ubuf__ float *x, __ubuf__ float *ones, uint32_t n)
{
    asc_duplicate(ones, 1.0f, n);
    asc_mul_scalar(x, x, -1.0f, n);
    ASC_THEN();
    asc_exp(x, x, n);
    ASC_THEN();
    asc_add_scalar(x, x, 1.0f, n);
    ASC_THEN();
    asc_div(x, ones, x, n);
    ASC_THEN();
}

/* g becomes g times the derivative of the logistic function at x: with e = exp(-|x|) that is
 * e / (1 + e)^2. x: scratch in the end. */
static inline __aicore__ void mhc_logistic_back(__ubuf__ float *g, __ubuf__ float *x,
                                                __ubuf__ float *e, uint32_t n)
{
    asc_abs(x, x, n);
    ASC_THEN();
    asc_mul_scalar(x, x, -1.0f, n);
    ASC_THEN();
    asc_exp(e, x, n);
    ASC_THEN();
    asc_add_scalar(x, e, 1.0f, n);
    ASC_THEN();
    asc_div(e, e, x, n);
    ASC_THEN();
    asc_div(e, e, x, n);
    ASC_THEN();
    asc_mul(g, g, e, n);
    ASC_THEN();
}

#endif
