/* layer_norm on the CPU: backward. */
#include "rows/columns.h"
#include "rows/next.h"
#include "rows/rows.h"

/* Rows that are taken at a time; of more, what differs from row to row no longer
 * fits the registers. */
enum { ROW_BLOCK = 2 };

/* The sums of a column. */
enum { DWEIGHT, DBIAS, SUMS };

typedef struct backward_job {
    operand dy, x, dx;
    const float *weight, *mean, *rstd;
    column_sums sums;
    int64_t n, dy_ahead, x_ahead; /* ahead: bytes to the rows to ask for */
    int stream;
    el type;
} backward_job;

/* What the second pass over a row needs: dx = m scale - (normal c1 + c2). */
typedef struct gradient_terms {
    const char *dy, *x;
    char *dx;
    float mean, r, scale, c1, c2;
} gradient_terms;

/* Sums over a row, of m = dy weight and of m (x - mean). */
typedef struct row_sums {
    vf2 m, product;
} row_sums;

SIMD_INLINE void add_pair(el e, const backward_job *job, const gradient_terms *t, int64_t j,
                          row_sums *sum)
{
    const vf2 g = v_load2(e, e, t->dy, j), x = v_load2(e, e, t->x, j), w = v_get2(job->weight + j);
    const vf2 m = {g.a * w.a, g.b * w.b};
    sum->m = (vf2){sum->m.a + m.a, sum->m.b + m.b};
    sum->product.a += m.a * (x.a - v_set(t->mean));
    sum->product.b += m.b * (x.b - v_set(t->mean));
}

/* A row of one element has no gradient; rounding would leave one. */
SIMD_INLINE gradient_terms first_pass(el e, const backward_job *job, int64_t i)
{
    gradient_terms t = {row_at(&job->dy, i),
                        row_at(&job->x, i),
                        row_at(&job->dx, i),
                        job->mean[i],
                        job->rstd[i],
                        job->rstd[i],
                        0,
                        0};
    row_sums sum[2] = {{{{0}, {0}}, {{0}, {0}}}, {{{0}, {0}}, {{0}, {0}}}};
    int64_t j = 0;
    for (; j + 2 * V_PAIR <= job->n; j += 2 * V_PAIR)
        for (int k = 0; k < 2; k++)
            add_pair(e, job, &t, j + k * V_PAIR, &sum[k]);
    for (; j + V_PAIR <= job->n; j += V_PAIR)
        add_pair(e, job, &t, j, &sum[0]);
    for (; j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf m = v_load_n(e, t.dy, j, left, 0) * v_load_n(EL_F32, job->weight, j, left, 0);
        sum[0].m.a += m;
        sum[0].product.a += m * (v_load_n(e, t.x, j, left, t.mean) - v_set(t.mean));
    }
    const float share = t.r / (float)job->n;
    t.c1 = v_sum((sum[0].product.a + sum[0].product.b) + (sum[1].product.a + sum[1].product.b)) *
           t.r * share;
    t.c2 = v_sum((sum[0].m.a + sum[0].m.b) + (sum[1].m.a + sum[1].m.b)) * share;
    if (job->n == 1)
        t.scale = t.c1 = t.c2 = 0;
    return t;
}

/* One vector of a row: dx, returned, and what it adds to dweight and dbias. */
SIMD_INLINE vf gradient(const gradient_terms *t, vf dy, vf x, vf weight, vf *dweight, vf *dbias)
{
    const vf normal = (x - v_set(t->mean)) * v_set(t->r);
    *dweight += dy * normal;
    *dbias += dy;
    return dy * weight * v_set(t->scale) - (normal * v_set(t->c1) + v_set(t->c2));
}

SIMD_INLINE void gradient_pairs(el e, int stream, int next, const backward_job *job,
                                const gradient_terms *t, int count, float *dweight, float *dbias)
{
    for (int64_t j = 0; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 w = v_get2(job->weight + j);
        vf2 sum = {{0}, {0}}, product = {{0}, {0}};
        for (int k = 0; k < count; k++) {
            const vf2 x = v_load2(e, e, t[k].x, j), dy = v_load2(e, e, t[k].dy, j);
            v_write2(e, stream, t[k].dx, j,
                     (vf2){gradient(&t[k], dy.a, x.a, w.a, &product.a, &sum.a),
                           gradient(&t[k], dy.b, x.b, w.b, &product.b, &sum.b)});
            if (next) {
                next_pair(e, t[k].x + job->x_ahead, j);
                next_pair(e, t[k].dy + job->dy_ahead, j);
            }
        }
        if (dweight) {
            const vf2 w0 = v_get2(dweight + j), b0 = v_get2(dbias + j);
            v_put2(dweight + j, (vf2){w0.a + product.a, w0.b + product.b});
            v_put2(dbias + j, (vf2){b0.a + sum.a, b0.b + sum.b});
        }
    }
}

SIMD_INLINE void gradient_tail(el e, const backward_job *job, const gradient_terms *t, int count,
                               float *dweight, float *dbias)
{
    for (int64_t j = v_whole_pairs(job->n); j < job->n; j += VL) {
        const int64_t left = v_tail(job->n, j);
        const vf w = v_load_n(EL_F32, job->weight, j, left, 0);
        vf sum = {0}, product = {0};
        for (int k = 0; k < count; k++) {
            const vf x = v_load_n(e, t[k].x, j, left, 0), dy = v_load_n(e, t[k].dy, j, left, 0);
            v_store_n(e, t[k].dx, j, left, gradient(&t[k], dy, x, w, &product, &sum));
        }
        if (dweight) {
            v_store_n(EL_F32, dweight, j, left, v_load_n(EL_F32, dweight, j, left, 0) + product);
            v_store_n(EL_F32, dbias, j, left, v_load_n(EL_F32, dbias, j, left, 0) + sum);
        }
    }
}

/* A few rows at a time, so that the sums of dweight and dbias are read and written
 * once for all of them. */
SIMD_INLINE void backward_block(el e, int stream, int next, const backward_job *job, int64_t i,
                                int count, float *dweight, float *dbias)
{
    gradient_terms t[ROW_BLOCK];
    for (int k = 0; k < count; k++)
        t[k] = first_pass(e, job, i + k);
    gradient_pairs(e, stream, next, job, t, count, dweight, dbias);
    gradient_tail(e, job, t, count, dweight, dbias);
}

SIMD_INLINE void backward_rows(el e, int stream, const backward_job *job, int64_t begin,
                               int64_t end, int worker)
{
    (void)worker;
    float *dweight = columns_begin(&job->sums, begin), *dbias = dweight ? dweight + job->n : NULL;
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        backward_block(e, stream, 1, job, i, ROW_BLOCK, dweight, dbias);
    for (; i < end; i++)
        backward_block(e, stream, 0, job, i, 1, dweight, dbias);
}

ROWS_CHUNK(backward_chunk, backward_job, backward_rows);

static tg_status backward(tg_ctx *ctx, const tg_layer_norm_backward_args *a)
{
    const tg_rows x = tg_rows_of(a->x);
    const el e = (el)tg_el(x.type);
    backward_job job = {.dy = operand_of(a->dy),
                        .x = operand_of(a->x),
                        .dx = operand_of(a->dx),
                        .mean = tg_data(a->mean),
                        .rstd = tg_data(a->rstd),
                        .n = x.n,
                        .stream = rows_stream_aligned(a->dx, a->dy),
                        .type = e};
    const int64_t ahead = v_rows_ahead(x.n * el_size(e), ROW_BLOCK);
    int64_t grain = rows_grain(x.rows, x.n, ROW_BLOCK);
    job.dy_ahead = ahead * job.dy.stride;
    job.x_ahead = ahead * job.x.stride;
    TG_TRY(columns_load(ctx, e, a->weight, x.n, 1, &job.weight));
    if (a->dweight || a->dbias) {
        grain = columns_grain(x.rows, rows_worth(x.n, ROWS_WORTH), ROW_BLOCK);
        TG_TRY(columns_sums(ctx, x.rows, x.n, SUMS, grain, &job.sums));
    }
    tg_parallel_for(ctx, x.rows, grain, backward_chunk, &job);
    columns_reduce(ctx, &job.sums, DWEIGHT, e, a->dweight, a->accumulate);
    columns_reduce(ctx, &job.sums, DBIAS, e, a->dbias, a->accumulate);
    return TG_OK;
}

TG_CPU_IMPLS(layer_norm_backward) = {TG_CPU_IMPL(layer_norm_backward, backward), TG_IMPLS_END};
