/* sparsemax.h - arithmetic of sparsemax, of rows in pieces: what kernels/softmax/sparsemax.asc.c
 * goes through its passes with. f32 in UB. */
#ifndef SPARSEMAX_H
#define SPARSEMAX_H

#include "shared/asc_rows.h"
#include "shared/asc_short.h"
#include "sparsemax.args.h"

/* Numbers of rows, each of as many rows as there may be. */
enum { SM_MAX, SM_TAU, SM_BASE, SM_SUM, SM_COUNT, SM_MOVE, SM_SCRATCH };

/* A step as small as that, of differences to the maximum, is one that differences to the
 * threshold can do better. */
#define SM_STILL 1e-6f
#define SM_MOST_STEPS 60
#define SM_FREE_STEPS 4 /* before it is asked whether a step was one: S waits for V then */
/* Beyond it differences to the maximum are exact, and a base near the threshold would be off by
 * its own rounding. */
#define SM_HIGH 4096.0f

/* Rows beside each other, and what there is of them: along the tensor's rows, `beside` rows of n
 * elements; down its columns, n rows of `beside`. In UB: `rows` of `columns`. */
typedef struct sm_job {
    int64_t most;  /* rows beside each other */
    int64_t parts; /* numbers that `part` has room for */
    int64_t down, beside, rows, columns, pitch;
    uint32_t n; /* elements of all rows in UB */
    __ubuf__ float *numbers, *base, *tau, *sums, *part;
    __ubuf__ int32_t *counts;
} sm_job;

static inline __aicore__ __ubuf__ float *sm_at(const sm_job *job, int number)
{
    return job->numbers + number * job->most;
}

/* The memory of a job, cleared where a number may be read before it is set. most: rows beside each
 * other; room: lanes of all of them; parts: of a piece's part of the sums. */
static inline __aicore__ sm_job sm_start(int64_t down, int64_t most, int64_t room, int64_t parts,
                                         __ubuf__ float *numbers, __ubuf__ float *blocks,
                                         __ubuf__ float *lanes)
{
    sm_job job = {0};
    job.most = most;
    job.down = down;
    job.numbers = numbers;
    job.base = blocks;
    job.tau = blocks + most;
    job.sums = lanes;
    job.counts = (__ubuf__ int32_t *)lanes + room;
    job.part = lanes + 2 * room;
    job.parts = parts;
    asc_duplicate(numbers, 0.0f, (uint32_t)(7 * most));
    asc_duplicate(blocks, 0.0f, (uint32_t)(2 * most));
    return job;
}

static inline __aicore__ void sm_set_piece(sm_job *job, int64_t along, int64_t size)
{
    job->rows = job->down ? along : job->beside;
    job->columns = job->down ? job->beside : along;
    job->pitch = asc_round_up(job->columns, 32 / size);
    job->n = (uint32_t)(job->rows * job->pitch);
}

/* dst = op(x, by): the number of each row in `by`, spread. */
#define SM_WITH(op, job, dst, x, by)                                                         \
    do {                                                                                     \
        if (!(job)->down) {                                                                  \
            ASC_WITH_BLOCK(op, dst, x, by, (job)->rows, (job)->pitch, (job)->pitch);         \
            break;                                                                           \
        }                                                                                    \
        ASC_COUNTED((job)->pitch);                                                           \
        for (int64_t i_ = 0; i_ < (job)->rows; i_++)                                         \
            op((dst) + i_ * (job)->pitch, (x) + i_ * (job)->pitch, by, 1, 1, 1, 1, 8, 8, 8); \
        ASC_UNCOUNTED();                                                                     \
    } while (0)

enum { SM_REPEATS = 255 };

/* to = op(x, to) over each row, lane by lane. */
#define SM_FOLD(op, job, to, x)                                                   \
    do {                                                                          \
        if (!(job)->down) {                                                       \
            ASC_FOLD(op, to, x, (job)->rows, (job)->columns, (job)->pitch);       \
            break;                                                                \
        }                                                                         \
        for (int64_t i_ = 0; i_ < (job)->rows; i_ += SM_REPEATS) {                \
            if (i_ > 0)                                                           \
                ASC_THEN();                                                       \
            for (int64_t c_ = 0; c_ < (job)->columns; c_ += ASC_LANES) {          \
                asc_mask_lanes((job)->columns - c_);                              \
                op((to) + c_, (x) + i_ * (job)->pitch + c_, (to) + c_,            \
                   (uint8_t)asc_min_of(SM_REPEATS, (job)->rows - i_), 1, 1, 1, 0, \
                   (uint8_t)((job)->pitch / 8), 0);                               \
            }                                                                     \
        }                                                                         \
        ASC_UNCOUNTED();                                                          \
    } while (0)

/* Lanes of all rows, down to one number a row. */
static inline __aicore__ uint32_t sm_lanes(const sm_job *job)
{
    return (uint32_t)(job->down ? job->beside : job->beside * ASC_LANES);
}

static inline __aicore__ void sm_sum(const sm_job *job, __ubuf__ float *to, __ubuf__ float *lanes)
{
    if (job->down)
        asc_add_scalar(to, lanes, 0.0f, sm_lanes(job));
    else
        asc_repeat_reduce_sum(to, lanes, sm_lanes(job));
}

/* Each number as often as SM_WITH() wants it. */
static inline __aicore__ void sm_spread(const sm_job *job, __ubuf__ float *to,
                                        __ubuf__ float *number)
{
    if (job->down)
        asc_add_scalar(to, number, 0.0f, (uint32_t)job->beside);
    else
        asc_spread(to, number, job->beside);
}

static inline __aicore__ void sm_clear_sums(const sm_job *job)
{
    asc_duplicate(job->sums, 0.0f, sm_lanes(job));
    asc_duplicate(job->counts, 0, sm_lanes(job));
}

/* ---- forward ---- */

/* part = the sum of w over each row of a piece, lane by lane. Down columns lines are added up in as
 * many sums as there is room for, and these by halves: numbers that are equal are all rounded
 * alike, so that one sum of them would be off by half of a rounding each. */
static inline __aicore__ void sm_add_piece(const sm_job *job, __ubuf__ float *w)
{
    __ubuf__ float *part = job->part;
    int64_t have = asc_min_of(job->parts / job->pitch, job->rows);
    if (!job->down) {
        asc_duplicate(part, 0.0f, sm_lanes(job));
        ASC_THEN();
        SM_FOLD(asc_add, job, part, w);
        ASC_THEN();
        return;
    }
    asc_add_scalar(part, w, 0.0f, (uint32_t)(have * job->pitch));
    ASC_THEN();
    for (int64_t i = have; i < job->rows; i += have) {
        asc_add(part, part, w + i * job->pitch,
                (uint32_t)(asc_min_of(have, job->rows - i) * job->pitch));
        ASC_THEN();
    }
    for (int64_t kept; have > 1; have = kept) {
        kept = (have + 1) / 2;
        asc_add(part, part, part + kept * job->pitch, (uint32_t)((have - kept) * job->pitch));
        ASC_THEN();
    }
}

/* sums and counts, from d, differences to the base: of what lies above tau. w: scratch. Pieces are
 * added up apart: a long sum of small numbers keeps its digits. */
static inline __aicore__ void sm_add(const sm_job *job, __ubuf__ float *w, __ubuf__ float *d)
{
    SM_WITH(asc_sub_relu, job, w, d, job->tau);
    ASC_THEN();
    sm_add_piece(job, w);
    asc_add(job->sums, job->sums, job->part, sm_lanes(job));
    asc_min_scalar((__ubuf__ int32_t *)w, (__ubuf__ int32_t *)w, 1,
                   job->n); /* as bits, 1 for all above 0 */
    ASC_THEN();
    SM_FOLD(asc_add, job, job->counts, (__ubuf__ int32_t *)w);
    ASC_THEN();
}

/* A step of tau, spread anew. */
static inline __aicore__ void sm_step(const sm_job *job)
{
    const uint32_t n = (uint32_t)job->beside;
    __ubuf__ float *sum = sm_at(job, SM_SUM), *count = sm_at(job, SM_COUNT);
    __ubuf__ float *move = sm_at(job, SM_MOVE), *tau = sm_at(job, SM_TAU);
    __ubuf__ float *lanes = (__ubuf__ float *)job->counts;
    sm_sum(job, sum, job->sums);
    asc_int322float(lanes, job->counts, sm_lanes(job));
    ASC_THEN();
    sm_sum(job, count, lanes);
    asc_add_scalar(move, sum, -1.0f, n);
    ASC_THEN();
    asc_div(move, move, count, n);
    ASC_THEN();
    asc_add(tau, tau, move, n);
    ASC_THEN();
    sm_spread(job, job->tau, tau);
    sm_clear_sums(job);
    ASC_THEN();
}

/* Whether the last step was one in some row; NaN moves nothing. */
static inline __aicore__ int sm_moves(const sm_job *job)
{
    const uint32_t n = (uint32_t)job->beside;
    __ubuf__ float *move = sm_at(job, SM_SCRATCH), *most = sm_at(job, SM_SUM);
    __ubuf__ int32_t *times = (__ubuf__ int32_t *)move;
    int moves = 0;
    asc_mul_scalar(move, sm_at(job, SM_MOVE), 0.5f / SM_STILL, n);
    ASC_THEN();
    asc_float2int32_rn(times, move, n); /* NaN becomes 0 */
    ASC_THEN();
    asc_int322float(move, times, n);
    ASC_THEN();
    asc_repeat_reduce_max_only_value(most, move, n);
    ASC_FENCE(PIPE_V, PIPE_S);
    for (uint32_t i = 0; i < n && !moves; i += ASC_LANES)
        moves = most[i / ASC_LANES] > 0.0f;
    ASC_FENCE(PIPE_S, PIPE_V);
    return moves;
}

/* From maxima: tau = -1, relative to them. */
static inline __aicore__ void sm_begin(const sm_job *job)
{
    const uint32_t n = (uint32_t)job->beside;
    __ubuf__ float *max = sm_at(job, SM_MAX);
    if (job->down)
        asc_add_scalar(max, job->sums, 0.0f, n);
    else
        asc_repeat_reduce_max_only_value(max, job->sums, sm_lanes(job));
    asc_duplicate(sm_at(job, SM_TAU), -1.0f, n);
    ASC_THEN();
    sm_spread(job, job->base, max);
    sm_spread(job, job->tau, sm_at(job, SM_TAU));
    sm_clear_sums(job);
    ASC_THEN();
}

/* Differences count from the threshold now, in rows that are not high: base =
 * max + tau, tau = 0. */
static inline __aicore__ void sm_rebase(const sm_job *job)
{
    const uint32_t n = (uint32_t)job->beside;
    __ubuf__ float *low = sm_at(job, SM_SCRATCH), *base = sm_at(job, SM_BASE);
    __ubuf__ float *tau = sm_at(job, SM_TAU);
    asc_abs(low, sm_at(job, SM_MAX), n);
    ASC_THEN();
    asc_add_scalar(low, low, -SM_HIGH, n);
    ASC_THEN();
    asc_max_scalar(low, low, 0.0f, n);
    ASC_THEN();
    asc_min_scalar(low, low, 1.0f, n); /* differences of that size are multiples of 2^-11 */
    ASC_THEN();
    asc_mul_scalar(low, low, 2048.0f, n);
    ASC_THEN();
    asc_min_scalar(low, low, 1.0f, n);
    ASC_THEN();
    asc_mul(base, tau, low, n); /* what stays in tau */
    ASC_THEN();
    asc_sub(low, tau, base, n);
    ASC_THEN();
    asc_add_scalar(tau, base, 0.0f, n);
    asc_add(low, low, sm_at(job, SM_MAX), n);
    ASC_THEN();
    asc_add_scalar(base, low, 0.0f, n);
    sm_spread(job, job->base, low);
    sm_spread(job, job->tau, tau);
}

/* ---- backward ---- */

/* m: all bits where y is above 0; g = dy there, else 0, and NaN where y is one. */
static inline __aicore__ void sm_support(const sm_job *job, __ubuf__ float *g, __ubuf__ int32_t *m,
                                         __ubuf__ float *y)
{
    asc_max_scalar(m, (__ubuf__ int32_t *)y, 0, job->n);
    ASC_THEN();
    asc_min_scalar(m, m, 1, job->n);
    ASC_THEN();
    SM_FOLD(asc_add, job, job->counts, m);
    ASC_THEN();
    asc_mul_scalar(m, m, -1, job->n);
    ASC_THEN();
    asc_and((__ubuf__ uint16_t *)g, (__ubuf__ uint16_t *)g, (__ubuf__ uint16_t *)m, 2 * job->n);
    ASC_THEN();
    asc_axpy(g, y, 0.0f, job->n);
    ASC_THEN();
    SM_FOLD(asc_add, job, job->sums, g);
    ASC_THEN();
}

/* The mean of each row over its support, spread. */
static inline __aicore__ void sm_mean(const sm_job *job)
{
    const uint32_t n = (uint32_t)job->beside;
    __ubuf__ float *sum = sm_at(job, SM_SUM), *count = sm_at(job, SM_COUNT);
    __ubuf__ float *lanes = (__ubuf__ float *)job->counts;
    sm_sum(job, sum, job->sums);
    asc_int322float(lanes, job->counts, sm_lanes(job));
    ASC_THEN();
    sm_sum(job, count, lanes);
    ASC_THEN();
    asc_max_scalar(count, count, 1.0f, n);
    ASC_THEN();
    asc_div(sum, sum, count, n);
    ASC_THEN();
    sm_spread(job, job->base, sum);
    ASC_THEN();
}

/* g = its difference to the mean where m is, else 0, and NaN where y is one. */
static inline __aicore__ void sm_gradient(const sm_job *job, __ubuf__ float *g, __ubuf__ int32_t *m,
                                          __ubuf__ float *y)
{
    SM_WITH(asc_sub, job, g, g, job->base);
    ASC_THEN();
    asc_and((__ubuf__ uint16_t *)g, (__ubuf__ uint16_t *)g, (__ubuf__ uint16_t *)m, 2 * job->n);
    ASC_THEN();
    asc_axpy(g, y, 0.0f, job->n);
    ASC_THEN();
}

#endif
