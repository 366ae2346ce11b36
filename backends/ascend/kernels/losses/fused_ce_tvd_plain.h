/* fused_ce_tvd_plain.h - the forward of fused_ce_tvd with as few instructions as its formulas need,
 * which is right for most rows, and tells for which it is not. f32.
 *
 * The powers are exp(x - origin); the origin is 0, or the row's first logit where that is far from
 * 0: no maximum is looked for. With S the sum of a row's powers,
 *
 *   p - q = (exp(x) - factor exp(z)) / S_student      factor = S_student / S_teacher
 *   tvd   = sum of p - q where it is positive         sigma = 2 (sum of p there) - 1
 *
 * What this costs in digits, and who does it instead:
 *   a sum that is out of range       softmax_logp.h, by the largest logit, then as above
 *   a class of most of the row       its logarithm needs 1 - p: softmax_logp.h goes through the
 *                                    group of pieces where the class is, once more
 *   a distance below CETVD_NEAR      the differences are those of logarithms: fused_ce_tvd.h
 *   logits beyond CETVD_HIGH         of 16 bits they are of so few values that p = q, whose sign is
 *                                    0, is no rare thing: both of these */
#ifndef FUSED_CE_TVD_PLAIN_H
#define FUSED_CE_TVD_PLAIN_H

#include "fused_ce_tvd.h"

#define CETVD_NEAR 0.125f
#define CETVD_SURE 0.75f           /* a group with more of the sum may have such a class */
#define CETVD_FAR 32.0f            /* of a first logit */
#define CETVD_HIGH 128.0f          /* likewise */
#define CETVD_LEAST 9.0949470e-13f /* 2^-40, of a sum */
#define CETVD_MOST 1.1529215e18f   /* 2^60 */
#define CETVD_SMALL 9.3132257e-10f /* 2^-30 */
#define CETVD_LARGE 1.0737418e9f   /* 2^30 */

/* The group of piece p. */
static inline __aicore__ int64_t cetvd_group(int64_t p, int64_t pieces)
{
    return pieces <= CETVD_GROUPS ? p : p * CETVD_GROUPS / pieces;
}

/* The numbers of row i, a lane each or 64 of them. */
static inline __aicore__ __ubuf__ float *cetvd_of(const cetvd_job *job, int lanes, int i)
{
    return cetvd_at(job, lanes + i);
}

/* Of the next row, from its first logits. V waits for S. */
static inline __aicore__ void cetvd_origins(cetvd_job *job, __ubuf__ float *x, __ubuf__ float *z)
{
    ASC_FENCE(PIPE_V, PIPE_S);
    job->next_high = 0;
    for (int i = 0; i < 2; i++) {
        const float first = i ? *z : *x;
        job->next_high |= first > CETVD_HIGH || first < -CETVD_HIGH;
        const int far = (first > CETVD_FAR || first < -CETVD_FAR) && first - first == 0.0f;
        job->of[i].next_origin = far ? first : 0.0f;
    }
    ASC_FENCE(PIPE_S, PIPE_V);
}

/* job->x and job->z = the powers of a piece of both rows, which may lie there. */
static inline __aicore__ void cetvd_powers(const cetvd_job *job, __ubuf__ float *x,
                                           __ubuf__ float *z, float of_x, float of_z, uint32_t n)
{
    if (of_x != 0.0f)
        asc_add_scalar(job->x, x, -of_x, n);
    if (of_z != 0.0f)
        asc_add_scalar(job->z, z, -of_z, n);
    if (of_x != 0.0f || of_z != 0.0f)
        ASC_THEN();
    asc_exp(job->x, of_x != 0.0f ? job->x : x, n);
    asc_exp(job->z, of_z != 0.0f ? job->z : z, n);
}

static inline __aicore__ void cetvd_begin_sums(const cetvd_job *job)
{
    for (int i = 0; i < 2; i++) {
        asc_duplicate(job->of[i].groups, 0.0f, CETVD_GROUPS * ASC_LANES);
        asc_duplicate(cetvd_of(job, CETVD_TOP_POWER, i), 0.0f, ASC_LANES);
        asc_duplicate(cetvd_of(job, CETVD_TOTAL, i), 0.0f, ASC_LANES);
    }
    ASC_THEN();
}

/* Adds the powers of piece p. A row of one piece has a group of one: its largest power tells. */
static inline __aicore__ void cetvd_add_powers(const cetvd_job *job, int64_t p, int64_t pieces,
                                               uint32_t n)
{
    const int64_t at = cetvd_group(p, pieces) * ASC_LANES;
    ASC_FOLD(asc_add, job->of[0].groups + at, job->x, 1, n, 0);
    ASC_FOLD(asc_add, job->of[1].groups + at, job->z, 1, n, 0);
    if (pieces == 1) {
        ASC_FOLD(asc_max, cetvd_of(job, CETVD_TOP_POWER, 0), job->x, 1, n, 0);
        ASC_FOLD(asc_max, cetvd_of(job, CETVD_TOP_POWER, 1), job->z, 1, n, 0);
    }
    ASC_THEN();
}

/* Which pieces of a row are looked at once more, from its total and the largest part of it. */
static inline __aicore__ void cetvd_choose(const cetvd_job *job, cetvd_row_sums *row, int i,
                                           int64_t pieces, float most)
{
    __ubuf__ float *group = cetvd_of(job, CETVD_GROUP, i);
    const int64_t groups = asc_min_of(pieces, CETVD_GROUPS);
    int64_t largest = 0;
    row->rest = 0.0f;
    row->from = row->to = 0;
    row->new_origin = job->high || !(row->total > CETVD_LEAST && row->total < CETVD_MOST);
    if (row->new_origin) {
        row->to = pieces;
    } else if (most > CETVD_SURE * row->total) {
        for (int64_t g = 1; g < groups; g++)
            largest = group[g] > group[largest] ? g : largest;
        for (int64_t g = 0; g < groups; g++)
            row->rest += g == largest ? 0.0f : group[g];
        while (cetvd_group(row->from, pieces) < largest)
            row->from++;
        for (row->to = row->from; row->to < pieces && cetvd_group(row->to, pieces) == largest;)
            row->to++;
    }
}

/* Totals of both rows, and what is looked at once more. The next row is the one at hand from here
 * on. V waits for S. */
static inline __aicore__ void cetvd_end_sums(cetvd_job *job, int64_t pieces)
{
    for (int i = 0; i < 2; i++) {
        ASC_FOLD(asc_add, cetvd_of(job, CETVD_TOTAL, i), job->of[i].groups, 1,
                 CETVD_GROUPS * ASC_LANES, 0);
        asc_repeat_reduce_sum(cetvd_of(job, CETVD_GROUP, i), job->of[i].groups,
                              CETVD_GROUPS * ASC_LANES);
    }
    asc_copy((__ubuf__ uint32_t *)cetvd_at(job, CETVD_HIT),
             (__ubuf__ uint32_t *)cetvd_at(job, CETVD_NEXT_HIT), 8);
    ASC_THEN();
    for (int i = 0; i < 2; i++) {
        asc_repeat_reduce_sum(cetvd_at(job, CETVD_A) + i, cetvd_of(job, CETVD_TOTAL, i), ASC_LANES);
        if (pieces == 1)
            asc_repeat_reduce_max_only_value(cetvd_at(job, CETVD_B) + i,
                                             cetvd_of(job, CETVD_TOP_POWER, i), ASC_LANES);
        else
            asc_repeat_reduce_max_only_value(cetvd_at(job, CETVD_B) + i,
                                             cetvd_of(job, CETVD_GROUP, i), CETVD_GROUPS);
    }
    ASC_FENCE(PIPE_V, PIPE_S);
    job->high = job->next_high;
    for (int i = 0; i < 2; i++) {
        job->of[i].origin = job->of[i].next_origin;
        job->of[i].total = cetvd_at(job, CETVD_A)[i];
        cetvd_choose(job, &job->of[i], i, pieces, cetvd_at(job, CETVD_B)[i]);
    }
    ASC_FENCE(PIPE_S, PIPE_V);
}

/* TOP, a whole number above the origin, and LOG, between them the logarithm of the sum. */
static inline __aicore__ void cetvd_plain_top(const cetvd_job *job, const cetvd_row_sums *row)
{
    __ubuf__ float *top = logp_at(&row->sums, LOGP_TOP), *log = logp_at(&row->sums, LOGP_LOG);
    __ubuf__ float *a = cetvd_at(job, CETVD_A);
    asc_duplicate(a, row->total, 8);
    ASC_THEN();
    asc_log(log, a, 8);
    ASC_THEN();
    asc_float2float_rn(log, log, 8);
    ASC_THEN();
    asc_add_scalar(top, log, row->origin, 8);
    ASC_THEN();
    asc_add_scalar(log, top, -row->origin, 8);
    ASC_THEN();
    asc_mul_scalar(log, log, -1.0f, 8);
    ASC_THEN();
    asc_exp(log, log, 8);
    ASC_THEN();
    asc_mul(log, log, a, 8);
    ASC_THEN();
    asc_log(log, log, 8);
    ASC_THEN();
}

/* The same where softmax_logp.h has looked at some pieces; a new origin is the largest logit. */
static inline __aicore__ void cetvd_sure_top(const cetvd_job *job, cetvd_row_sums *row)
{
    __ubuf__ float *a = cetvd_at(job, CETVD_A), *others = logp_at(&row->sums, LOGP_OTHERS);
    __ubuf__ float *top = logp_at(&row->sums, LOGP_TOP);
    logp_join(&row->sums);
    if (row->rest > 0.0f) {
        asc_mul_scalar(a, top, -1.0f, 8);
        ASC_THEN();
        asc_add_scalar(a, a, row->origin, 8);
        ASC_THEN();
        asc_exp(a, a, 8);
        ASC_THEN();
        asc_mul_scalar(a, a, row->rest, 8);
        ASC_THEN();
        asc_add(others, others, a, 8);
        ASC_THEN();
        logp_log1p(logp_at(&row->sums, LOGP_LOG), others, logp_at(&row->sums, LOGP_A));
    }
    if (!row->new_origin)
        return;
    ASC_FENCE(PIPE_V, PIPE_S);
    row->origin = *top;
    row->total = *logp_at(&row->sums, LOGP_TOTAL);
    ASC_FENCE(PIPE_S, PIPE_V);
}

/* TOP and LOG of both rows, and what the second pass needs. */
static inline __aicore__ void cetvd_tops(cetvd_job *job)
{
    __ubuf__ float *factor = cetvd_at(job, CETVD_FACTOR), *b = cetvd_at(job, CETVD_B);
    for (int i = 0; i < 2; i++)
        if (job->of[i].to > 0)
            cetvd_sure_top(job, &job->of[i]);
        else
            cetvd_plain_top(job, &job->of[i]);
    asc_duplicate(factor, -job->of[0].total, 8);
    asc_duplicate(b, job->of[1].total, 8);
    asc_duplicate(cetvd_at(job, CETVD_ABOVE), 0.0f, ASC_LANES);
    asc_duplicate(cetvd_at(job, CETVD_OVER), 0.0f, ASC_LANES);
    ASC_THEN();
    asc_div(factor, factor, b, 8);
    ASC_THEN();
}

/* From the powers of a piece, lane by lane: ABOVE, the sum of what p is larger than q, and OVER,
 * 2^-30 times the sum of p there, both times the student's total. */
static inline __aicore__ void cetvd_add_above(const cetvd_job *job, uint32_t n)
{
    __ubuf__ float *x = job->x, *z = job->z;
    ASC_COUNTED(n);
    asc_mul_add_relu(z, cetvd_at(job, CETVD_FACTOR), x, 1, 1, 0, 1, 8, 0, 8);
    ASC_UNCOUNTED();
    ASC_THEN();
    ASC_FOLD(asc_add, cetvd_at(job, CETVD_ABOVE), z, 1, n, 0);
    asc_mul_scalar(x, x, CETVD_SMALL, n);
    ASC_THEN();
    asc_min(x, x, z, n);
    ASC_THEN();
    ASC_FOLD(asc_add, cetvd_at(job, CETVD_OVER), x, 1, n, 0);
    ASC_THEN();
}

/* P and Q: the distance and sigma. Returns 0 if they lack digits. V waits for S. */
static inline __aicore__ int cetvd_end_above(const cetvd_job *job)
{
    __ubuf__ float *value = cetvd_at(job, CETVD_VALUE), *total = cetvd_at(job, CETVD_A);
    __ubuf__ float *tvd = cetvd_at(job, CETVD_P), *sigma = cetvd_at(job, CETVD_Q);
    int enough;
    asc_duplicate(total, job->of[0].total, 8);
    asc_spread_sum(tvd, value, cetvd_at(job, CETVD_ABOVE), 1);
    asc_spread_sum(sigma, value, cetvd_at(job, CETVD_OVER), 1);
    asc_div(tvd, tvd, total, 8);
    asc_mul_scalar(sigma, sigma, 2.0f * CETVD_LARGE, 8);
    ASC_THEN();
    asc_div(sigma, sigma, total, 8);
    ASC_THEN();
    asc_add_scalar(sigma, sigma, -1.0f, 8);
    ASC_FENCE(PIPE_V, PIPE_S);
    enough = *tvd >= CETVD_NEAR && !job->high;
    ASC_FENCE(PIPE_S, PIPE_V);
    return enough;
}

#endif
