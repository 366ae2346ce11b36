/* adamw.asc.c - one step of AdamW, in place. Arithmetic is f32 in UB. */
#include "adamw.args.h"
#include "clipping.h"

/* The numbers of a step, as the host has reduced them. */
typedef struct adamw_numbers {
    asc_clipping clip;
    float beta1, rest1, beta2, rest2, keep, step, root, eps;
} adamw_numbers;

/* p, m, v become the next ones; g and s are used up. */
static inline __aicore__ void adamw_tile(__ubuf__ float *p, __ubuf__ float *m, __ubuf__ float *v,
                                         __ubuf__ float *g, __ubuf__ float *s,
                                         const adamw_numbers *by, uint32_t n)
{
    asc_clip(g, s, &by->clip, n);
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
