/* kl_div.asc.c - d = t (log(max(t, eps)) - y), or exp(t) (t - y) of logarithms, and its gradient,
 * -t or -exp(t). Arithmetic is f32 in UB. */
#include "divergence.h"
#include "kl_div.args.h"

/* The logarithm of what is subnormal is -inf on a vector core: it is taken of 2^64 times as much. t
 * = log(max(w, least)); a: scratch. */
static inline __aicore__ void kl_div_log(__ubuf__ float *t, __ubuf__ float *w, __ubuf__ float *a,
                                         float least, uint32_t n)
{
    const float normal = 1.17549435e-38f, much = 1.8446744e19f; /* 2^-126, 2^64 */
    asc_max_scalar(t, w, normal, n);
    asc_min_scalar(a, w, normal, n);
    ASC_THEN();
    asc_log(t, t, n);
    asc_max_scalar(a, a, least, n);
    ASC_THEN();
    asc_mul_scalar(a, a, much, n);
    ASC_THEN();
    asc_log(a, a, n);
    ASC_THEN();
    asc_add_scalar(a, a, 42.9751253f, n); /* 62 log 2: 0 for all that is not subnormal */
    ASC_THEN();
    asc_add(t, t, a, n);
    ASC_THEN();
}

/* w (log(max(w, least)) - y), which is 0 for a w of 0 even if the logarithm is -inf. y is
 * used up; a: scratch. */
static inline __aicore__ void kl_div_any(__ubuf__ float *t, __ubuf__ float *w, __ubuf__ float *y,
                                         __ubuf__ float *a, float least, uint32_t n)
{
    kl_div_log(t, w, a, least, n);
    asc_abs(a, w, n);
    ASC_THEN();
    asc_mul_scalar(a, a, ASC_LOWEST, n);
    ASC_THEN();
    asc_mul_scalar(a, a, -ASC_LOWEST, n);
    ASC_THEN();
    asc_mul_scalar(a, a, -ASC_LOWEST, n); /* a subnormal weight's, too, is -inf */
    ASC_THEN();
    asc_max(t, t, a, n);
    asc_max(y, y, a, n);
    ASC_THEN();
    asc_sub(t, t, y, n);
    ASC_THEN();
    asc_mul(t, t, w, n);
}

static inline __aicore__ void kl_div_tile(__ubuf__ float *t, __ubuf__ float *g,
                                          __ubuf__ float *y_pred, __ubuf__ float *y_true,
                                          __ubuf__ float *a, float factor, float least, int variant,
                                          int has_terms, uint32_t n)
{
    if (variant == KL_DIV_LOGS)
        divergence_of_logs(t, g, y_true, y_pred, a, -factor, has_terms, n);
    else
        divergence_of_weights(t, g, y_true, y_pred, a, -factor, least,
                              has_terms && variant == KL_DIV_WEIGHTS, n);
    if (has_terms && variant == KL_DIV_ANY_WEIGHTS)
        kl_div_any(t, y_true, y_pred, a, least, n);
}

#define ASC_TEMPLATE "losses/kl_div.asc.h"
#include "shared/asc_each_type.h"
