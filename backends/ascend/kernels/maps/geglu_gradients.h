/* geglu_gradients.h - gradients of gelu(gate) up in both forms, on f32 in UB. */
#ifndef GEGLU_GRADIENTS_H
#define GEGLU_GRADIENTS_H

#include "geglu_exact.h"
#include "geglu_tanh.h"

/* What dup and dgate are made of but for up. g: dy; a: gate; k, q, w, h, r: scratch. */
static inline __aicore__ void geglu_slopes(const gelu_fit *fit, int64_t exact, __ubuf__ float *g,
                                           __ubuf__ float *a, __ubuf__ float *k, __ubuf__ float *q,
                                           __ubuf__ float *w, __ubuf__ float *h, __ubuf__ float *r,
                                           __ubuf__ float *c, uint32_t n)
{
    if (exact)
        gelu_bells(fit, k, h, r, a, q, w, c, n);
    else
        gelu_slopes(g, k, a, q, w, h, n);
}

/* The gradients of it; u: up, dgate may be k and dup a. */
static inline __aicore__ void geglu_gradients(int64_t exact, __ubuf__ float *dgate,
                                              __ubuf__ float *dup, __ubuf__ float *g,
                                              __ubuf__ float *a, __ubuf__ float *u,
                                              __ubuf__ float *k, __ubuf__ float *w,
                                              __ubuf__ float *h, __ubuf__ float *r, uint32_t n)
{
    if (exact)
        gelu_exact_products(dup, k, g, a, h, r, w, n);
    else
        gelu_tanh_products(dup, k, g, a, n);
    asc_mul(dgate, k, u, n);
    ASC_THEN();
}

#endif
