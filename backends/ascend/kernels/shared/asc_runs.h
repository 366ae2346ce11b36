/* asc_runs.h - runs of numbers in UB, such as one a row: the sum of each run, and a number of each
 * run for all that it has. Both are gathers, whose offsets are made once. A run of one is the
 * number itself, and nothing is done for it. */
#ifndef ASC_RUNS_H
#define ASC_RUNS_H

#include "asc_short.h"

/* S writes a table's beginning: V has read what was there. */
static inline __aicore__ void asc_runs_begin_table(void)
{
    ASC_FENCE(PIPE_V, PIPE_S);
}

/* ---- sums ---- */

/* Sums of `run` numbers, `lanes` of them side by side. */
typedef struct asc_runs {
    int64_t run, lanes;
    __ubuf__ uint32_t *at; /* a line for each number of a run, a lane for each run */
} asc_runs;

/* `count` runs, which begin `step` numbers apart, of numbers `next` apart. at: `run` lines of
 * `count` lanes, rounded up to 8. */
static inline __aicore__ asc_runs asc_runs_of(int64_t run, int64_t count, int64_t step,
                                              int64_t next, uint64_t at)
{
    const int64_t size = (int64_t)sizeof(float), last = (count - 1) * step + (run - 1) * next;
    __ubuf__ int32_t *table = (__ubuf__ int32_t *)at;
    asc_runs t;
    t.run = run;
    t.lanes = asc_round_up(count, 8);
    t.at = (__ubuf__ uint32_t *)at;
    if (run == 1)
        return t;
    asc_runs_begin_table();
    asc_short_steps(table, step * size, t.lanes);
    for (int64_t have = 1; have < run; have *= 2) {
        asc_add_scalar(table + have * t.lanes, table, (int32_t)(have * next * size),
                       (uint32_t)(asc_min_of(have, run - have) * t.lanes));
        ASC_THEN();
    }
    asc_min_scalar(table, table, (int32_t)(last * size), (uint32_t)(run * t.lanes));
    ASC_THEN();
    return t;
}

/* sums: of the runs of `values`; it becomes `values` if a run is one number. lines: room
 * as for the offsets. */
typedef struct asc_run_sums {
    __ubuf__ float *sums, *values, *lines;
} asc_run_sums;

/* `count` of them, side by side, each as a tree, with op for their sums, asc_add or asc_max;
 * ends with ASC_THEN(). */
#define ASC_RUNS_FOLD(op, t, s, count)                                                           \
    do {                                                                                         \
        for (int i_ = 0; i_ < (count); i_++)                                                     \
            if ((t)->run == 1)                                                                   \
                (s)[i_].sums = (s)[i_].values;                                                   \
            else                                                                                 \
                asc_gather((s)[i_].lines, (s)[i_].values, (t)->at,                               \
                           (uint32_t)((t)->run * (t)->lanes));                                   \
        ASC_THEN();                                                                              \
        for (int64_t n_ = (t)->run; n_ > 1; n_ -= n_ / 2) {                                      \
            for (int i_ = 0; i_ < (count); i_++)                                                 \
                op(n_ == 2 ? (s)[i_].sums : (s)[i_].lines, (s)[i_].lines,                        \
                   (s)[i_].lines + (n_ - n_ / 2) * (t)->lanes, (uint32_t)(n_ / 2 * (t)->lanes)); \
            ASC_THEN();                                                                          \
        }                                                                                        \
    } while (0)

static inline __aicore__ void asc_runs_sum(const asc_runs *t, asc_run_sums *s, int count)
{
    ASC_RUNS_FOLD(asc_add, t, s, count);
}

/* ---- rows of a tile ---- */

/* Rows `pitch` apart, 0 behind their columns: values, the sums of 64 elements each, pitch / 64 of
 * them a row. eighth: as many eighths. */
typedef struct asc_row_folds {
    __ubuf__ float *values, *rows, *eighth;
} asc_row_folds;

/* `count` of them, of tiles of n elements, side by side; ends with ASC_THEN(). */
static inline __aicore__ void asc_fold_rows(const asc_row_folds *f, int count, int64_t n)
{
    for (int i = 0; i < count; i++)
        asc_datablock_reduce_sum(f[i].eighth, f[i].rows, (uint32_t)n);
    ASC_THEN();
    for (int i = 0; i < count; i++)
        asc_datablock_reduce_sum(f[i].values, f[i].eighth, (uint32_t)(n / 8));
    ASC_THEN();
}

/* dst = q^2 in the columns of rows; what is behind them stays. ASC_THEN() is left to the caller. */
static inline __aicore__ void asc_square_rows(__ubuf__ float *dst, __ubuf__ float *q, int64_t rows,
                                              int64_t pitch, int64_t columns)
{
    if (rows * ASC_LANES < columns) {
        for (int64_t r = 0; r < rows; r++)
            asc_mul(dst + r * pitch, q + r * pitch, q + r * pitch, (uint32_t)columns);
        return;
    }
    for (int64_t c = 0; c < columns; c += ASC_LANES) {
        asc_mask_lanes(columns - c);
        asc_mul(dst + c, q + c, q + c, (uint8_t)rows, 1, 1, 1, (uint8_t)(pitch / 8),
                (uint8_t)(pitch / 8), (uint8_t)(pitch / 8));
    }
}

/* ---- a number of each run, for all of it ---- */

/* Offsets of `n` numbers: i step - i / run (whole) back, in floats. scratch: n floats. */
static inline __aicore__ void asc_runs_table(__ubuf__ float *at, __ubuf__ float *scratch, int64_t n,
                                             int64_t run, int64_t step, int64_t back)
{
    const int64_t size = (int64_t)sizeof(float);
    asc_runs_begin_table();
    asc_short_turns((__ubuf__ int32_t *)at, scratch, (uint32_t)n, run, step * size, back * size);
}

/* values = those at such offsets, once. at, scratch: n floats each. */
static inline __aicore__ void asc_runs_turn(__ubuf__ float *values, __ubuf__ float *at,
                                            __ubuf__ float *scratch, int64_t n, int64_t run,
                                            int64_t step, int64_t back)
{
    asc_runs_table(at, scratch, n, run, step, back);
    asc_gather(scratch, values, (__ubuf__ uint32_t *)at, (uint32_t)n);
    ASC_THEN();
    asc_add_scalar(values, scratch, 0.0f, (uint32_t)n);
    ASC_THEN();
}

#endif
