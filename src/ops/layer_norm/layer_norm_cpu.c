/* layer_norm on the CPU: forward. A row is read from memory once: its moments and the pass over it
 * that writes hit the cache, and the latter asks for the next rows meanwhile.
 */
#include "moments.h"
#include "rows/columns.h"
#include "rows/next.h"
#include "rows/rows.h"

/* ROW_BLOCK: rows that are taken at a time. NEAR: bytes of a row of which a block and the next one
 * fit the second cache. */
enum { ROW_BLOCK = 4, NEAR = 32 << 10 };

typedef struct forward_job {
    operand x, y;
    const float *weight, *bias;
    float *mean, *rstd; /* NULL: not wanted */
    int64_t n;
    double eps;
    int near, stream; /* near: a block of rows and the next one fit the second cache */
    el type;
} forward_job;

/* What the pass that writes y = ((x - mean) r) weight + bias needs of a row. The mean is in two
 * parts, high - low / r: f32 alone would be off by as much as the last bit of x. */
typedef struct normal_terms {
    const char *x;
    char *y;
    float high, low, r;
} normal_terms;

SIMD_INLINE normal_terms row_moments(el e, const forward_job *job, int64_t i)
{
    const char *x = row_at(&job->x, i);
    moments m = {0, 0, 0};
    moments_add(e, &m, x, job->n);
    const double mean = m.sum / m.count;
    const float r = (float)(1 / sqrt(m.squares / m.count + job->eps)), high = (float)mean;
    if (job->mean)
        job->mean[i] = high;
    if (job->rstd)
        job->rstd[i] = r;
    return (normal_terms){x, row_at(&job->y, i), high, (float)(high - mean) * r, r};
}

SIMD_INLINE vf normalised(const normal_terms *t, vf x, vf weight, vf bias)
{
    return ((x - v_set(t->high)) * v_set(t->r) + v_set(t->low)) * weight + bias;
}

SIMD_INLINE void normalise_pairs(el e, int stream, const forward_job *job, const normal_terms *t,
                                 int count)
{
    const int64_t ahead = count * job->x.stride;
    for (int64_t j = 0; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 w = v_get2(job->weight + j), b = v_get2(job->bias + j);
        for (int k = 0; k < count; k++) {
            const vf2 x = v_load2(e, e, t[k].x, j);
            v_write2(e, stream, t[k].y, j,
                     (vf2){normalised(&t[k], x.a, w.a, b.a), normalised(&t[k], x.b, w.b, b.b)});
            next_pair(e, t[k].x + ahead, j);
        }
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

/* A few rows at a time, so that weight and bias are read once for all of them. */
SIMD_INLINE void forward_block(el e, int stream, const forward_job *job, int64_t i, int count)
{
    normal_terms t[ROW_BLOCK];
    for (int k = 0; k < count; k++)
        t[k] = row_moments(e, job, i + k);
    normalise_pairs(e, stream, job, t, count);
    normalise_tail(e, job, t, count);
}

SIMD_INLINE void forward_rows(el e, int stream, const forward_job *job, int64_t begin, int64_t end,
                              int worker)
{
    (void)worker;
    int64_t i = begin;
    for (; job->near && i + ROW_BLOCK <= end; i += ROW_BLOCK)
        forward_block(e, stream, job, i, ROW_BLOCK);
    for (; i < end; i++)
        forward_block(e, stream, job, i, 1);
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
