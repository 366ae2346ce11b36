/* softmax_jsd_short.asc.c - softmax_jsd of rows of so few classes that they are transposed in UB
 * (asc_short.h): arithmetic as softmax_jsd.asc.c has it, of all rows of a tile at once. What is one
 * number for a row lies in job->numbers.
 *
 * Of a mixture, L = log(M/Q) = log(1 + beta (exp(D) - 1)), D = v - u, is what the slopes are the
 * negatives of, and the loss's too. Where the teacher hardly knows the student's likeliest class it
 * is taken less log(1 - beta): log(1 + odds exp(D)). */
#include "mixture.h"
#include "shared/asc_short.h"
#include "softmax_jsd.args.h"

/* Numbers of a row. TOP, LOG and BEST as there. FAR, NEAR: what exp(D) - 1 and exp(D) are
 * multiplied by in L, of which one is 0; WEIGHT, BASE: W = BASE + WEIGHT exp(D), whose logarithm L
 * is; SHIFT: what L lacks; MIDDLE: the slope, or of a mixture L, of the likeliest class. */
enum {
    SJSD_TOP,
    SJSD_LOG,
    SJSD_TEACHER_TOP,
    SJSD_TEACHER_LOG,
    SJSD_BEST,
    SJSD_FAR,
    SJSD_NEAR,
    SJSD_SHIFT,
    SJSD_MIDDLE,
    SJSD_SUM,
    SJSD_LOSS,
    SJSD_WEIGHT = SJSD_TEACHER_TOP,
    SJSD_BASE = SJSD_TEACHER_LOG
};

/* A tile: u, v: student and teacher, lines of classes; t, a, b, c: scratch, and the gradient in c.
 * mask: all bits of a row that counts. */
typedef struct sjsd_lines {
    int64_t kind, columns, lanes;
    int loss, writes;
    float scale, factor, beta, rest, odds, log_rest, near;
    __ubuf__ float *u, *v, *t, *a, *b, *c, *numbers;
    __ubuf__ int32_t *mask;
} sjsd_lines;

static inline __aicore__ __ubuf__ float *sjsd_at(const sjsd_lines *job, int number)
{
    return job->numbers + number * job->lanes;
}

static inline __aicore__ uint32_t sjsd_all(const sjsd_lines *job)
{
    return (uint32_t)(job->columns * job->lanes);
}

/* u and v become logarithms of softmaxes. */
static inline __aicore__ void sjsd_logarithms(const sjsd_lines *job)
{
    const int64_t columns = job->columns, lanes = job->lanes;
    const uint32_t n = (uint32_t)lanes, all = sjsd_all(job);
    __ubuf__ float *top = sjsd_at(job, SJSD_TOP), *log = sjsd_at(job, SJSD_LOG);
    __ubuf__ float *teacher_top = sjsd_at(job, SJSD_TEACHER_TOP);
    __ubuf__ float *teacher_log = sjsd_at(job, SJSD_TEACHER_LOG);
    asc_duplicate(top, ASC_LOWEST, n);
    asc_duplicate(teacher_top, ASC_LOWEST, n);
    asc_duplicate(log, 0.0f, n);
    asc_duplicate(teacher_log, 0.0f, n);
    ASC_THEN();
    ASC_DOWN(asc_max, top, job->u, columns, lanes);
    ASC_DOWN(asc_max, teacher_top, job->v, columns, lanes);
    ASC_THEN();
    ASC_BY_COLUMN(asc_sub, job->u, job->u, top, columns, lanes);
    ASC_BY_COLUMN(asc_sub, job->v, job->v, teacher_top, columns, lanes);
    ASC_THEN();
    if (job->scale != 1.0f) {
        asc_mul_scalar(job->u, job->u, job->scale, all);
        asc_mul_scalar(job->v, job->v, job->scale, all);
        ASC_THEN();
    }
    asc_exp(job->a, job->u, all);
    asc_exp(job->b, job->v, all);
    ASC_THEN();
    ASC_DOWN(asc_add, log, job->a, columns, lanes);
    ASC_DOWN(asc_add, teacher_log, job->b, columns, lanes);
    ASC_THEN();
    asc_log(log, log, n);
    asc_log(teacher_log, teacher_log, n);
    ASC_THEN();
    ASC_BY_COLUMN(asc_sub, job->u, job->u, log, columns, lanes);
    ASC_BY_COLUMN(asc_sub, job->v, job->v, teacher_log, columns, lanes);
    ASC_THEN();
}

/* BEST: the teacher's largest logarithm where the student's is at its maximum, which is -LOG. */
static inline __aicore__ void sjsd_best(const sjsd_lines *job)
{
    const uint32_t all = sjsd_all(job);
    __ubuf__ float *best = sjsd_at(job, SJSD_BEST);
    ASC_BY_COLUMN(asc_add, job->c, job->u, sjsd_at(job, SJSD_LOG), job->columns, job->lanes);
    asc_duplicate(best, ASC_LOWEST, (uint32_t)job->lanes);
    ASC_THEN();
    asc_mul_scalar(job->c, job->c, -ASC_LOWEST, all); /* 0, or as good as -inf */
    ASC_THEN();
    asc_mul_scalar(job->c, job->c, -ASC_LOWEST, all);
    ASC_THEN();
    asc_add(job->c, job->c, job->v, all);
    ASC_THEN();
    ASC_DOWN(asc_max, best, job->c, job->columns, job->lanes);
    ASC_THEN();
}

/* ---- a mixture ---- */

/* FAR, NEAR, SHIFT and MIDDLE, from BEST, which is used up. A row is near where D is below
 * job->near: where L is below half of log(1 - beta). */
static inline __aicore__ void sjsd_set_middle(const sjsd_lines *job)
{
    const uint32_t n = (uint32_t)job->lanes;
    __ubuf__ float *d = sjsd_at(job, SJSD_BEST), *far = sjsd_at(job, SJSD_FAR);
    __ubuf__ float *near = sjsd_at(job, SJSD_NEAR), *shift = sjsd_at(job, SJSD_SHIFT);
    __ubuf__ float *middle = sjsd_at(job, SJSD_MIDDLE), *e = sjsd_at(job, SJSD_SUM);
    __ubuf__ float *weight = sjsd_at(job, SJSD_WEIGHT), *base = sjsd_at(job, SJSD_BASE);
    __ubuf__ float *scratch = sjsd_at(job, SJSD_TOP);
    asc_add(d, d, sjsd_at(job, SJSD_LOG), n);
    ASC_THEN();
    asc_min_scalar(d, d, JSD_FAR - 17.0f, n);
    ASC_THEN();
    asc_max_scalar(d, d, -JSD_FAR, n);
    ASC_THEN();
    asc_mul_scalar(near, d, -1.0f, n);
    asc_exp(e, d, n);
    ASC_THEN();
    asc_add_scalar(near, near, job->near, n);
    ASC_THEN();
    asc_max_scalar(near, near, 0.0f, n);
    ASC_THEN();
    asc_mul_scalar(near, near, -ASC_LOWEST, n);
    ASC_THEN();
    asc_mul_scalar(near, near, -ASC_LOWEST, n);
    ASC_THEN();
    asc_min_scalar(near, near, 1.0f, n);
    ASC_THEN();
    asc_mul_scalar(far, near, -job->beta, n);
    asc_mul_scalar(shift, near, job->log_rest, n);
    asc_mul_scalar(base, near, job->beta, n);
    ASC_THEN();
    asc_mul_scalar(near, near, job->odds, n);
    asc_add_scalar(far, far, job->beta, n);
    asc_add_scalar(base, base, job->rest, n);
    ASC_THEN();
    asc_add(weight, far, near, n);
    jsd_expm1(middle, d, e, scratch, n);
    asc_mul(middle, middle, far, n);
    asc_mul(d, e, near, n);
    ASC_THEN();
    asc_mul(e, e, weight, n);
    asc_add(middle, middle, d, n);
    ASC_THEN();
    asc_add(e, e, base, n);
    ASC_THEN();
    jsd_log1p(middle, e, scratch, n);
    ASC_THEN();
}

/* t = W - 1 and b = W, from exp(D) - 1 and exp(D). */
static inline __aicore__ void sjsd_mixture_argument(const sjsd_lines *job)
{
    const int64_t columns = job->columns, lanes = job->lanes;
    const uint32_t all = sjsd_all(job);
    if (job->writes) {
        ASC_BY_COLUMN(asc_mul, job->t, job->t, sjsd_at(job, SJSD_FAR), columns, lanes);
        ASC_BY_COLUMN(asc_mul, job->c, job->b, sjsd_at(job, SJSD_NEAR), columns, lanes);
        ASC_THEN();
        ASC_BY_COLUMN(asc_mul, job->b, job->b, sjsd_at(job, SJSD_WEIGHT), columns, lanes);
        asc_add(job->t, job->t, job->c, all);
        ASC_THEN();
        ASC_BY_COLUMN(asc_add, job->b, job->b, sjsd_at(job, SJSD_BASE), columns, lanes);
    } else {
        asc_mul_scalar(job->t, job->t, job->beta, all);
        asc_mul_scalar(job->b, job->b, job->beta, all);
        ASC_THEN();
        asc_add_scalar(job->b, job->b, job->rest, all);
    }
    ASC_THEN();
}

/* t = L, b = Q, and if the loss is wanted a = log(M/P), v = P. */
static inline __aicore__ void sjsd_mixture_terms(const sjsd_lines *job)
{
    const uint32_t all = sjsd_all(job);
    jsd_difference(job->a, job->b, job->u, job->v, JSD_FAR - 17.0f, all); /* odds are up to 2^24 */
    jsd_expm1(job->t, job->a, job->b, job->c, all);
    if (job->loss) {
        asc_div(job->a, job->t, job->b, all); /* exp(-D) - 1, negated */
        ASC_THEN();
        asc_mul_scalar(job->a, job->a, -job->rest, all);
    }
    sjsd_mixture_argument(job);
    jsd_log1p(job->t, job->b, job->c, all);
    ASC_THEN();
    if (job->loss) {
        jsd_teacher_quotient(job->b, job->u, job->v, JSD_FAR - 17.0f, job->beta, job->rest, all);
        asc_exp(job->v, job->v, all);
        ASC_THEN();
        jsd_log1p(job->a, job->b, job->c, all);
        ASC_THEN();
    }
    asc_exp(job->b, job->u, all);
    ASC_THEN();
}

/* LOSS = - beta sum P log(M/P) - (1 - beta) (sum Q L + SHIFT). */
static inline __aicore__ void sjsd_mixture_loss(const sjsd_lines *job)
{
    const uint32_t n = (uint32_t)job->lanes, all = sjsd_all(job);
    __ubuf__ float *loss = sjsd_at(job, SJSD_LOSS), *sum = sjsd_at(job, SJSD_SUM);
    asc_mul(job->a, job->a, job->v, all);
    asc_mul(job->c, job->t, job->b, all);
    ASC_THEN();
    asc_short_sum(loss, job->a, job->columns, job->lanes);
    asc_short_sum(sum, job->c, job->columns, job->lanes);
    if (job->writes)
        asc_add(sum, sum, sjsd_at(job, SJSD_SHIFT), n);
    asc_mul_scalar(loss, loss, -job->beta, n);
    ASC_THEN();
    asc_axpy(loss, sum, -job->rest, n);
    ASC_THEN();
}

/* ---- all kinds ---- */

/* c = factor b (slope - MIDDLE - the row's mean of that). slope is used up. The mean is taken off
 * twice: where nearly all slopes lie far from
 * MIDDLE, but next to each other, what is left of the first one's rounding would be
 * large beside them. */
static inline __aicore__ void sjsd_gradient(const sjsd_lines *job, __ubuf__ float *slope,
                                            float factor)
{
    const uint32_t all = sjsd_all(job);
    __ubuf__ float *mean = sjsd_at(job, SJSD_SUM);
    ASC_BY_COLUMN(asc_sub, slope, slope, sjsd_at(job, SJSD_MIDDLE), job->columns, job->lanes);
    ASC_THEN();
    for (int time = 0; time < 2; time++) {
        asc_mul(job->c, slope, job->b, all);
        ASC_THEN();
        asc_short_sum(mean, job->c, job->columns, job->lanes);
        ASC_BY_COLUMN(asc_sub, slope, slope, mean, job->columns, job->lanes);
        ASC_THEN();
    }
    asc_mul_scalar(job->b, job->b, factor, all);
    ASC_THEN();
    asc_mul(job->c, slope, job->b, all);
    ASC_THEN();
}

static inline __aicore__ void sjsd_mixture(const sjsd_lines *job)
{
    if (job->writes) {
        sjsd_best(job);
        sjsd_set_middle(job);
    }
    sjsd_mixture_terms(job);
    if (job->loss)
        sjsd_mixture_loss(job);
    if (job->writes)
        sjsd_gradient(job, job->t, -job->factor);
}

/* beta 1: slopes are u - v. */
static inline __aicore__ void sjsd_reverse(const sjsd_lines *job)
{
    const uint32_t n = (uint32_t)job->lanes;
    if (job->writes) {
        sjsd_best(job);
        asc_mul_scalar(sjsd_at(job, SJSD_TOP), sjsd_at(job, SJSD_LOG), -1.0f, n);
        ASC_THEN();
        divergence_of_logs(sjsd_at(job, SJSD_SUM), 0, sjsd_at(job, SJSD_TOP),
                           sjsd_at(job, SJSD_BEST), sjsd_at(job, SJSD_MIDDLE), 1.0f, 1, n);
        ASC_THEN();
    }
    divergence_of_logs(job->t, job->b, job->u, job->v, job->a, 1.0f, 1, sjsd_all(job));
    ASC_THEN();
    if (job->loss)
        asc_short_sum(sjsd_at(job, SJSD_LOSS), job->t, job->columns, job->lanes);
    if (job->writes)
        sjsd_gradient(job, job->a, job->factor);
}

/* beta 0: the gradient is the difference of both probabilities. */
static inline __aicore__ void sjsd_forward(const sjsd_lines *job)
{
    const uint32_t all = sjsd_all(job);
    if (job->writes) {
        asc_exp(job->c, job->u, all);
        asc_exp(job->b, job->v, all);
        ASC_THEN();
        asc_sub(job->c, job->c, job->b, all);
        ASC_THEN();
        asc_mul_scalar(job->c, job->c, job->factor, all);
    }
    if (job->loss) {
        divergence_of_logs(job->t, 0, job->v, job->u, job->a, 0.0f, 1, all);
        ASC_THEN();
        asc_short_sum(sjsd_at(job, SJSD_LOSS), job->t, job->columns, job->lanes);
    }
    ASC_THEN();
}

/* LOSS and c of a tile. */
static inline __aicore__ void sjsd_tile(const sjsd_lines *job, int labelled)
{
    sjsd_logarithms(job);
    if (job->kind == SOFTMAX_JSD_MIXTURE)
        sjsd_mixture(job);
    else if (job->kind == SOFTMAX_JSD_REVERSE)
        sjsd_reverse(job);
    else
        sjsd_forward(job);
    if (!labelled)
        return;
    if (job->loss)
        terms_keep(sjsd_at(job, SJSD_LOSS), job->mask, (uint32_t)job->lanes);
    for (int64_t c = 0; job->writes && c < job->columns; c++)
        terms_keep(job->c + c * job->lanes, job->mask, (uint32_t)job->lanes);
    ASC_THEN();
}

#define ASC_TEMPLATE "losses/softmax_jsd_short.asc.h"
#include "shared/asc_each_type.h"
