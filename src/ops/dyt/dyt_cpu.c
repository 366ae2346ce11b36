/* dyt on the CPU: one pass each way, a few rows at a time, so that what belongs to the columns
 * (gamma, beta, sums of gradients) is read and written once for all of them.
 */
#include "rows/columns.h"
#include "rows/next.h"
#include "rows/rows.h"

/* ROW_BLOCK: rows that are taken at a time. WORTH: elements of a chunk of rows with sums of its
 * own. MOST: such chunks. */
enum { ROW_BLOCK = 4, WORTH = 2 * ROWS_WORTH, MOST = 64 };

/* The sums of a column. */
enum { DGAMMA, DBETA, SUMS };

typedef struct job {
    operand dy, x, out; /* dy: backward only; out: y or dx */
    const float *gamma, *beta;
    float alpha;
    int64_t n;
    int stream;
    el type;
    column_sums sums; /* backward only, and: */
    double *dalpha;   /* of each chunk */
} job;

/* ---- forward ---- */

/* In f32 the memory takes longer than the arithmetic, and asking for the beginning of the next rows
 * costs time. */
SIMD_INLINE void ask(el e, const char *p, int64_t j, int64_t n, int64_t below)
{
    if (e == EL_F32)
        v_ahead2(e, p, j);
    else
        next_ahead2(e, p, j, n, below);
}

SIMD_INLINE void forward_block(el e, int stream, const job *job, int64_t i, int count)
{
    const vf alpha = v_set(job->alpha);
    const char *x = row_at(&job->x, i);
    char *y = row_at(&job->out, i);
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 gamma = v_get2(job->gamma + j), beta = v_get2(job->beta + j);
        for (int k = 0; k < count; k++) {
            ask(e, x + k * job->x.stride, j, job->n, count * job->x.stride);
            const vf2 a = v_load2(e, e, x + k * job->x.stride, j);
            const vf2 t = {v_tanh_rational(a.a * alpha), v_tanh_rational(a.b * alpha)};
            v_write2(e, stream, y + k * job->out.stride, j,
                     (vf2){t.a * gamma.a + beta.a, t.b * gamma.b + beta.b});
        }
    }
    for (; j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf gamma = v_load_n(EL_F32, job->gamma, j, left, 0);
        const vf beta = v_load_n(EL_F32, job->beta, j, left, 0);
        for (int k = 0; k < count; k++) {
            const vf t = v_tanh_rational(v_load_n(e, x + k * job->x.stride, j, left, 0) * alpha);
            v_store_n(e, y + k * job->out.stride, j, left, t * gamma + beta);
        }
    }
}

SIMD_INLINE void forward_rows(el e, int stream, const job *job, int64_t begin, int64_t end,
                              int worker)
{
    (void)worker;
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        forward_block(e, stream, job, i, ROW_BLOCK);
    for (; i < end; i++)
        forward_block(e, stream, job, i, 1);
}

ROWS_CHUNK(forward_chunk, job, forward_rows);

/* ---- backward ---- */

/* Sums that one place of a row adds to. */
typedef struct sums {
    vf gamma, beta, alpha;
} sums;

/* dx, and what the element adds to the parameters' gradients */
SIMD_INLINE vf gradient(vf dy, vf x, vf gamma, vf alpha, sums *s)
{
    const v_tanhs t = v_tanh_slope(x * alpha);
    const vf h = dy * gamma * t.slope;
    s->gamma += dy * t.tanh;
    s->beta += dy;
    s->alpha += x * h;
    return alpha * h;
}

/* Returns the rows' share of dalpha. */
SIMD_INLINE float backward_block(el e, int stream, const job *job, int64_t i, int count,
                                 float *dgamma, float *dbeta)
{
    const vf alpha = v_set(job->alpha);
    const char *x = row_at(&job->x, i), *dy = row_at(&job->dy, i);
    char *dx = row_at(&job->out, i);
    sums a = {{0}, {0}, {0}}, b = a;
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 gamma = v_get2(job->gamma + j), g = v_get2(dgamma + j), s = v_get2(dbeta + j);
        a = (sums){g.a, s.a, a.alpha};
        b = (sums){g.b, s.b, b.alpha};
        for (int k = 0; k < count; k++) {
            ask(e, x + k * job->x.stride, j, job->n, count * job->x.stride);
            ask(e, dy + k * job->dy.stride, j, job->n, count * job->dy.stride);
            const vf2 vx = v_load2(e, e, x + k * job->x.stride, j);
            const vf2 vdy = v_load2(e, e, dy + k * job->dy.stride, j);
            v_write2(e, stream, dx + k * job->out.stride, j,
                     (vf2){gradient(vdy.a, vx.a, gamma.a, alpha, &a),
                           gradient(vdy.b, vx.b, gamma.b, alpha, &b)});
        }
        v_put2(dgamma + j, (vf2){a.gamma, b.gamma});
        v_put2(dbeta + j, (vf2){a.beta, b.beta});
    }
    for (; j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf gamma = v_load_n(EL_F32, job->gamma, j, left, 0);
        a.gamma = v_load_n(EL_F32, dgamma, j, left, 0);
        a.beta = v_load_n(EL_F32, dbeta, j, left, 0);
        for (int k = 0; k < count; k++) {
            const vf vx = v_load_n(e, x + k * job->x.stride, j, left, 0);
            const vf vdy = v_load_n(e, dy + k * job->dy.stride, j, left, 0);
            v_store_n(e, dx + k * job->out.stride, j, left, gradient(vdy, vx, gamma, alpha, &a));
        }
        v_store_n(EL_F32, dgamma, j, left, a.gamma);
        v_store_n(EL_F32, dbeta, j, left, a.beta);
    }
    return v_sum(a.alpha + b.alpha);
}

SIMD_INLINE void backward_rows(el e, int stream, const job *job, int64_t begin, int64_t end,
                               int worker)
{
    (void)worker;
    float *dgamma = columns_begin(&job->sums, begin), *dbeta = dgamma + job->n;
    double dalpha = 0;
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        dalpha += backward_block(e, stream, job, i, ROW_BLOCK, dgamma, dbeta);
    for (; i < end; i++)
        dalpha += backward_block(e, stream, job, i, 1, dgamma, dbeta);
    job->dalpha[begin / job->sums.grain] = dalpha;
}

ROWS_CHUNK(backward_chunk, job, backward_rows);

static void reduce_alpha(const job *job, const tg_tensor *out, int64_t accumulate)
{
    if (!out)
        return;
    double sum = accumulate ? el_get(el_of(out), tg_data(out), 0) : 0;
    for (int64_t k = 0; k < job->sums.chunks; k++)
        sum += job->dalpha[k];
    el_set(el_of(out), tg_data(out), 0, (float)sum);
}

/* ---- calls ---- */

/* What both directions have; `over` is what the output may stand in place of. */
static job job_of(const tg_tensor *x, const tg_tensor *alpha, const tg_tensor *out,
                  const tg_tensor *over)
{
    return (job){.x = operand_of(x),
                 .out = operand_of(out),
                 .alpha = el_get(el_of(alpha), tg_data(alpha), 0),
                 .n = tg_rows_of(x).n,
                 .stream = rows_stream_aligned(out, over),
                 .type = el_of(x)};
}

static tg_status forward(tg_ctx *ctx, const tg_dyt_forward_args *args)
{
    job job = job_of(args->x, args->alpha, args->y, args->x);
    TG_TRY(columns_load(ctx, job.type, args->gamma, job.n, 0, &job.gamma));
    TG_TRY(columns_load(ctx, job.type, args->beta, job.n, 0, &job.beta));
    const int64_t rows = tg_rows_of(args->x).rows;
    tg_parallel_for(ctx, rows, rows_grain(rows, job.n, ROW_BLOCK), forward_chunk, &job);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_dyt_backward_args *args)
{
    const int64_t rows = tg_rows_of(args->dy).rows;
    job job = job_of(args->x, args->alpha, args->dx, args->dy);
    job.dy = operand_of(args->dy);
    TG_TRY(columns_load(ctx, job.type, args->gamma, job.n, 0, &job.gamma));
    const int64_t worth = rows_worth(job.n, WORTH);
    int64_t grain = worth > ROW_BLOCK ? worth / ROW_BLOCK * ROW_BLOCK : ROW_BLOCK;
    while (grain * MOST < rows)
        grain *= 2;
    TG_TRY(columns_sums(ctx, rows, job.n, SUMS, grain, &job.sums));
    job.dalpha = tg_workspace(ctx, MOST * sizeof *job.dalpha);
    if (!job.dalpha)
        return TG_ENOMEM;
    tg_parallel_for(ctx, rows, grain, backward_chunk, &job);
    columns_reduce(ctx, &job.sums, DGAMMA, job.type, args->dgamma, args->accumulate);
    columns_reduce(ctx, &job.sums, DBETA, job.type, args->dbeta, args->accumulate);
    reduce_alpha(&job, args->dalpha, args->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(dyt) = {
    TG_CPU_IMPL(dyt_forward, forward),
    TG_CPU_IMPL(dyt_backward, backward),
    TG_IMPLS_END,
};
