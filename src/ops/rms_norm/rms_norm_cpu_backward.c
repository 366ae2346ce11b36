/* rms_norm and fused_add_rms_norm on the CPU: backward, with a gate too. */
#include "rms_norm_cpu.h"

typedef struct backward_job {
    backward_rows_of rows;
    operand gate, dgate; /* may be missing */
    const float *weight; /* offset + weight; NULL: no weight */
    column_sums dweight;
    float *kept;        /* with a gate: ROW_BLOCK rows of a worker, dy silu(gate) */
    int64_t gate_ahead; /* bytes to the rows to ask for */
    int stream;
    el type;
} backward_job;

SIMD_INLINE void plain_rows(el e, int stream, const backward_job *job, int64_t begin, int64_t end)
{
    const backward_columns to = {job->weight, columns_begin(&job->dweight, begin), NULL};
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        backward_block(e, stream, 1, &job->rows, i, ROW_BLOCK, &to);
    for (; i < end; i++)
        backward_block(e, stream, 0, &job->rows, i, 1, &to);
}

/* ---- with a gate: its rows are taken first, and leave dy silu(gate) for all else ---- */

/* dy silu(gate), and dgate, of one vector. */
typedef struct gated {
    vf dy, dgate;
} gated;

SIMD_INLINE gated gate_gradient(vf dy, vf z, vf normal, vf weight)
{
    const v_logistic s = v_logistic_of(z);
    const vf slope = s.value * (z * s.rest + v_set(1.0f));
    return (gated){dy * (z * s.value), dy * (normal * weight) * slope};
}

/* Returns the sum of dy silu(gate) * weight * x. */
SIMD_INLINE float gate_row(el e, int stream, const backward_job *job, int64_t i, float *kept)
{
    const backward_rows_of *rows = &job->rows;
    const char *px = row_at(&rows->x, i), *pdy = row_at(&rows->dy, i), *pz = row_at(&job->gate, i);
    char *dgate = job->dgate.data ? row_at(&job->dgate, i) : NULL;
    const vf r = v_set(rows->rstd[i]);
    vf2 sum = {{0}, {0}};
    for (int64_t j = 0; j < v_whole_pairs(rows->n); j += V_PAIR) {
        const vf2 x = v_load2(e, e, px, j), dy = v_load2(e, e, pdy, j), z = v_load2(e, e, pz, j),
                  w = weight_pair(job->weight, j);
        const gated a = gate_gradient(dy.a, z.a, x.a * r, w.a);
        const gated b = gate_gradient(dy.b, z.b, x.b * r, w.b);
        v_put2(kept + j, (vf2){a.dy, b.dy});
        if (dgate)
            v_write2(e, stream, dgate, j, (vf2){a.dgate, b.dgate});
        sum = (vf2){sum.a + a.dy * w.a * x.a, sum.b + b.dy * w.b * x.b};
        next_pair(e, pz + job->gate_ahead, j);
    }
    for (int64_t j = v_whole_pairs(rows->n); j < rows->n; j += VL) {
        const int64_t left = v_tail(rows->n, j);
        const vf x = v_load_n(e, px, j, left, 0), w = weight_tail(job->weight, j, rows->n);
        const gated a =
            gate_gradient(v_load_n(e, pdy, j, left, 0), v_load_n(e, pz, j, left, 0), x * r, w);
        v_store_n(EL_F32, kept, j, left, a.dy);
        if (dgate)
            v_store_n(e, dgate, j, left, a.dgate);
        sum.a += a.dy * w * x;
    }
    return v_sum(sum.a + sum.b);
}

SIMD_INLINE void gated_block(el e, int stream, int next, const backward_job *job, int64_t i,
                             int count, float *kept, const backward_columns *to)
{
    const int64_t n = job->rows.n;
    float r[ROW_BLOCK], c[ROW_BLOCK];
    for (int k = 0; k < count; k++) {
        r[k] = job->rows.rstd[i + k];
        c[k] = gate_row(e, stream, job, i + k, kept + k * n);
        c[k] *= r[k] * r[k] * r[k] / (float)n;
    }
    gradient_pairs(e, stream, next, &job->rows, i, count, r, c, kept, to);
    gradient_tail(e, &job->rows, i, count, r, c, kept, to);
}

SIMD_INLINE void gated_rows(el e, int stream, const backward_job *job, int64_t begin, int64_t end,
                            int worker)
{
    const backward_columns to = {job->weight, columns_begin(&job->dweight, begin), NULL};
    float *kept = job->kept + worker * ROW_BLOCK * job->rows.n;
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        gated_block(e, stream, 1, job, i, ROW_BLOCK, kept, &to);
    for (; i < end; i++)
        gated_block(e, stream, 0, job, i, 1, kept, &to);
}

/* ---- both ---- */

SIMD_INLINE void backward_rows(el e, int stream, const backward_job *job, int64_t begin,
                               int64_t end, int worker)
{
    if (job->gate.data)
        gated_rows(e, stream, job, begin, end, worker);
    else
        plain_rows(e, stream, job, begin, end);
}

ROWS_CHUNK(backward_chunk, backward_job, backward_rows);

/* What the two operators have in common: fused_add_rms_norm has ds, and calls x s. */
typedef struct gradients {
    const tg_tensor *dy, *ds, *x, *weight, *rstd, *dx, *dweight, *gate, *dgate;
    double offset;
    int llama;
    int64_t accumulate;
} gradients;

static backward_job job_of(const gradients *a)
{
    const tg_rows x = tg_rows_of(a->x);
    backward_job job = {.rows = {.dy = operand_of(a->dy),
                                 .ds = operand_of(a->ds),
                                 .x = operand_of(a->x),
                                 .dx = operand_of(a->dx),
                                 .rstd = tg_data(a->rstd),
                                 .n = x.n,
                                 .llama = a->llama},
                        .gate = operand_of(a->gate),
                        .dgate = operand_of(a->dgate),
                        .stream = rows_stream_aligned(a->dx, a->dy) &&
                                  (!a->dgate || rows_stream_aligned(a->dgate, a->gate)),
                        .type = el_of(a->x)};
    const int64_t ahead = v_rows_ahead(x.n * el_size(job.type), ROW_BLOCK);
    job.rows.dy_ahead = ahead * job.rows.dy.stride;
    job.rows.ds_ahead = ahead * job.rows.ds.stride;
    job.rows.x_ahead = ahead * job.rows.x.stride;
    job.gate_ahead = ahead * job.gate.stride;
    return job;
}

static tg_status run(tg_ctx *ctx, const gradients *a)
{
    const tg_rows x = tg_rows_of(a->x);
    backward_job job = job_of(a);
    int64_t grain = rows_grain(x.rows, x.n, ROW_BLOCK);
    TG_TRY(columns_load_plus(ctx, job.type, a->weight, (float)a->offset, &job.weight));
    if (a->gate) {
        const int64_t kept = tg_ctx_threads(ctx) * ROW_BLOCK * x.n;
        job.kept = tg_workspace(ctx, (size_t)kept * sizeof *job.kept);
        if (!job.kept)
            return TG_ENOMEM;
    }
    if (a->dweight) {
        grain = columns_grain(x.rows, rows_worth(x.n, WORTH), ROW_BLOCK);
        TG_TRY(columns_sums(ctx, x.rows, x.n, 1, grain, &job.dweight));
    }
    tg_parallel_for(ctx, x.rows, grain, backward_chunk, &job);
    columns_reduce(ctx, &job.dweight, 0, job.type, a->dweight, a->accumulate);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    if (a->scale)
        return rms_norm_modulated_backward(ctx, a);
    return run(ctx, &(gradients){.dy = a->dy,
                                 .x = a->x,
                                 .weight = a->weight,
                                 .rstd = a->rstd,
                                 .dx = a->dx,
                                 .dweight = a->dweight,
                                 .gate = a->gate,
                                 .dgate = a->dgate,
                                 .offset = a->offset,
                                 .llama = a->casting_mode == 0 && !a->gate,
                                 .accumulate = a->accumulate});
}

static tg_status fused_backward(tg_ctx *ctx, const tg_fused_add_rms_norm_backward_args *a)
{
    return run(ctx, &(gradients){.dy = a->dy,
                                 .ds = a->ds,
                                 .x = a->s,
                                 .weight = a->weight,
                                 .rstd = a->rstd,
                                 .dx = a->dx,
                                 .dweight = a->dweight,
                                 .offset = a->offset,
                                 .llama = a->casting_mode == 0,
                                 .accumulate = a->accumulate});
}

TG_CPU_IMPLS(rms_norm_backward) = {TG_CPU_IMPL(rms_norm_backward, backward),
                                   TG_CPU_IMPL(fused_add_rms_norm_backward, fused_backward),
                                   TG_IMPLS_END};
