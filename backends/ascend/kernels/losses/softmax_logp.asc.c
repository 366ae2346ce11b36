/* softmax_logp.asc.c - log-probabilities and entropies of rows of logits, and their gradients.
 *
 * Rows go through a ring of pieces (asc_ring.h), each block having a run of consecutive rows: once
 * for the sums; for a gradient twice, or once with lse as it was saved where other classes are
 * elsewhere. The logits of the target and of other named classes come by themselves with a row's
 * first piece. */
#include "softmax_logp.h"

/* X = the first lane of each block of picks, of 16 elements if `halves` were widened. */
static inline __aicore__ void logp_take_picks(const logp_job *job, __ubuf__ float *picks,
                                              int halves)
{
    __ubuf__ float *x = logp_at(job, LOGP_X), *pairs = logp_at(job, LOGP_D);
    asc_datablock_reduce_sum(halves ? pairs : x, picks, (uint32_t)(8 * LOGP_NAMES << halves));
    ASC_THEN();
    if (halves) {
        asc_pair_reduce_sum(x, pairs, (uint32_t)(2 * LOGP_NAMES));
        ASC_THEN();
    }
}

/* x after softcap, in e, and its slope in t if that is asked for. */
static inline __aicore__ __ubuf__ float *logp_capped(const logp_job *job, __ubuf__ float *x,
                                                     int slope, uint32_t n)
{
    if (job->softcap == 0.0f)
        return x;
    ce_cap(job->e, job->t, job->s, x, job->softcap, slope, n);
    return job->e;
}

/* X of the named classes after softcap, with its slope. */
static inline __aicore__ void logp_cap_picks(const logp_job *job)
{
    __ubuf__ float *x = logp_at(job, LOGP_X);
    if (job->softcap > 0.0f)
        ce_cap(x, logp_at(job, LOGP_SLOPE), logp_at(job, LOGP_D), x, job->softcap, 1, LOGP_NAMES);
}

/* The k-th of the names that are looked at. */
static inline __aicore__ int64_t logp_name(const logp_job *job, int64_t target, int64_t k)
{
    return job->begin + k < job->nids ? job->ids[job->begin + k] : target;
}

/* The first names, or those behind the ones that are looked at; 0: there are none. */
static inline __aicore__ int logp_first_names(logp_job *job)
{
    job->begin = 0;
    job->count = asc_min_of(LOGP_NAMES, job->nids + 1);
    return 1;
}

static inline __aicore__ int logp_next_names(logp_job *job)
{
    job->begin += job->count;
    job->count = asc_min_of(LOGP_NAMES, job->nids + 1 - job->begin);
    return job->count > 0;
}

/* 1 if they do not come with a row's first piece. */
static inline __aicore__ int logp_has_many(const logp_job *job)
{
    return job->nids + 1 > LOGP_NAMES;
}

/* to = the log-probabilities of the named classes, and AT their blocks; 0 of those elsewhere. */
static inline __aicore__ void logp_named(const logp_job *job, int64_t target, __ubuf__ float *to)
{
    const uint32_t n = LOGP_NAMES;
    __ubuf__ float *x = logp_at(job, LOGP_X), *d = logp_at(job, LOGP_D);
    if (job->slice) {
        asc_mul_scalar(d, x, job->scale, n);
        ASC_THEN();
    } else {
        ASC_WITH_BLOCK(asc_sub, d, x, logp_at(job, LOGP_TOP), 1, n, 0);
        ASC_THEN();
        asc_mul_scalar(d, d, job->scale, n);
        ASC_THEN();
        ASC_WITH_BLOCK(asc_sub, d, d, logp_at(job, LOGP_LOG), 1, n, 0);
        ASC_THEN();
    }
    for (int64_t k = 0; k < job->count; k++)
        if (logp_place(job, logp_name(job, target, k)) < 0)
            ce_set_lane_to(d, k, 0.0f);
    ASC_THEN();
    asc_mul_scalar(to, d, 1.0f, n);
    asc_spread(logp_at(job, LOGP_AT), d, LOGP_NAMES);
    ASC_THEN();
}

/* The results of a row that are one number; blocks. */
static inline __aicore__ void logp_results(const logp_job *job, int64_t i)
{
    __ubuf__ float *log = logp_at(job, LOGP_LOG), *a = logp_at(job, LOGP_A);
    __ubuf__ float *b = logp_at(job, LOGP_B), *sum = logp_at(job, LOGP_SUM);
    asc_mul_scalar(a, logp_at(job, LOGP_TOP), job->scale, 8);
    asc_add(b, log, logp_at(job, LOGP_GAP), 8);
    ASC_THEN();
    asc_add(a, a, log, 8);
    logp_put(job, LOGP_ROWS_ENTROPY, i, b);
    logp_put(job, LOGP_ROWS_LSE, i, a);
    if (job->whole) {
        asc_spread_sum(a, logp_at(job, LOGP_VALUE), logp_at(job, LOGP_WHOLE), 1);
        asc_mul_scalar(a, a, 1.0f / (float)job->columns, 8);
        ASC_THEN();
        logp_put(job, LOGP_ROWS_MEAN, i, a);
    }
    if (!job->squares)
        return;
    asc_spread_sum(a, logp_at(job, LOGP_VALUE), logp_at(job, LOGP_SQUARES), 1);
    asc_add(sum, sum, a, 8); /* it has one less than the counted ones */
    ASC_THEN();
    logp_log1p(a, sum, b);
    asc_mul_scalar(b, log, 2.0f, 8);
    ASC_THEN();
    asc_sub(a, a, b, 8);
    ASC_THEN();
    logp_put(job, LOGP_ROWS_SQUARES, i, a);
}

/* ---- the gradient ---- */

/* What a row gives: upstream gradients of the target, of the entropy, of all log-probabilities. */
typedef struct logp_upstream {
    float target, entropy, all, by; /* by: what all is multiplied by */
} logp_upstream;

/* OTHERS, TOTAL, TOP and GAP of a row of which other classes are elsewhere. */
static inline __aicore__ void logp_take_lse(const logp_job *job, float lse, float entropy)
{
    const float top = lse / job->scale, off = top * job->scale - lse;
    __ubuf__ float *total = logp_at(job, LOGP_TOTAL);
    asc_duplicate(logp_at(job, LOGP_TOP), top, 8);
    asc_duplicate(total, -off, 8);
    asc_duplicate(logp_at(job, LOGP_GAP), off + entropy, 8);
    ASC_THEN();
    asc_exp(total, total, 8);
    ASC_THEN();
    asc_add_scalar(logp_at(job, LOGP_OTHERS), total, -1.0f, 8);
    ASC_THEN();
}

/* A and B: the gradient is exp(d) (A + B d), of classes that are not named. */
static inline __aicore__ void logp_factors(const logp_job *job, const logp_upstream *u)
{
    __ubuf__ float *a = logp_at(job, LOGP_A), *b = logp_at(job, LOGP_B);
    __ubuf__ float *total = logp_at(job, LOGP_TOTAL);
    asc_duplicate(a, -u->all * u->by, 8);
    asc_duplicate(b, -u->entropy * u->by, 8);
    ASC_THEN();
    if (u->entropy != 0.0f) {
        asc_mul(logp_at(job, LOGP_SUM), b, logp_at(job, LOGP_GAP), 8);
        ASC_THEN();
        asc_add(a, a, logp_at(job, LOGP_SUM), 8);
        ASC_THEN();
    }
    asc_div(a, a, total, 8);
    asc_div(b, b, total, 8);
    ASC_THEN();
}

/* OWN and OF_OTHERS: upstream gradients of the named classes, and of all others. */
static inline __aicore__ void logp_share(const logp_job *job, int64_t target,
                                         __gm__ float *dselected, float dlogp)
{
    for (int64_t k = 0; k < job->count; k++) {
        const int64_t name = logp_name(job, target, k);
        float own = name == target ? dlogp : 0.0f, others = name == target ? 0.0f : dlogp;
        for (int64_t j = 0; j < job->nids; j++) {
            own += job->ids[j] == name ? dselected[j] : 0.0f;
            others += job->ids[j] == name ? 0.0f : dselected[j];
        }
        ce_set_lane_to(logp_at(job, LOGP_OWN), k, own);
        ce_set_lane_to(logp_at(job, LOGP_OF_OTHERS), k, others);
    }
    ASC_THEN();
}

/* AT: the gradients at the named classes, from 1 - p and the upstream gradients of the others. */
static inline __aicore__ void logp_at_names(const logp_job *job, const logp_upstream *u)
{
    const uint32_t n = LOGP_NAMES;
    __ubuf__ float *d = logp_at(job, LOGP_D), *e = logp_at(job, LOGP_P), *q = logp_at(job, LOGP_Q);
    __ubuf__ float *one = logp_at(job, LOGP_U), *own = logp_at(job, LOGP_OWN);
    __ubuf__ float *of_others = logp_at(job, LOGP_OF_OTHERS);
    ASC_WITH_BLOCK(asc_sub, d, logp_at(job, LOGP_X), logp_at(job, LOGP_TOP), 1, n, 0);
    ASC_THEN();
    logp_distance(job, d, n);
    asc_exp(e, d, n);
    ASC_THEN();
    logp_is_one(one, e, n);
    ASC_WITH_BLOCK(asc_div, e, e, logp_at(job, LOGP_TOTAL), 1, n, 0); /* p */
    asc_mul_scalar(q, one, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(q, q, 1.0f, n);
    asc_sub(one, one, e, n); /* 1 - p, less 1 where p is not the largest's */
    ASC_THEN();
    asc_add(one, one, q, n);
    ASC_THEN();
    asc_mul(one, one, q, n); /* 1 - p but for the largest, whose is OTHERS / TOTAL */
    ASC_THEN();
    asc_mul_scalar(q, q, -1.0f, n);
    ASC_THEN();
    asc_add_scalar(q, q, 1.0f, n);
    ASC_THEN();
    ASC_WITH_BLOCK(asc_mul, q, q, logp_at(job, LOGP_OTHERS), 1, n, 0);
    ASC_THEN();
    ASC_WITH_BLOCK(asc_div, q, q, logp_at(job, LOGP_TOTAL), 1, n, 0);
    ASC_THEN();
    asc_add(q, q, one, n);
    ASC_THEN();
    asc_mul(own, own, q, n);
    asc_mul(of_others, of_others, e, n);
    ASC_THEN();
    asc_sub(own, own, of_others, n);
    ASC_THEN();
    if (u->entropy != 0.0f) {
        ASC_WITH_BLOCK(asc_add, d, d, logp_at(job, LOGP_GAP), 1, n, 0);
        ASC_THEN();
        asc_mul(d, d, e, n);
        ASC_THEN();
        asc_mul_scalar(d, d, -u->entropy, n);
        ASC_THEN();
        asc_add(own, own, d, n);
        ASC_THEN();
    }
    asc_mul_scalar(own, own, u->by, n);
    ASC_THEN();
    if (job->softcap > 0.0f) {
        asc_mul(own, own, logp_at(job, LOGP_SLOPE), n);
        ASC_THEN();
    }
    asc_spread(logp_at(job, LOGP_AT), own, LOGP_NAMES);
    ASC_THEN();
}

/* dx of a piece of x after softcap, whose slope is in job->t; dx may be x. */
static inline __aicore__ void logp_gradient(const logp_job *job, __ubuf__ float *dx,
                                            __ubuf__ float *x, int has_entropy, uint32_t n)
{
    __ubuf__ float *d = job->e, *e = job->s;
    ASC_WITH_BLOCK(asc_sub, d, x, logp_at(job, LOGP_TOP), 1, n, 0);
    ASC_THEN();
    logp_distance(job, d, n);
    asc_exp(e, d, n);
    ASC_THEN();
    if (has_entropy) {
        ASC_WITH_BLOCK(asc_mul, d, d, logp_at(job, LOGP_B), 1, n, 0);
        ASC_THEN();
        ASC_WITH_BLOCK(asc_add, d, d, logp_at(job, LOGP_A), 1, n, 0);
        ASC_THEN();
        asc_mul(dx, d, e, n);
    } else {
        ASC_WITH_BLOCK(asc_mul, dx, e, logp_at(job, LOGP_A), 1, n, 0);
    }
    ASC_THEN();
    if (job->softcap > 0.0f) {
        asc_mul(dx, dx, job->t, n);
        ASC_THEN();
    }
}

/* The named classes of a piece that begins at column `begin`. */
static inline __aicore__ void logp_set_names(const logp_job *job, __ubuf__ float *dx,
                                             int64_t target, int64_t begin, uint32_t n)
{
    for (int64_t k = 0; k < job->count; k++) {
        const int64_t at = logp_place(job, logp_name(job, target, k)) - begin;
        if (at < 0 || at >= n)
            continue;
        ce_set_lane(dx, at, logp_at(job, LOGP_AT) + k * 8);
        ASC_THEN();
    }
}

static inline __aicore__ logp_upstream logp_upstream_of(const logp_job *job, float dlogp,
                                                        float dentropy, __gm__ float *dselected,
                                                        float grad_scale)
{
    logp_upstream u;
    u.target = u.all = dlogp;
    u.entropy = dentropy;
    u.by = grad_scale * job->scale;
    for (int64_t k = 0; k < job->nids; k++)
        u.all += dselected[k];
    return u;
}

/* Results of some rows to memory, if they are asked for. */
static inline __aicore__ void logp_leave(const logp_job *job, int lanes, __gm__ float *to,
                                         int64_t row, int64_t rows)
{
    if (to)
        asc_copy_ub2gm_align(to + row, logp_at(job, lanes), (uint32_t)(rows * 4));
}

#define ASC_TEMPLATE "losses/softmax_logp.asc.h"
#include "shared/asc_each_type.h"
