/* sparsemax.asc.c - y = max(x - tau, 0) such that rows add up to 1, by Newton's iteration: tau +=
 * (sum of max(x - tau, 0) - 1) / k from
 * tau = max - 1, k the number of elements above tau; and its gradient. Rows lie along the tensor's,
 * several in UB at once, or down its
 * columns. A row that fits stays in UB, and a longer one is copied in again for each step.
 * Arithmetic is f32 in UB. */
#include "sparsemax.h"

/* ---- short rows: a tile of lines (asc_short.h), as if they went down columns ---- */

static inline __aicore__ void sm_set_lines(sm_job *job, int64_t columns, int64_t lanes)
{
    job->beside = lanes;
    sm_set_piece(job, columns, (int64_t)sizeof(float));
}

/* d = the result; w: scratch. */
static inline __aicore__ void sm_forward_lines(const sm_job *job, __ubuf__ float *d,
                                               __ubuf__ float *x, __ubuf__ float *w)
{
    int64_t steps = 0;
    asc_duplicate(job->sums, ASC_LOWEST, sm_lanes(job));
    ASC_THEN();
    SM_FOLD(asc_max, job, job->sums, x);
    ASC_THEN();
    sm_begin(job);
    SM_WITH(asc_sub, job, d, x, job->base);
    ASC_THEN();
    do {
        sm_add(job, w, d);
        sm_step(job);
        steps++;
    } while (steps <= SM_FREE_STEPS || (steps <= SM_MOST_STEPS && sm_moves(job)));
    sm_rebase(job);
    ASC_THEN();
    SM_WITH(asc_sub, job, d, x, job->base);
    ASC_THEN();
    sm_add(job, w, d);
    sm_step(job);
    SM_WITH(asc_sub_relu, job, d, d, job->tau);
    ASC_THEN();
}

/* g = dx; it is dy before. m: scratch. */
static inline __aicore__ void sm_backward_lines(const sm_job *job, __ubuf__ float *g,
                                                __ubuf__ float *y, __ubuf__ int32_t *m)
{
    sm_clear_sums(job);
    sm_support(job, g, m, y);
    sm_mean(job);
    sm_gradient(job, g, m, y);
}

/* ---- tasks ---- */

typedef struct sm_task {
    int64_t outer, column, beside; /* the first row, or the group and its first column; how many */
} sm_task;

static inline __aicore__ int64_t sm_tasks(int64_t down, int64_t outer, int64_t inner,
                                          int64_t beside)
{
    return down ? outer * ((inner + beside - 1) / beside) : (outer + beside - 1) / beside;
}

static inline __aicore__ sm_task sm_task_at(int64_t task, int64_t down, int64_t outer,
                                            int64_t inner, int64_t beside)
{
    const int64_t strips = (inner + beside - 1) / beside;
    sm_task t;
    t.outer = down ? task / strips : task * beside;
    t.column = down ? task % strips * beside : 0;
    t.beside = asc_min_of(beside, down ? inner - t.column : outer - t.outer);
    return t;
}

#define ASC_TEMPLATE "softmax/sparsemax.asc.h"
#include "shared/asc_each_type.h"
