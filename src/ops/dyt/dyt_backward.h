/* Backward of dyt on the CPU, and what it shares with forward.
 *
 * Whole pairs of vectors are worked on in the lane order of the type (v_load2); f32 arrays of our own
 * are kept in that order, but for the last columns that fill no pair.
 */
#ifndef TG_DYT_BACKWARD_H
#define TG_DYT_BACKWARD_H

#include <string.h>

#include "core/services.h"
#include "simd.h"

/* Elements of work below which another thread does not pay. */
enum { MIN_CHUNK = 32768, ROW_BLOCK = 4 };

typedef struct job {
    const char *dy, *x; /* dy: backward only */
    char *out;          /* y or dx */
    const float *gamma, *beta;
    float alpha;
    int64_t n, dy_stride, x_stride, out_stride; /* strides in bytes */
    int stream;
    el type;
    /* backward: sums over each chunk of rows, [chunks,2,n] for dgamma and dbeta */
    int64_t grain, chunks;
    float *sums;
    double *alpha_sums;
} job;

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
    const char *x = job->x + i * job->x_stride, *dy = job->dy + i * job->dy_stride;
    char *dx = job->out + i * job->out_stride;
    sums a = {{0}, {0}, {0}}, b = a;
    int64_t j = 0;
    for (; j < v_whole_pairs(job->n); j += V_PAIR) {
        const vf2 gamma = v_get2(job->gamma + j), g = v_get2(dgamma + j), s = v_get2(dbeta + j);
        a = (sums){g.a, s.a, a.alpha};
        b = (sums){g.b, s.b, b.alpha};
        for (int k = 0; k < count; k++) {
            v_ahead2(e, x + k * job->x_stride, j);
            v_ahead2(e, dy + k * job->dy_stride, j);
            const vf2 vx = v_load2(e, e, x + k * job->x_stride, j);
            const vf2 vdy = v_load2(e, e, dy + k * job->dy_stride, j);
            v_write2(e, stream, dx + k * job->out_stride, j,
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
            const vf vx = v_load_n(e, x + k * job->x_stride, j, left, 0);
            const vf vdy = v_load_n(e, dy + k * job->dy_stride, j, left, 0);
            v_store_n(e, dx + k * job->out_stride, j, left, gradient(vdy, vx, gamma, alpha, &a));
        }
        v_store_n(EL_F32, dgamma, j, left, a.gamma);
        v_store_n(EL_F32, dbeta, j, left, a.beta);
    }
    return v_sum(a.alpha + b.alpha);
}

SIMD_INLINE void backward_rows(el e, int stream, const job *job, int64_t begin, int64_t end)
{
    const int64_t chunk = begin / job->grain;
    float *dgamma = job->sums + chunk * 2 * job->n, *dbeta = dgamma + job->n;
    memset(dgamma, 0, (size_t)job->n * 2 * sizeof *dgamma);
    double alpha = 0;
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        alpha += backward_block(e, stream, job, i, ROW_BLOCK, dgamma, dbeta);
    for (; i < end; i++)
        alpha += backward_block(e, stream, job, i, 1, dgamma, dbeta);
    job->alpha_sums[chunk] = alpha;
    if (stream)
        v_fence();
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *job = arg;
    if (job->stream)
        EL_SPECIALIZE(job->type, backward_rows, 1, job, begin, end);
    else
        EL_SPECIALIZE(job->type, backward_rows, 0, job, begin, end);
}

/* The sums of all chunks, in their order, become a parameter's gradient. */
typedef struct reduction {
    const float *sums; /* of the first chunk; the next stands 2 n further */
    int64_t n, chunks;
    void *out;
    el order, type; /* of lanes; of the gradient */
    int accumulate;
} reduction;

/* Columns [begin, end) begin at a pair. */
SIMD_INLINE void reduce_columns(el order, const reduction *r, int64_t begin, int64_t end)
{
    int64_t j = begin;
    for (; j + V_PAIR <= end; j += V_PAIR) {
        vf2 sum = {{0}, {0}};
        for (int64_t k = 0; k < r->chunks; k++) {
            const vf2 part = v_get2(r->sums + k * 2 * r->n + j);
            sum = (vf2){sum.a + part.a, sum.b + part.b};
        }
        sum = v_natural2(order, sum);
        if (r->accumulate)
            sum =
                (vf2){sum.a + v_load(r->type, r->out, j), sum.b + v_load(r->type, r->out, j + VL)};
        v_store(r->type, r->out, j, sum.a);
        v_store(r->type, r->out, j + VL, sum.b);
    }
    for (; j < end; j += VL) {
        vf sum = {0};
        for (int64_t k = 0; k < r->chunks; k++)
            sum += v_load_n(EL_F32, r->sums + k * 2 * r->n, j, v_tail(end, j), 0);
        if (r->accumulate)
            sum += v_load_n(r->type, r->out, j, v_tail(end, j), 0);
        v_store_n(r->type, r->out, j, v_tail(end, j), sum);
    }
}

static void reduce_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const reduction *r = arg;
    EL_SPECIALIZE(r->order, reduce_columns, r, begin, end);
}

static void reduce(tg_ctx *ctx, const job *job, int which, const tg_tensor *out, int accumulate)
{
    if (!out)
        return;
    reduction r = {job->sums + which * job->n, job->n,    job->chunks, tg_data(out), job->type,
                   (el)tg_el(tg_type_of(out)), accumulate};
    tg_parallel_for(ctx, r.n, v_whole_pairs(MIN_CHUNK / (r.chunks + 1)) + V_PAIR, reduce_chunk, &r);
}

static void reduce_alpha(const job *job, const tg_tensor *out, int accumulate)
{
    if (!out)
        return;
    const el type = (el)tg_el(tg_type_of(out));
    double sum = accumulate ? el_get(type, tg_data(out), 0) : 0;
    for (int64_t k = 0; k < job->chunks; k++)
        sum += job->alpha_sums[k];
    el_set(type, tg_data(out), 0, (float)sum);
}

#endif
