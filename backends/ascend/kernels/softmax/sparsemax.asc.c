/* sparsemax.asc.c - y = max(x - tau, 0) such that rows add up to 1, by Newton's iteration: tau +=
 * (sum of max(x - tau, 0) - 1) / k from
 * tau = max - 1, k the number of elements above tau; and its gradient. Rows lie along the tensor's,
 * several in UB at once, or down its
 * columns. A row that fits stays in UB, and a longer one is copied in again for each step.
 * Arithmetic is f32 in UB. */
#include "sparsemax.h"

/* ---- short rows: a tile of lines (asc_short.h), as if they went down columns ---- */

enum { SM_SORTED = 24 }; /* elements of a row, at most, that sorting is faster for than steps */

static inline __aicore__ void sm_set_lines(sm_job *job, int64_t columns, int64_t lanes)
{
    job->beside = lanes;
    sm_set_piece(job, columns, (int64_t)sizeof(float));
}

/* A tile's lines in two tiles of UB, and which of them are in the second, as bits. */
typedef struct sm_lines {
    __ubuf__ float *tiles[2];
    int64_t columns, lanes;
    uint64_t second;
} sm_lines;

static inline __aicore__ __ubuf__ float *sm_line(const sm_lines *l, int64_t c, int other)
{
    return l->tiles[(int)(l->second >> c & 1) ^ other] + c * l->lanes;
}

/* Sorts each lane, the largest first: Batcher's merges of neighbours that differ by `step`. The
 * pairs of a step are written where their lines are not. */
static inline __aicore__ void sm_sort_lines(sm_lines *l)
{
    ASC_COUNTED(l->lanes);
    for (int64_t size = 1; size < l->columns; size *= 2)
        for (int64_t step = size; step > 0; step /= 2) {
            uint64_t moved = 0;
            for (int64_t c = step % size; c + step < l->columns; c++) {
                const int64_t d = c + step;
                if ((c - step % size) / step % 2 || c / (2 * size) != d / (2 * size))
                    continue;
                asc_max(sm_line(l, c, 1), sm_line(l, c, 0), sm_line(l, d, 0), 1, 1, 1, 1, 8, 8, 8);
                asc_min(sm_line(l, d, 1), sm_line(l, c, 0), sm_line(l, d, 0), 1, 1, 1, 1, 8, 8, 8);
                moved |= (uint64_t)1 << c | (uint64_t)1 << d;
            }
            l->second ^= moved;
            ASC_THEN();
        }
    ASC_UNCOUNTED();
}

/* tau of sorted lanes: of all k the largest (sum of the first k, less 1) / k. */
static inline __aicore__ void sm_threshold_lines(const sm_lines *l, __ubuf__ float *tau)
{
    const uint32_t n = (uint32_t)l->lanes;
    for (int64_t c = 1; c < l->columns; c++) {
        asc_add(sm_line(l, c, 0), sm_line(l, c - 1, 0), sm_line(l, c, 0), n);
        ASC_THEN();
    }
    for (int64_t c = 0; c < l->columns; c++)
        asc_add_scalar(sm_line(l, c, 1), sm_line(l, c, 0), -1.0f, n);
    ASC_THEN();
    for (int64_t c = 0; c < l->columns; c++)
        asc_mul_scalar(sm_line(l, c, 1), sm_line(l, c, 1), 1.0f / (float)(c + 1), n);
    ASC_THEN();
    for (int64_t have = l->columns, kept; have > 1; have = kept) {
        kept = (have + 1) / 2;
        for (int64_t c = kept; c < have; c++)
            asc_max(sm_line(l, c - kept, 1), sm_line(l, c - kept, 1), sm_line(l, c, 1), n);
        ASC_THEN();
    }
    asc_add_scalar(tau, sm_line(l, 0, 1), 0.0f, n);
    ASC_THEN();
}

/* Newton's steps from d, the differences to the maximum. w: scratch. */
static inline __aicore__ void sm_search_lines(const sm_job *job, __ubuf__ float *d,
                                              __ubuf__ float *w)
{
    int64_t steps = 0;
    do {
        sm_add(job, w, d);
        sm_step(job);
        steps++;
    } while (steps <= SM_FREE_STEPS || (steps <= SM_MOST_STEPS && sm_moves(job)));
}

/* d = the result; w: scratch. */
static inline __aicore__ void sm_forward_lines(const sm_job *job, __ubuf__ float *d,
                                               __ubuf__ float *x, __ubuf__ float *w)
{
    asc_duplicate(job->sums, ASC_LOWEST, sm_lanes(job));
    ASC_THEN();
    SM_FOLD(asc_max, job, job->sums, x);
    ASC_THEN();
    sm_begin(job);
    SM_WITH(asc_sub, job, d, x, job->base);
    ASC_THEN();
    if (job->rows <= SM_SORTED) {
        sm_lines l = {{d, w}, job->rows, job->pitch, 0};
        sm_sort_lines(&l);
        sm_threshold_lines(&l, sm_at(job, SM_TAU));
    } else {
        sm_search_lines(job, d, w);
    }
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
