/* sparsemax.asc.h - the kernels of one type; see asc_each_type.h. */

/* A piece of the task's rows, from element `at` of each, in and out. */
static inline __aicore__ void ASC_NAME(sm_in)(const sm_job *job, const sm_task *t, int64_t place,
                                              int slot, __gm__ ASC_T *x, int64_t outer,
                                              int64_t step, int64_t at)
{
    const int64_t size = sizeof(ASC_T), stride = job->down ? step : outer;
    asc_copy_rows_in(asc_place(place, slot), x + t->outer * outer + t->column + at * step,
                     job->rows, job->columns * size, stride * size, job->pitch * size);
}

static inline __aicore__ void ASC_NAME(sm_out)(const sm_job *job, const sm_task *t, int64_t place,
                                               int slot, __gm__ ASC_T *x, int64_t outer,
                                               int64_t step, int64_t at)
{
    const int64_t size = sizeof(ASC_T), stride = job->down ? step : outer;
    asc_copy_rows_out(x + t->outer * outer + t->column + at * step, asc_place(place, slot),
                      job->rows, job->columns * size, stride * size, job->pitch * size);
}

/* A piece as f32 in `to`. */
static inline __aicore__ void ASC_NAME(sm_widen)(const sm_job *job, __ubuf__ float *to,
                                                 int64_t place, int slot)
{
#if ASC_16BIT
    ASC_WIDEN(to, ASC_UB(ASC_T, place, slot), job->n);
#else
    asc_add_scalar(to, ASC_UB(float, place, slot), 0.0f, job->n);
#endif
}

static inline __aicore__ void ASC_NAME(sm_narrow)(const sm_job *job, int64_t place, int slot,
                                                  __ubuf__ float *from)
{
#if ASC_16BIT
    ASC_NARROW(ASC_UB(ASC_T, place, slot), from, job->n);
#else
    asc_add_scalar(ASC_UB(float, place, slot), from, 0.0f, job->n);
#endif
}

#define LOAD(job, t, slot, at)                                       \
    do {                                                             \
        ASC_MAY_FILL(slot);                                          \
        ASC_NAME(sm_in)(job, t, x_at, slot, x, x_outer, x_step, at); \
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);                         \
    } while (0)
/* Whole rows of another task. */
#define LOAD_TASK(task, slot)                                            \
    do {                                                                 \
        const sm_task t_ = sm_task_at(task, down, outer, inner, beside); \
        sm_job ahead_ = job;                                             \
        ahead_.beside = t_.beside;                                       \
        sm_set_piece(&ahead_, length, size);                             \
        LOAD(&ahead_, &t_, slot, 0);                                     \
    } while (0)
/* Passes over the task's rows: their maxima; steps, until they are as good as none; one from
 * another base; the result. */
ASC_KERNEL ASC_NAME(sparsemax_forward)(ASC_PARAMS(SPARSEMAX_FORWARD))
{
    enum { MAXIMA, STEPS, LAST_STEP, RESULT };
    const int64_t tasks = sm_tasks(down, outer, inner, beside), size = sizeof(ASC_T);
    const int whole = piece >= length;
    __ubuf__ float *d = ASC_SCRATCH(d), *w = ASC_SCRATCH(w);
    int slot = 0;
    (void)rows, (void)columns, (void)tile_rows, (void)tile_columns;
    asc_pipeline_begin();
    sm_job job = sm_start(down, SPARSEMAX_COLUMNS, SPARSEMAX_BESIDE * ASC_LANES,
                          SPARSEMAX_BESIDE * ASC_LANES, ASC_SCRATCH(numbers), ASC_SCRATCH(blocks),
                          ASC_SCRATCH(lanes));
    if (whole)
        LOAD_TASK(asc_get_block_idx(), 0);
    for (int64_t i = asc_get_block_idx(); i < tasks; i += asc_get_block_num()) {
        const sm_task t = sm_task_at(i, down, outer, inner, beside);
        if (whole && i + asc_get_block_num() < tasks)
            LOAD_TASK(i + asc_get_block_num(), slot ^ 1);
        int64_t steps = 0;
        job.beside = t.beside;
        asc_duplicate(job.sums, ASC_LOWEST, sm_lanes(&job));
        for (int pass = MAXIMA; pass <= RESULT;) {
            for (int64_t at = 0; at < length; at += piece) {
                sm_set_piece(&job, asc_min_of(piece, length - at), size);
                if (!whole)
                    LOAD(&job, &t, slot, at);
                if (!whole || pass == MAXIMA)
                    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
                if (!whole || pass == MAXIMA || pass == LAST_STEP) {
                    ASC_THEN();
                    ASC_NAME(sm_widen)(&job, d, x_at, slot);
                    ASC_THEN();
                    if (pass > MAXIMA) {
                        SM_WITH(asc_sub, &job, d, d, job.base);
                        ASC_THEN();
                    }
                }
                if (pass == MAXIMA) {
                    SM_FOLD(asc_max, &job, job.sums, d);
                    ASC_THEN();
                } else if (pass < RESULT) {
                    sm_add(&job, w, d);
                } else {
                    ASC_MAY_WRITE(0);
                    SM_WITH(asc_sub_relu, &job, w, d, job.tau);
                    ASC_THEN();
                    ASC_NAME(sm_narrow)(&job, y_at, 0, w);
                    ASC_HAS_WRITTEN(0);
                    ASC_NAME(sm_out)(&job, &t, y_at, 0, y, y_outer, y_step, at);
                    ASC_HAS_LEFT(0);
                }
                if (!whole || pass == RESULT) {
                    ASC_HAS_READ(slot);
                    slot ^= 1;
                }
            }
            if (pass == MAXIMA) {
                sm_begin(&job);
                if (whole) {
                    SM_WITH(asc_sub, &job, d, d, job.base);
                    ASC_THEN();
                }
                pass = STEPS;
            } else if (pass == RESULT) {
                pass++;
            } else {
                sm_step(&job);
                if (pass > STEPS ||
                    (++steps > SM_FREE_STEPS && (steps > SM_MOST_STEPS || !sm_moves(&job))))
                    pass++;
                if (pass == LAST_STEP)
                    sm_rebase(&job);
            }
        }
    }
    asc_pipeline_end();
}

#undef LOAD
#define LOAD(job, t, slot, at)                                           \
    do {                                                                 \
        ASC_MAY_FILL(slot);                                              \
        ASC_NAME(sm_in)(job, t, dy_at, slot, dy, dy_outer, dy_step, at); \
        ASC_NAME(sm_in)(job, t, y_at, slot, y, y_outer, y_step, at);     \
        ASC_NOTIFY(PIPE_MTE2, PIPE_V, slot);                             \
    } while (0)
/* Two passes: the sums over each row's support; the result. */
ASC_KERNEL ASC_NAME(sparsemax_backward)(ASC_PARAMS(SPARSEMAX_BACKWARD))
{
    const int64_t tasks = sm_tasks(down, outer, inner, beside), size = sizeof(ASC_T);
    const int whole = piece >= length;
    __ubuf__ float *g = ASC_SCRATCH(g);
    __ubuf__ int32_t *m = ASC_UB(int32_t, m_at, 0);
    int slot = 0;
    (void)rows, (void)columns, (void)tile_rows, (void)tile_columns;
    asc_pipeline_begin();
    sm_job job = sm_start(down, SPARSEMAX_COLUMNS, SPARSEMAX_BESIDE * ASC_LANES,
                          SPARSEMAX_BESIDE * ASC_LANES, ASC_SCRATCH(numbers), ASC_SCRATCH(blocks),
                          ASC_SCRATCH(lanes));
    if (whole)
        LOAD_TASK(asc_get_block_idx(), 0);
    for (int64_t i = asc_get_block_idx(); i < tasks; i += asc_get_block_num()) {
        const sm_task t = sm_task_at(i, down, outer, inner, beside);
        if (whole && i + asc_get_block_num() < tasks)
            LOAD_TASK(i + asc_get_block_num(), slot ^ 1);
        job.beside = t.beside;
        sm_clear_sums(&job);
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t at = 0; at < length; at += piece) {
#if ASC_16BIT
                __ubuf__ float *y32 = ASC_SCRATCH(y32);
#else
                __ubuf__ float *y32 = ASC_UB(float, y_at, slot);
#endif
                sm_set_piece(&job, asc_min_of(piece, length - at), size);
                if (!whole)
                    LOAD(&job, &t, slot, at);
                if (!whole || pass == 0) {
                    ASC_WAIT(PIPE_MTE2, PIPE_V, slot);
                    ASC_NAME(sm_widen)(&job, g, dy_at, slot);
#if ASC_16BIT
                    ASC_NAME(sm_widen)(&job, y32, y_at, slot);
#endif
                    ASC_THEN();
                    if (!whole && pass)
                        sm_clear_sums(&job);
                    sm_support(&job, g, m, y32);
                }
                if (pass) {
                    sm_gradient(&job, g, m, y32);
                    ASC_MAY_WRITE(0);
                    ASC_NAME(sm_narrow)(&job, dx_at, 0, g);
                    ASC_THEN();
                    ASC_HAS_WRITTEN(0);
                    ASC_NAME(sm_out)(&job, &t, dx_at, 0, dx, dx_outer, dx_step, at);
                    ASC_HAS_LEFT(0);
                }
                if (!whole || pass) {
                    ASC_HAS_READ(slot);
                    slot ^= 1;
                }
            }
            if (pass == 0)
                sm_mean(&job);
        }
    }
    asc_pipeline_end();
}

#undef LOAD
#undef LOAD_TASK

#define ASC_SHORT ASC_NAME(sparsemax_forward_short)
#define ASC_SHORT_ARGS SPARSEMAX_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, d)
#define SPARSEMAX_LINES                                                                   \
    sm_job job = sm_start(1, lanes, lanes, SPARSEMAX_PARTS * lanes, ASC_SCRATCH(numbers), \
                          ASC_SCRATCH(blocks), ASC_SCRATCH(sums));                        \
    sm_set_lines(&job, columns, lanes);
#define ASC_SHORT_FIRST SPARSEMAX_LINES
#define ASC_SHORT_TILE \
    sm_forward_lines(&job, ASC_SCRATCH(d), ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(y))
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(sparsemax_backward_short)
#define ASC_SHORT_ARGS SPARSEMAX_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(y)
#define ASC_SHORT_WRITES ASC_WRITE(dx, dy32)
#define ASC_SHORT_FIRST SPARSEMAX_LINES
#define ASC_SHORT_TILE                                           \
    sm_backward_lines(&job, ASC_SCRATCH(dy32), ASC_SCRATCH(y32), \
                      (__ubuf__ int32_t *)ASC_SHORT_SCRATCH(dx))
#include "shared/asc_short.asc.h"
#undef SPARSEMAX_LINES
