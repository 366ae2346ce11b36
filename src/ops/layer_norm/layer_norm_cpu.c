/* layer_norm on the CPU: forward. A row is read from memory once. Short rows are taken a few at a
 * time: while they are written, the moments of the next ones are taken, which are in the second
 * cache already, and those behind them are asked for, so that the memory never waits.
 */
#include "moments.h"
#include "rows/columns.h"
#include "rows/next.h"
#include "rows/rows.h"

/* ROW_BLOCK: rows that are taken at a time; of more, what differs from row to row no longer fits
 * the registers. NEAR: bytes of a row of which three blocks fit the second cache. TURN: bytes by
 * which moments are taken ahead of what is written: all rows may begin at the same place of their
 * pages, and many lines of one place do not fit the first cache. */
enum { ROW_BLOCK = 2, NEAR = 32 << 10, TURN = 2048 };

typedef struct forward_job {
    operand x, y;
    const float *weight, *bias;
    float *mean, *rstd; /* NULL: not wanted */
    int64_t n;
    double eps;
    int near, stream;
    el type;
} forward_job;

/* What the pass that writes y = ((x - mean) r) weight + bias needs of a row. The mean is in two
 * parts, high - low / r: f32 alone would be off by as much as the last bit of x. */
typedef struct normal_terms {
    const char *x;
    char *y;
    float high, low, r;
} normal_terms;

SIMD_INLINE normal_terms terms_of(const forward_job *job, int64_t i, moments m)
{
    const double mean = m.sum / m.count;
    const float r = (float)(1 / sqrt(m.squares / m.count + job->eps)), high = (float)mean;
    if (job->mean)
        job->mean[i] = high;
    if (job->rstd)
        job->rstd[i] = r;
    return (normal_terms){row_at(&job->x, i), row_at(&job->y, i), high, (float)(high - mean) * r,
                          r};
}

SIMD_INLINE vf normalised(const normal_terms *t, vf x, vf weight, vf bias)
{
    return ((x - v_set(t->high)) * v_set(t->r) + v_set(t->low)) * weight + bias;
}

/* Columns [j, j + V_PAIR) of a few rows, so that weight and bias are read once for all of them. */
SIMD_INLINE void normalise_pair(el e, int stream, const forward_job *job, const normal_terms *t,
                                int count, int64_t ahead, int64_t j)
{
    const vf2 w = v_get2(job->weight + j), b = v_get2(job->bias + j);
    for (int k = 0; k < count; k++) {
        const vf2 x = v_load2(e, e, t[k].x, j);
        v_write2(e, stream, t[k].y, j,
                 (vf2){normalised(&t[k], x.a, w.a, b.a), normalised(&t[k], x.b, w.b, b.b)});
        next_pair(e, t[k].x + ahead, j);
    }
}

SIMD_INLINE void normalise_tail(el e, const forward_job *job, const normal_terms *t, int count)
{
    for (int64_t j = v_whole_pairs(job->n); j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf w = v_load_n(EL_F32, job->weight, j, left, 0),
                 b = v_load_n(EL_F32, job->bias, j, left, 0);
        for (int k = 0; k < count; k++)
            v_store_n(e, t[k].y, j, left, normalised(&t[k], v_load_n(e, t[k].x, j, left, 0), w, b));
    }
}

/* Writes the rows of t, which then becomes `next` rows from row i on. count: 0 or `next`. */
SIMD_INLINE void forward_step(el e, int stream, const forward_job *job, normal_terms *t, int count,
                              int next, int64_t i)
{
    const int64_t ahead = 2 * next * job->x.stride;
    moments m[ROW_BLOCK];
    for (int k = 0; k < next; k++)
        m[k] = (moments){0, 0, 0};
    for (int64_t first = 0; first < job->n; first += MOMENTS_BLOCK) {
        const int64_t n = job->n - first < MOMENTS_BLOCK ? job->n - first : MOMENTS_BLOCK,
                      whole = v_whole_pairs(n), turn = TURN / el_size(e);
        const char *x[ROW_BLOCK];
        moments_pass p[ROW_BLOCK];
        for (int k = 0; k < next; k++) {
            x[k] = row_at(&job->x, i + k) + first * el_size(e);
            p[k] = moments_begin(e, x[k], n);
        }
        for (int64_t j = 0, from = turn < whole ? turn : 0; j < whole; j += V_PAIR) {
            if (count)
                normalise_pair(e, stream, job, t, count, ahead, first + j);
            for (int k = 0; k < next; k++)
                moments_take(e, &p[k], x[k], from);
            from = from + V_PAIR < whole ? from + V_PAIR : 0;
        }
        for (int k = 0; k < next; k++)
            moments_end(e, &m[k], &p[k], x[k], n);
    }
    normalise_tail(e, job, t, count);
    for (int k = 0; k < next; k++)
        t[k] = terms_of(job, i + k, m[k]);
}

/* Of rows whose moments are known. */
SIMD_INLINE void normalise_rows(el e, int stream, const forward_job *job, const normal_terms *t,
                                int count, int64_t ahead)
{
    for (int64_t j = 0; j < v_whole_pairs(job->n); j += V_PAIR)
        normalise_pair(e, stream, job, t, count, ahead, j);
    normalise_tail(e, job, t, count);
}

SIMD_INLINE void near_rows(el e, int stream, const forward_job *job, int64_t begin, int64_t end)
{
    const int64_t ahead = 2 * ROW_BLOCK * job->x.stride;
    normal_terms t[ROW_BLOCK];
    int64_t i = begin;
    if (i + ROW_BLOCK <= end) {
        for (int k = 0; k < ROW_BLOCK; k++)
            forward_step(e, stream, job, t + k, 0, 1, i + k);
        for (i += ROW_BLOCK; i + ROW_BLOCK <= end; i += ROW_BLOCK)
            forward_step(e, stream, job, t, ROW_BLOCK, ROW_BLOCK, i);
        normalise_rows(e, stream, job, t, ROW_BLOCK, ahead);
    }
    for (; i < end; i++) {
        forward_step(e, stream, job, t, 0, 1, i);
        normalise_rows(e, stream, job, t, 1, ahead);
    }
}

SIMD_INLINE void forward_rows(el e, int stream, const forward_job *job, int64_t begin, int64_t end,
                              int worker)
{
    (void)worker;
    if (job->near) {
        near_rows(e, stream, job, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        moments m = {0, 0, 0};
        moments_add(e, &m, row_at(&job->x, i), job->n);
        const normal_terms t = terms_of(job, i, m);
        normalise_rows(e, stream, job, &t, 1, job->x.stride);
    }
}

ROWS_CHUNK(forward_chunk, forward_job, forward_rows);

static tg_status forward(tg_ctx *ctx, const tg_layer_norm_forward_args *a)
{
    const tg_rows x = tg_rows_of(a->x);
    const el e = (el)tg_el(x.type);
    forward_job job = {.x = operand_of(a->x),
                       .y = operand_of(a->y),
                       .mean = tg_data(a->mean),
                       .rstd = tg_data(a->rstd),
                       .n = x.n,
                       .eps = a->eps,
                       .near = x.n * el_size(e) <= NEAR,
                       .stream = rows_stream_aligned(a->y, a->x),
                       .type = e};
    TG_TRY(columns_load(ctx, e, a->weight, x.n, 1, &job.weight));
    TG_TRY(columns_load(ctx, e, a->bias, x.n, 0, &job.bias));
    tg_parallel_for(ctx, x.rows, rows_grain(x.rows, x.n, ROW_BLOCK), forward_chunk, &job);
    return TG_OK;
}

TG_CPU_IMPLS(layer_norm) = {TG_CPU_IMPL(layer_norm_forward, forward), TG_IMPLS_END};
