/* geglu.asc.c - y = gelu(gate) up, in the tanh form and the exact one, and its gradients.
 * Arithmetic is f32 in UB.
 *
 * There is neither tanh nor erf: both forms are built from exp and a quotient, so that far below
 * zero nothing is a difference and nothing is flushed that the result does not flush. Stages stand
 * between two ASC_THEN(); of two sources of one instruction one lies LOW, one HIGH (geglu.c). */
#include "geglu.args.h"
#include "geglu_exact.h"
#include "geglu_tanh.h"
#include "shared/asc_neighbours.h"
#include "shared/asc_short.h"

/* Forward, a rounding to 8 bits hides what the shortest fit is off by; backward, gelu'
 * passes through zero. */
#define gelu_forward_fit_f32 gelu_fit_of_4
#define gelu_forward_fit_bf16 gelu_fit_of_2
#define gelu_forward_fit_f16 gelu_fit_of_f16
#define gelu_backward_fit_f32 gelu_fit_of_4
#define gelu_backward_fit_bf16 gelu_fit_of_3
#define gelu_backward_fit_f16 gelu_fit_of_3

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

#define ASC_TEMPLATE "maps/geglu.asc.h"
#include "shared/asc_each_type.h"
