/* cross_entropy_short.asc.c - losses and gradients of rows of so few classes that they are
 * transposed in UB (asc_short.h): what is one number for a row lies in job->lanes, and the row's
 * logits go down the same lane.
 *
 * Without class weights, softcap and argmax: cross_entropy_rows.asc.c has these. */
#include "cross_entropy_rows.h"
#include "shared/asc_short.h"

/* A tile. others: 1 for a class that is not its row's target, else 0; mask: all bits of a row that
 * is not ignored; first: the bytes to each row's first class. */
typedef struct ce_lines {
    int64_t columns, lanes;
    __ubuf__ float *x, *others;
    __ubuf__ int64_t *target;
    __ubuf__ int32_t *mask, *first;
} ce_lines;

/* asc_and of f32. */
#define CE_AND(dst, a, b, ...)                                                              \
    asc_and((__ubuf__ uint16_t *)(dst), (__ubuf__ uint16_t *)(a), (__ubuf__ uint16_t *)(b), \
            __VA_ARGS__)

/* x of ignored rows becomes 0, whatever it is. ASC_THEN() is left to the caller. */
static inline __aicore__ void ce_lines_keep(const ce_lines *t)
{
    ASC_BY_COLUMN(CE_AND, t->x, t->x, (__ubuf__ float *)t->mask, t->columns, t->lanes);
}

/* As targets of 32 bits have it. */
static inline __aicore__ int64_t ce_lines_ignored(const ce_job *job)
{
    const int64_t i = job->ignore_index;
    return i < INT32_MIN ? INT32_MIN : i > INT32_MAX ? INT32_MAX : i;
}

/* From targets to `mask`, x, `others`, and of each row WEIGHT, 1 or 0 if it is ignored, and HIT. */
static inline __aicore__ void ce_lines_targets(const ce_job *job, const ce_lines *t)
{
    const uint32_t n = (uint32_t)t->lanes, all = (uint32_t)(t->columns * t->lanes);
    __ubuf__ int32_t *at = ce_int_at(job, CE_CLASS), *place = ce_int_at(job, CE_PLACE);
    __ubuf__ float *class_at = ce_at(job, CE_VALUE);
    asc_int642int32(at, t->target, n);
    ASC_THEN();
    asc_add_scalar(t->mask, at, (int32_t)-ce_lines_ignored(job), n);
    asc_int322float(class_at, at, n);
    asc_max_scalar(place, at, 0, n);
    ASC_THEN();
    asc_max_scalar(t->mask, t->mask, -1, n);
    asc_min_scalar(place, place, (int32_t)t->columns - 1, n);
    for (int64_t c = 0; c < t->columns; c++)
        asc_add_scalar(t->others + c * t->lanes, class_at, -(float)c, n);
    ASC_THEN();
    asc_min_scalar(t->mask, t->mask, 1, n);
    asc_mul_scalar(place, place, (int32_t)(t->lanes * 4), n);
    asc_abs(t->others, t->others, all);
    ASC_THEN();
    asc_mul(t->mask, t->mask, t->mask, n); /* 1, or 0 of a target that is ignored */
    asc_add(place, place, t->first, n);
    asc_min_scalar(t->others, t->others, 1.0f, all);
    ASC_THEN();
    asc_int322float(ce_at(job, CE_ROWS_WEIGHT), t->mask, n);
    ASC_THEN();
    asc_mul_scalar(t->mask, t->mask, -1, n);
    ASC_THEN();
    ce_lines_keep(t);
    ASC_THEN();
    asc_gather(ce_at(job, CE_ROWS_HIT), t->x, (__ubuf__ uint32_t *)place, n);
}

/* x to exponentials, 0 of the targets, relative to `top`, a number of each row. ASC_THEN() is
 * left to the caller. */
static inline __aicore__ void ce_lines_exponentials(const ce_job *job, const ce_lines *t,
                                                    __ubuf__ float *top)
{
    const uint32_t all = (uint32_t)(t->columns * t->lanes);
    ASC_BY_COLUMN(asc_sub, t->x, t->x, top, t->columns, t->lanes);
    ASC_THEN();
    if (job->scale != 1.0f) {
        asc_mul_scalar(t->x, t->x, job->scale, all);
        ASC_THEN();
    }
    asc_exp(t->x, t->x, all);
    ASC_THEN();
    asc_mul(t->x, t->x, t->others, all);
}

/* x to exponentials and all results of the rows. */
static inline __aicore__ void ce_lines_forward(const ce_job *job, const ce_lines *t)
{
    const uint32_t n = (uint32_t)t->lanes;
    __ubuf__ float *top = ce_at(job, CE_ROWS_TOP), *others = ce_at(job, CE_ROWS_OTHERS);
    asc_duplicate(top, ASC_LOWEST, n);
    if (job->smoothing != 0.0f)
        asc_duplicate(ce_at(job, CE_ROWS_WX), 0.0f, n);
    ASC_THEN();
    ASC_DOWN(asc_max, top, t->x, t->columns, t->lanes);
    if (job->smoothing != 0.0f)
        ASC_DOWN(asc_add, ce_at(job, CE_ROWS_WX), t->x, t->columns, t->lanes);
    ASC_THEN();
    ce_lines_exponentials(job, t, top);
    asc_short_sum(others, t->x, t->columns, t->lanes);
    asc_mul(others, others, ce_at(job, CE_ROWS_WEIGHT), n);
    ce_results(job);
}

static inline __aicore__ void ce_lines_copy(__ubuf__ float *to, const ce_job *job, int number)
{
    asc_add_scalar(to, ce_at(job, number), 0.0f, (uint32_t)job->batch);
}

/* From saved lse: exponentials, P and Q. */
static inline __aicore__ void ce_lines_saved(const ce_job *job, const ce_lines *t,
                                             __ubuf__ float *lse)
{
    const uint32_t n = (uint32_t)t->lanes;
    asc_add_scalar(ce_at(job, CE_ROWS_LSE), lse, 0.0f, n);
    asc_duplicate(ce_at(job, CE_TOTAL), 1.0f, n);
    ce_lines_exponentials(job, t, lse);
    ce_expm1(ce_at(job, CE_P), ce_at(job, CE_Q), ce_at(job, CE_OLD), ce_at(job, CE_VALUE),
             ce_at(job, CE_ROWS_HIT), ce_at(job, CE_ROWS_LSE), n);
}

/* x, exponentials, becomes the gradient. The bias is taken from all classes, and so given back to
 * the target's. What all of a row is times comes last: an infinite dloss makes its classes
 * infinite, not the zeros that stand beside them NaN. */
static inline __aicore__ void ce_lines_gradient(const ce_job *job, const ce_lines *t)
{
    const uint32_t all = (uint32_t)(t->columns * t->lanes), n = (uint32_t)t->lanes;
    const float smooth = ce_smooth(job);
    __ubuf__ float *target = ce_at(job, CE_AT_TARGET);
    ce_rows_shares(job, 0);
    asc_add_scalar(t->others, t->others, -1.0f, all);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, t->x, t->x, ce_at(job, CE_FACTOR), t->columns, t->lanes);
    if (smooth != 0.0f) {
        asc_add_scalar(target, target, smooth, n);
        ASC_THEN();
        asc_add_scalar(t->x, t->x, -smooth, all);
    }
    ASC_THEN();
    asc_mul_scalar(target, target, -1.0f, n);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, t->others, t->others, target, t->columns, t->lanes);
    ASC_THEN();
    asc_add(t->x, t->x, t->others, all);
    ASC_THEN();
    ASC_BY_COLUMN(asc_mul, t->x, t->x, ce_at(job, CE_G), t->columns, t->lanes);
    ASC_THEN();
    ce_lines_keep(t);
    ASC_THEN();
}

#define ASC_TEMPLATE "losses/cross_entropy_short.asc.h"
#include "shared/asc_each_type.h"
