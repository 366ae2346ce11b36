/* sparsemax_rows.asc.c - sparsemax of whole rows, several in a tile. The threshold of the maxima of
 * eight neighbours each is one that all elements' cannot be below, and near it: Newton's iteration
 * on all of a row begins there. Its last step is one of differences to the threshold itself: an
 * element that is equal to it becomes 0. Formulas: sparsemax.asc.c. */
#include "shared/asc_runs.h"
#include "sparsemax.h"

/* What an element above tau counts, where the smaller of both is added up: so small that all of
 * them are above it. */
#define SM_ONE 9.094947e-13f /* 2^-40 */
#define SM_TOP_STEPS 3       /* on maxima */
#define SM_SURE_STEPS 2      /* on all elements, before it is asked whether there is one more */

/* dst = op(x, by), the number of each row in `by`, spread. Rows are any whole blocks apart. */
#define SM_BY_ROW(op, dst, x, by, rows, pitch)                                             \
    do {                                                                                   \
        if ((pitch) % ASC_LANES == 0) {                                                    \
            ASC_BY_ROW(op, dst, x, by, rows, pitch);                                       \
            break;                                                                         \
        }                                                                                  \
        for (int64_t c_ = 0; c_ < (pitch); c_ += ASC_LANES) {                              \
            asc_mask_lanes((pitch)-c_);                                                    \
            op((dst) + c_, (x) + c_, by, (uint8_t)(rows), 1, 1, 0, (uint8_t)((pitch) / 8), \
               (uint8_t)((pitch) / 8), 1);                                                 \
        }                                                                                  \
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);                                   \
    } while (0)

/* Rows in a tile, `pitch` apart; in the tile of their maxima `pitch` / 8. */
typedef struct sm_rows {
    asc_runs of_row;
    int64_t rows, pitch;
    int64_t room; /* sums that half of a row's fold has room for, or 0: see sm_fold_pair() */
    __ubuf__ float *w, *top, *eighth, *sums,
        *counts; /* w: a tile; the last two: of 64 neighbours each */
} sm_rows;

enum { SM_PAIRS = 32 }; /* sums that a repeat makes of pairs: it writes as many */

/* Room for the halves of two folds is there where rows are a power of two times 64. */
static inline __aicore__ void sm_set_room(sm_rows *r, int64_t most_rows)
{
    const int64_t folds = r->of_row.run, room = asc_round_up(most_rows * folds / 2, SM_PAIRS);
    const int even = folds > 1 && (folds & (folds - 1)) == 0;
    r->room = even && 4 * room <= most_rows * folds * 8 ? room : 0;
}

/* Behind their columns rows are below all: bits of -infinity. */
static inline __aicore__ void sm_pad(__ubuf__ float *x, int64_t rows, int64_t pitch,
                                     int64_t columns)
{
    const int64_t rest = columns % ASC_LANES;
    if (rest) {
        asc_set_vector_mask(0, (uint64_t)-1 << rest);
        asc_duplicate((__ubuf__ int32_t *)x + columns - rest, -0x800000, (uint8_t)rows, 1,
                      (uint16_t)(pitch / 8));
        asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    }
    ASC_THEN();
}

/* From the elements: maxima, of neighbours relative to those of rows. */
static inline __aicore__ void sm_begin_rows(const sm_job *job, const sm_rows *r, __ubuf__ float *x)
{
    const uint32_t n = (uint32_t)(r->rows * r->pitch);
    asc_run_sums max = {sm_at(job, SM_SCRATCH), r->sums, r->eighth};
    asc_datablock_reduce_max(r->top, x, n);
    ASC_THEN();
    asc_datablock_reduce_max(r->sums, r->top, n / 8);
    ASC_THEN();
    ASC_RUNS_FOLD(asc_max, &r->of_row, &max, 1);
    asc_max_scalar(sm_at(job, SM_MAX), max.sums, ASC_LOWEST, (uint32_t)r->rows);
    asc_duplicate(sm_at(job, SM_TAU), -1.0f, (uint32_t)r->rows);
    ASC_THEN();
    sm_spread(job, job->base, sm_at(job, SM_MAX));
    sm_spread(job, job->tau, sm_at(job, SM_TAU));
    ASC_THEN();
    SM_BY_ROW(asc_sub, r->top, r->top, job->base, r->rows, r->pitch / 8);
    ASC_THEN();
}

/* values: sums of 64 elements each, or of their 8 maxima. */
static inline __aicore__ void sm_fold_rows(const sm_rows *r, __ubuf__ float *values, int64_t pitch)
{
    const asc_row_folds f = {values, r->w, r->eighth};
    if (pitch == r->pitch) {
        asc_fold_rows(&f, 1, r->rows * pitch);
        return;
    }
    asc_datablock_reduce_sum(values, r->w, (uint32_t)(r->rows * pitch));
    ASC_THEN();
}

/* w = what of d is above tau, d the differences of elements or of maxima to the base; the move: the
 * sum of each row, less 1. */
static inline __aicore__ void sm_add_rows(const sm_job *job, const sm_rows *r, __ubuf__ float *d,
                                          int64_t pitch)
{
    SM_BY_ROW(asc_sub_relu, r->w, d, job->tau, r->rows, pitch);
    ASC_THEN();
    sm_fold_rows(r, r->sums, pitch);
    asc_run_sums sum = {sm_at(job, SM_SUM), r->sums, r->eighth};
    asc_runs_sum(&r->of_row, &sum, 1);
    asc_add_scalar(sm_at(job, SM_MOVE), sum.sums, -1.0f, (uint32_t)r->rows);
    ASC_THEN();
}

/* SUM and COUNT of each row, from sums of 64 elements each. eighth: scratch. Ends with
 * ASC_THEN(). */
static inline __aicore__ void sm_fold_pair(const sm_job *job, const sm_rows *r, asc_run_sums *pair)
{
    __ubuf__ float *from[2] = {r->sums, r->counts};
    for (int i = 0; i < 2; i++) {
        pair[i].sums = sm_at(job, i ? SM_COUNT : SM_SUM);
        pair[i].values = from[i];
        pair[i].lines = r->eighth;
    }
    if (!r->room) {
        asc_runs_sum(&r->of_row, &pair[0], 1);
        asc_runs_sum(&r->of_row, &pair[1], 1);
        return;
    }
    int turn = 0;
    for (int64_t width = r->of_row.run, by; width > 1; width /= by, turn ^= 1) {
        by = width >= 8 ? 8 : 2;
        for (int i = 0; i < 2; i++) {
            __ubuf__ float *to = r->eighth + (2 * turn + i) * r->room;
            if (width == 8)
                to = sm_at(job, i ? SM_COUNT : SM_SUM);
            if (by == 8)
                asc_datablock_reduce_sum(to, from[i], (uint32_t)(r->rows * width));
            else
                asc_pair_reduce_sum(to, from[i], (uint32_t)(r->rows * width));
            from[i] = pair[i].sums = to;
        }
        ASC_THEN();
    }
}

/* tau += the move over the count, spread anew. */
static inline __aicore__ void sm_move_rows(const sm_job *job, const sm_rows *r,
                                           __ubuf__ float *count)
{
    const uint32_t n = (uint32_t)r->rows;
    __ubuf__ float *move = sm_at(job, SM_MOVE), *tau = sm_at(job, SM_TAU);
    asc_div(move, move, count, n);
    ASC_THEN();
    asc_axpy(tau, move, SM_ONE, n);
    ASC_THEN();
    sm_spread(job, job->tau, tau);
    ASC_THEN();
}

/* After sm_add_rows(), a step. w is used up. */
static inline __aicore__ void sm_step_rows(const sm_job *job, const sm_rows *r, int64_t pitch)
{
    asc_run_sums count = {sm_at(job, SM_COUNT), r->counts, r->eighth};
    asc_min_scalar(r->w, r->w, SM_ONE, (uint32_t)(r->rows * pitch));
    ASC_THEN();
    sm_fold_rows(r, r->counts, pitch);
    asc_runs_sum(&r->of_row, &count, 1);
    sm_move_rows(job, r, count.sums);
}

/* Both in one, whose sums and counts are folded side by side. */
static inline __aicore__ void sm_add_step_rows(const sm_job *job, const sm_rows *r,
                                               __ubuf__ float *d, int64_t pitch)
{
    const uint32_t n = (uint32_t)(r->rows * pitch);
    const int whole = pitch == r->pitch;
    asc_run_sums pair[2];
    SM_BY_ROW(asc_sub_relu, r->w, d, job->tau, r->rows, pitch);
    ASC_THEN();
    asc_datablock_reduce_sum(whole ? r->eighth : r->sums, r->w, n);
    ASC_THEN();
    asc_min_scalar(r->w, r->w, SM_ONE, n);
    if (whole)
        asc_datablock_reduce_sum(r->sums, r->eighth, n / 8);
    ASC_THEN();
    asc_datablock_reduce_sum(whole ? r->eighth : r->counts, r->w, n);
    ASC_THEN();
    if (whole) {
        asc_datablock_reduce_sum(r->counts, r->eighth, n / 8);
        ASC_THEN();
    }
    sm_fold_pair(job, r, pair);
    asc_add_scalar(sm_at(job, SM_MOVE), pair[0].sums, -1.0f, (uint32_t)r->rows);
    ASC_THEN();
    sm_move_rows(job, r, pair[1].sums);
}

#define ASC_TEMPLATE "softmax/sparsemax_rows.asc.h"
#include "shared/asc_each_type.h"
