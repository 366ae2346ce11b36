/* asc_cap.h - a soft cap, on f32 in UB. */
#ifndef ASC_CAP_H
#define ASC_CAP_H

#include "asc_common.h"

/* What keeps a quotient of zeros 1, and changes no other. */
#define ASC_CAP_TINY 1e-20f

/* x = c tanh u of 2u = doubled r, with c tanh u = c (E - 1) / (E + 1), E = exp(2u); E - 1 as (E -
 * 1) 2u / log E, which keeps the digits of a small u; slope, if wanted, in t: 1 - tanh^2 = 4 E / (E
 * + 1)^2. x may be r; t, s: scratch. */
static inline __aicore__ void asc_cap(__ubuf__ float *x, __ubuf__ float *t, __ubuf__ float *s,
                                      __ubuf__ float *r, float doubled, float softcap, int slope,
                                      uint32_t n)
{
    asc_mul_scalar(x, r, doubled, n);
    ASC_THEN();
    asc_min_scalar(x, x, 83.0f, n);
    ASC_THEN();
    asc_max_scalar(x, x, -83.0f, n);
    ASC_THEN();
    asc_exp(t, x, n);
    ASC_THEN();
    asc_add_scalar(s, t, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(s, s, ASC_CAP_TINY, n);
    ASC_THEN();
    asc_mul(s, s, x, n);
    ASC_THEN();
    asc_log(x, t, n);
    ASC_THEN();
    asc_add_scalar(x, x, ASC_CAP_TINY, n);
    ASC_THEN();
    asc_div(s, s, x, n);
    ASC_THEN();
    asc_add_scalar(x, t, 1.0f, n);
    ASC_THEN();
    asc_div(s, s, x, n);
    if (slope) {
        asc_div(t, t, x, n);
        ASC_THEN();
        asc_div(t, t, x, n);
        ASC_THEN();
        asc_mul_scalar(t, t, 4.0f, n);
    }
    ASC_THEN();
    asc_mul_scalar(x, s, softcap, n);
    ASC_THEN();
}

#endif
