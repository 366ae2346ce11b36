/* fused_ce_tvd.h - what of fused_ce_tvd is of no type; see fused_ce_tvd.asc.c. f32. */
#ifndef FUSED_CE_TVD_H
#define FUSED_CE_TVD_H

#include "cross_entropy_gradient.h"
#include "fused_ce_tvd.args.h"
#include "mixture.h"
#include "softmax_logp.h"

/* Numbers of a row, 64 lanes each. Lane by lane: TVD, the sum of |p - q|, negative, and SIGMA;
 * ABOVE and OVER, see fused_ce_tvd_plain.h, and TOP_POWER, the largest powers of both rows.
 * Blocks: HIT, the student's logit of the target, and that of the next row; APART, by how much the
 * logarithm of the student's sum is larger than the teacher's; LSE, as it was saved; P of the
 * target, Q = 1 - P; AT, eight of them, eight elements around the target; FACTOR. CETVD_ROWS...: a
 * lane a row. */
enum {
    CETVD_TVD,
    CETVD_SIGMA,
    CETVD_VALUE,
    CETVD_PICK,
    CETVD_NEXT_HIT,
    CETVD_HIT,
    CETVD_APART,
    CETVD_LSE,
    CETVD_P,
    CETVD_Q,
    CETVD_AT,
    CETVD_A,
    CETVD_B,
    CETVD_ROWS_CE,
    CETVD_ROWS_TVD,
    CETVD_ROWS_STUDENT,
    CETVD_ROWS_TEACHER,
    CETVD_ROWS_SIGMA,
    CETVD_FACTOR,
    CETVD_ABOVE,
    CETVD_OVER,
    CETVD_TOP_POWER,                   /* a row each */
    CETVD_TOTAL = CETVD_TOP_POWER + 2, /* likewise */
    CETVD_GROUP = CETVD_TOTAL + 2,     /* the sums of groups, likewise */
    CETVD_NUMBERS = CETVD_GROUP + 2
};

/* One of the two rows: its powers are exp(x - origin), `total` their sum; those of
 * the next row have another origin. Pieces from `from` to
 * before `to` are looked at once more, by softmax_logp.h; rest: the sum of the others' powers. */
typedef struct cetvd_row_sums {
    logp_job sums;
    __ubuf__ float *x, *groups;
    float origin, total, rest, next_origin;
    int64_t from, to;
    int new_origin;
} cetvd_row_sums;

typedef struct cetvd_job {
    cetvd_row_sums of[2]; /* the student's, the teacher's */
    int high, next_high;  /* logits are far from 0; of the next row */
    int64_t ignore_index;
    __ubuf__ float *x, *z, *d, *e, *t, *lanes;
} cetvd_job;

static inline __aicore__ __ubuf__ float *cetvd_at(const cetvd_job *job, int lanes)
{
    return job->lanes + lanes * ASC_LANES;
}

/* Differences become -1, 0 or 1: see tvd.asc.c. A NaN stays one. */
static inline __aicore__ void cetvd_sign(__ubuf__ float *d, uint32_t n)
{
    const float steep = 1.2676506e30f; /* 2^100 */
    asc_mul_scalar(d, d, steep, n);
    ASC_THEN();
    asc_mul_scalar(d, d, steep, n);
    ASC_THEN();
    asc_max_scalar(d, d, -1.0f, n);
    ASC_THEN();
    asc_min_scalar(d, d, 1.0f, n);
    ASC_THEN();
}

/* ---- forward ---- */

/* From TOP and LOG of both rows: APART, NaN where one of them has no logarithm; TVD and SIGMA are
 * 0. */
static inline __aicore__ void cetvd_begin(const cetvd_job *job)
{
    __ubuf__ float *apart = cetvd_at(job, CETVD_APART), *a = cetvd_at(job, CETVD_A);
    asc_sub(apart, logp_at(&job->of[0].sums, LOGP_LOG), logp_at(&job->of[1].sums, LOGP_LOG), 8);
    asc_duplicate(cetvd_at(job, CETVD_TVD), 0.0f, ASC_LANES);
    asc_duplicate(cetvd_at(job, CETVD_SIGMA), 0.0f, ASC_LANES);
    ASC_THEN();
    asc_sub(a, apart, apart, 8);
    ASC_THEN();
    asc_add(apart, apart, a, 8);
    ASC_THEN();
}

/* TVD and SIGMA of a piece of logits x and z. |p - q| is the larger of the two times 1 - exp(-|d|),
 * d the difference of their logarithms, which is that of the logits first. */
static inline __aicore__ void cetvd_add(const cetvd_job *job, __ubuf__ float *x, __ubuf__ float *z,
                                        uint32_t n)
{
    const float lowest = -200.0f; /* stands for all below it, -inf too */
    const logp_job *student = &job->of[0].sums, *teacher = &job->of[1].sums;
    __ubuf__ float *d = job->d, *e = job->e;
    ASC_WITH_BLOCK(asc_sub, x, x, logp_at(student, LOGP_TOP), 1, n, 0);
    ASC_WITH_BLOCK(asc_sub, z, z, logp_at(teacher, LOGP_TOP), 1, n, 0);
    ASC_THEN();
    asc_max_scalar(x, x, lowest, n);
    asc_max_scalar(z, z, lowest, n);
    ASC_THEN();
    asc_sub(d, x, z, n);
    ASC_THEN();
    ASC_WITH_BLOCK(asc_sub, x, x, logp_at(student, LOGP_LOG), 1, n, 0);
    ASC_WITH_BLOCK(asc_sub, z, z, logp_at(teacher, LOGP_LOG), 1, n, 0);
    ASC_WITH_BLOCK(asc_sub, d, d, cetvd_at(job, CETVD_APART), 1, n, 0);
    ASC_THEN();
    asc_exp(x, x, n);
    asc_exp(z, z, n);
    asc_abs(e, d, n);
    ASC_THEN();
    cetvd_sign(d, n);
    asc_mul(d, d, x, n);
    asc_max(z, x, z, n);
    asc_mul_scalar(e, e, -1.0f, n);
    ASC_THEN();
    ASC_FOLD(asc_add, cetvd_at(job, CETVD_SIGMA), d, 1, n, 0);
    asc_max_scalar(e, e, -JSD_FAR, n);
    ASC_THEN();
    asc_exp(job->t, e, n);
    ASC_THEN();
    jsd_expm1(d, e, job->t, x, n);
    asc_mul(d, d, z, n);
    ASC_THEN();
    ASC_FOLD(asc_add, cetvd_at(job, CETVD_TVD), d, 1, n, 0);
    ASC_THEN();
}

/* A result of row i of the batch: a block. */
static inline __aicore__ void cetvd_put(const cetvd_job *job, int rows, int64_t i,
                                        __ubuf__ float *block)
{
    ce_set_lane(cetvd_at(job, rows), i, block);
}

/* P and Q: the distance and sigma, of TVD and SIGMA. */
static inline __aicore__ void cetvd_end(const cetvd_job *job)
{
    __ubuf__ float *value = cetvd_at(job, CETVD_VALUE), *tvd = cetvd_at(job, CETVD_P);
    asc_spread_sum(tvd, value, cetvd_at(job, CETVD_TVD), 1);
    asc_spread_sum(cetvd_at(job, CETVD_Q), value, cetvd_at(job, CETVD_SIGMA), 1);
    asc_mul_scalar(tvd, tvd, -0.5f, 8);
    ASC_THEN();
}

/* All results of row i of the batch, those of P and Q among them. */
static inline __aicore__ void cetvd_results(const cetvd_job *job, int64_t i)
{
    const logp_job *student = &job->of[0].sums, *teacher = &job->of[1].sums;
    __ubuf__ float *hit = cetvd_at(job, CETVD_HIT);
    __ubuf__ float *a = cetvd_at(job, CETVD_A), *b = cetvd_at(job, CETVD_B);
    asc_sub(hit, hit, logp_at(student, LOGP_TOP), 8);
    asc_add(a, logp_at(student, LOGP_TOP), logp_at(student, LOGP_LOG), 8);
    asc_add(b, logp_at(teacher, LOGP_TOP), logp_at(teacher, LOGP_LOG), 8);
    ASC_THEN();
    asc_sub(hit, logp_at(student, LOGP_LOG), hit, 8);
    ASC_THEN();
    cetvd_put(job, CETVD_ROWS_CE, i, hit);
    cetvd_put(job, CETVD_ROWS_TVD, i, cetvd_at(job, CETVD_P));
    cetvd_put(job, CETVD_ROWS_STUDENT, i, a);
    cetvd_put(job, CETVD_ROWS_TEACHER, i, b);
    cetvd_put(job, CETVD_ROWS_SIGMA, i, cetvd_at(job, CETVD_Q));
    ASC_THEN();
}

/* Those of a row that is ignored. */
static inline __aicore__ void cetvd_ignore(const cetvd_job *job, int64_t i)
{
    for (int rows = CETVD_ROWS_CE; rows <= CETVD_ROWS_SIGMA; rows++)
        ce_set_lane_to(cetvd_at(job, rows), i, 0.0f);
    ASC_THEN();
}

/* Results of some rows to memory, if they are asked for. */
static inline __aicore__ void cetvd_leave(const cetvd_job *job, int lanes, __gm__ float *to,
                                          int64_t row, int64_t rows)
{
    if (to)
        asc_copy_ub2gm_align(to + row, cetvd_at(job, lanes), (uint32_t)(rows * 4));
}

/* ---- backward ---- */

/* What a row gives: upstream gradients, that of the distance halved. */
typedef struct cetvd_row {
    int64_t target;
    float lse, apart, sigma, ce, half;
    int has_tvd;
} cetvd_row;

static inline __aicore__ cetvd_row cetvd_row_of(int64_t target, float student_lse,
                                                float teacher_lse, float sigma, float ce, float tvd,
                                                int has_tvd)
{
    cetvd_row row = {0};
    row.target = target;
    row.lse = student_lse;
    row.apart = student_lse - teacher_lse;
    row.apart += row.apart - row.apart; /* NaN for inf */
    row.sigma = sigma;
    row.ce = ce;
    row.half = 0.5f * tvd;
    row.has_tvd = has_tvd;
    return row;
}

/* P and Q of the target, from HIT. */
static inline __aicore__ void cetvd_shares(const cetvd_job *job, const cetvd_row *row)
{
    asc_duplicate(cetvd_at(job, CETVD_LSE), row->lse, 8);
    ASC_THEN();
    ce_expm1(cetvd_at(job, CETVD_P), cetvd_at(job, CETVD_Q), cetvd_at(job, CETVD_A),
             cetvd_at(job, CETVD_B), cetvd_at(job, CETVD_HIT), cetvd_at(job, CETVD_LSE), 8);
}

/* x = what p is multiplied by in the distance's gradient, of logits x and z: half of its upstream
 * gradient times the sign. z is used up. */
static inline __aicore__ void cetvd_slopes(const cetvd_job *job, const cetvd_row *row, uint32_t n)
{
    __ubuf__ float *x = job->x, *z = job->z;
    asc_max_scalar(x, x, -1e30f, n); /* two of -inf are no distance apart */
    asc_max_scalar(z, z, -1e30f, n);
    ASC_THEN();
    asc_sub(x, x, z, n);
    ASC_THEN();
    asc_add_scalar(x, x, -row->apart, n);
    ASC_THEN();
    cetvd_sign(x, n);
    asc_mul_scalar(x, x, row->half, n);
    ASC_THEN();
}

/* AT + 8 (y % 8): the gradient at the target, element y of the piece, whose slope is in x:
 * (slope - half sigma) P - ce Q. Returns it. */
static inline __aicore__ __ubuf__ float *cetvd_at_target(const cetvd_job *job, const cetvd_row *row,
                                                         int64_t y)
{
    __ubuf__ float *all = cetvd_at(job, CETVD_AT), *at = all + y % 8 * 8;
    __ubuf__ float *a = cetvd_at(job, CETVD_A);
    if (row->has_tvd)
        asc_spread(all, job->x + y / 8 * 8, 8);
    else
        asc_duplicate(all, 0.0f, ASC_LANES);
    asc_mul_scalar(a, cetvd_at(job, CETVD_Q), row->ce, 8);
    ASC_THEN();
    asc_add_scalar(at, at, row->has_tvd ? -row->half * row->sigma : 0.0f, 8);
    ASC_THEN();
    asc_mul(at, at, cetvd_at(job, CETVD_P), 8);
    ASC_THEN();
    asc_sub(at, at, a, 8);
    ASC_THEN();
    return at;
}

/* x = the gradient of a piece of logits x and z; the target is its element y, if that is one. */
static inline __aicore__ void cetvd_gradient(const cetvd_job *job, const cetvd_row *row, int64_t y,
                                             uint32_t n)
{
    __ubuf__ float *x = job->x, *e = job->e, *at = 0;
    const int has_target = y >= 0 && y < n;
    asc_add_scalar(e, x, -row->lse, n);
    ASC_THEN();
    asc_exp(e, e, n);
    if (row->has_tvd)
        cetvd_slopes(job, row, n);
    if (has_target)
        at = cetvd_at_target(job, row, y);
    ASC_THEN();
    if (row->has_tvd) {
        asc_add_scalar(x, x, row->ce - row->half * row->sigma, n);
        ASC_THEN();
        asc_mul(x, x, e, n);
    } else {
        asc_mul_scalar(x, e, row->ce, n);
    }
    ASC_THEN();
    if (has_target) {
        ce_set_lane(x, y, at);
        ASC_THEN();
    }
}

#endif
