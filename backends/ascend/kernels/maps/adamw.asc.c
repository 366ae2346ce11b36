/* adamw.asc.c - one step of AdamW, in place. Arithmetic is f32 in UB. */
#include "adamw.args.h"
#include "shared/asc_common.h"

/* The numbers of a step, as the host has reduced them. squares: gradients are divided by its
 * root; 0: by nothing. */
typedef struct adamw_numbers {
    float squares, scale, beta1, rest1, beta2, rest2, keep, step, root, eps;
} adamw_numbers;

/* The gradients' scale, and whether they are clipped. 0: their norm is not finite. */
static inline __aicore__ int adamw_begin(adamw_numbers *by, __gm__ float *grad_squares, float scale,
                                         float limit, float max_norm)
{
    by->squares = 0;
    by->scale = scale;
    if (!grad_squares)
        return 1;
    asc_dcci_entire_all(); /* the scalar unit reads grad_squares */
    const float squares = grad_squares[0];
    if (squares > limit) {
        by->squares = squares;
        by->scale = max_norm;
    }
    return squares - squares == 0;
}

/* p, m, v become the next ones; g and s are used up. */
static inline __aicore__ void adamw_tile(__ubuf__ float *p, __ubuf__ float *m, __ubuf__ float *v,
                                         __ubuf__ float *g, __ubuf__ float *s,
                                         const adamw_numbers *by, uint32_t n)
{
    if (by->squares > 0) {
        asc_duplicate(s, by->squares, n);
        ASC_THEN();
        asc_sqrt(s, s, n);
        ASC_THEN();
        asc_div(g, g, s, n);
        ASC_THEN();
    }
    if (by->scale != 1.0f) {
        asc_mul_scalar(g, g, by->scale, n);
        ASC_THEN();
    }
    asc_mul(s, g, g, n);
    asc_mul_scalar(m, m, by->beta1, n);
    asc_mul_scalar(v, v, by->beta2, n);
    ASC_THEN();
    asc_axpy(v, s, by->rest2, n);
    asc_axpy(m, g, by->rest1, n);
    ASC_THEN();
    asc_sqrt(s, v, n);
    ASC_THEN();
    asc_mul_scalar(s, s, by->root, n);
    ASC_THEN();
    asc_add_scalar(s, s, by->eps, n);
    asc_mul_scalar(p, p, by->keep, n);
    ASC_THEN();
    asc_div(s, m, s, n);
    ASC_THEN();
    asc_axpy(p, s, -by->step, n);
    ASC_THEN();
}

#define ASC_TEMPLATE "maps/adamw.asc.h"
#include "shared/asc_each_type.h"
