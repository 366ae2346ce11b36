/* norm.h - mean and variance of rows, or of one group of them: what layer_norm and group_norm share. f32 in UB. */
#ifndef NORM_H
#define NORM_H

#include "asc_short.h"

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

#endif
