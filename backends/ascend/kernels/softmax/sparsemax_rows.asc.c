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
    __ubuf__ float *w, *top, *eighth, *sums,
        *counts; /* w: a tile; the last two: of 64 neighbours each */
} sm_rows;

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

/* Then a step of tau, spread anew. w is used up. */
static inline __aicore__ void sm_step_rows(const sm_job *job, const sm_rows *r, int64_t pitch)
{
    const uint32_t n = (uint32_t)r->rows;
    __ubuf__ float *move = sm_at(job, SM_MOVE), *tau = sm_at(job, SM_TAU);
    asc_run_sums count = {sm_at(job, SM_COUNT), r->counts, r->eighth};
    asc_min_scalar(r->w, r->w, SM_ONE, (uint32_t)(r->rows * pitch));
    ASC_THEN();
    sm_fold_rows(r, r->counts, pitch);
    asc_runs_sum(&r->of_row, &count, 1);
    asc_div(move, move, count.sums, n);
    ASC_THEN();
    asc_axpy(tau, move, SM_ONE, n);
    ASC_THEN();
    sm_spread(job, job->tau, tau);
    ASC_THEN();
}

#define ASC_TEMPLATE "softmax/sparsemax_rows.asc.h"
#include "shared/asc_each_type.h"
