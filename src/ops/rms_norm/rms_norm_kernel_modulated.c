/* rms_norm with a scale and a shift on the CPU: backward. With factor = weight (1 + scale) in place
 * of the weight a group's rows are ordinary rows. What they leave is
 *   products = sum of dy x rstd,   dshift = sum of dy,
 * of which dscale is weight * products, and dweight the sum of (1 + scale) * products over all
 * groups. Groups are shared out whole; where there are few, in pieces of equal height.
 */
#include "rms_norm_cpu.h"

enum { PRODUCTS, SHIFT, FACTOR, WORK /* rows of f32 that a worker has */ };

typedef struct group_job {
    backward_rows_of rows;
    operand scale, dscale, dshift; /* the last two may be missing */
    const float *weight;
    column_sums dweight; /* over groups */
    float *work;         /* [workers, WORK, n] */
    float *partial;      /* [groups, pieces, 2, n]: products and sums of dy of a piece of a group */
    int64_t height, pieces, piece; /* rows of a group; pieces of one, rows of a piece */
    int wanted;                    /* 1: any sums */
    int stream;
    el type, scale_type, dscale_type, dshift_type;
} group_job;

/* Rows [begin, end), which are of one group. sums: products and sums of dy; NULL: not wanted. */
SIMD_INLINE void group_rows(el e, int stream, const group_job *job, int64_t group, int64_t begin,
                            int64_t end, float *sums, int worker)
{
    const int64_t n = job->rows.n;
    float *factor = job->work + (worker * WORK + FACTOR) * n;
    const backward_columns to = {factor, sums, sums ? sums + n : NULL};
    modulated_weight(e, job->scale_type, row_at(&job->scale, group), job->weight, factor, n);
    if (sums)
        memset(sums, 0, (size_t)(2 * n) * sizeof *sums);
    int64_t i = begin;
    for (; i + ROW_BLOCK <= end; i += ROW_BLOCK)
        backward_block(e, stream, 1, &job->rows, i, ROW_BLOCK, &to);
    for (; i < end; i++)
        backward_block(e, stream, 0, &job->rows, i, 1, &to);
}

SIMD_INLINE void piece_rows(el e, int stream, const group_job *job, int64_t begin, int64_t end,
                            int worker)
{
    for (int64_t k = begin; k < end; k++) {
        const int64_t group = k / job->pieces, first = k % job->pieces * job->piece;
        const int64_t left = job->height - first, row = group * job->height + first;
        float *sums = job->partial ? job->partial + k * 2 * job->rows.n : NULL;
        group_rows(e, stream, job, group, row, row + (left < job->piece ? left : job->piece), sums,
                   worker);
    }
}

ROWS_CHUNK(piece_chunk, group_job, piece_rows);

SIMD_INLINE void write_natural(el e, el type, void *to, int64_t j, vf2 x)
{
    const vf2 natural = v_natural2(e, x);
    v_store(type, to, j, natural.a);
    v_store(type, to, j + VL, natural.b);
}

/* dscale and dshift of a group, and its part of dweight, which is added to. */
SIMD_INLINE void finish_group(el e, const group_job *job, int64_t group, const float *sums,
                              float *dweight)
{
    const int64_t n = job->rows.n;
    const vf one = v_set(1);
    const float *dy = sums + n, *weight = job->weight;
    char *dscale = job->dscale.data ? row_at(&job->dscale, group) : NULL;
    char *dshift = job->dshift.data ? row_at(&job->dshift, group) : NULL;
    const char *scale = row_at(&job->scale, group);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 p = v_get2(sums + j), w = weight_pair(weight, j);
        if (dscale)
            write_natural(e, job->dscale_type, dscale, j, (vf2){p.a * w.a, p.b * w.b});
        if (dshift)
            write_natural(e, job->dshift_type, dshift, j, v_get2(dy + j));
        if (dweight) {
            const vf2 s = v_load2(e, job->scale_type, scale, j), sum = v_get2(dweight + j);
            v_put2(dweight + j, (vf2){sum.a + (one + s.a) * p.a, sum.b + (one + s.b) * p.b});
        }
    }
    for (; j < n; j += VL) {
        const int64_t left = v_tail(n, j);
        const vf p = v_load_n(EL_F32, sums, j, left, 0);
        if (dscale)
            v_store_n(job->dscale_type, dscale, j, left, p * weight_tail(weight, j, n));
        if (dshift)
            v_store_n(job->dshift_type, dshift, j, left, v_load_n(EL_F32, dy, j, left, 0));
        if (dweight)
            v_store_n(EL_F32, dweight, j, left,
                      v_load_n(EL_F32, dweight, j, left, 0) +
                          (one + v_load_n(job->scale_type, scale, j, left, 0)) * p);
    }
}

/* Groups [begin, end): of whole ones the rows, of others the pieces, which are added up in
 * order. */
SIMD_INLINE void groups(el e, int stream, const group_job *job, int64_t begin, int64_t end,
                        int worker)
{
    const int64_t size = 2 * job->rows.n;
    float *dweight = columns_begin(&job->dweight, begin);
    for (int64_t g = begin; g < end; g++) {
        float *sums = job->wanted ? job->work + worker * WORK * job->rows.n : NULL;
        if (job->pieces == 1) {
            group_rows(e, stream, job, g, g * job->height, (g + 1) * job->height, sums, worker);
        } else if (sums) {
            const float *part = job->partial + g * job->pieces * size;
            memcpy(sums, part, (size_t)size * sizeof *sums);
            for (int64_t k = 1; k < job->pieces; k++)
                for (int64_t j = 0; j < size; j++)
                    sums[j] += part[k * size + j];
        }
        if (sums)
            finish_group(e, job, g, sums, dweight);
    }
}

ROWS_CHUNK(group_chunk, group_job, groups);

static group_job job_of(const tg_rms_norm_backward_args *a)
{
    const tg_rows x = tg_rows_of(a->x);
    group_job job = {.rows = {.dy = operand_of(a->dy),
                              .x = operand_of(a->x),
                              .dx = operand_of(a->dx),
                              .rstd = tg_data(a->rstd),
                              .n = x.n},
                     .scale = operand_of(a->scale),
                     .dscale = operand_of(a->dscale),
                     .dshift = operand_of(a->dshift),
                     .wanted = a->dweight || a->dscale || a->dshift,
                     .stream = rows_stream_aligned(a->dx, a->dy),
                     .type = el_of(a->x),
                     .scale_type = el_of(a->scale),
                     .dscale_type = a->dscale ? el_of(a->dscale) : EL_F32,
                     .dshift_type = a->dshift ? el_of(a->dshift) : EL_F32};
    const int64_t ahead = v_rows_ahead(x.n * el_size(job.type), ROW_BLOCK);
    job.rows.dy_ahead = ahead * job.rows.dy.stride;
    job.rows.x_ahead = ahead * job.rows.x.stride;
    return job;
}

/* Groups are cut where they are fewer than 64, into pieces that are worth a thread. */
static void cut_groups(group_job *job, int64_t groups, int64_t rows)
{
    enum { PIECES = 64 };
    const int64_t worth = rows_worth(job->rows.n, WORTH);
    job->height = rows / groups;
    job->pieces = (PIECES + groups - 1) / groups;
    job->piece = (job->height + job->pieces - 1) / job->pieces;
    job->piece = job->piece < worth ? worth : job->piece;
    job->pieces = job->height > 0 ? (job->height + job->piece - 1) / job->piece : 1;
}

tg_status rms_norm_modulated_backward(tg_ctx *ctx, const tg_rms_norm_backward_args *a)
{
    const tg_rows x = tg_rows_of(a->x);
    const int64_t groups = tg_rows_of(a->scale).rows, n = x.n;
    group_job job = job_of(a);
    int64_t grain = 1;
    if (groups > 0)
        cut_groups(&job, groups, x.rows);
    const int64_t work = tg_ctx_threads(ctx) * WORK * n;
    job.work = tg_workspace(ctx, (size_t)work * sizeof *job.work);
    if (!job.work)
        return TG_ENOMEM;
    TG_TRY(columns_load_plus(ctx, job.type, a->weight, (float)a->offset, &job.weight));
    if (job.pieces == 1)
        grain = columns_grain(groups, rows_worth(job.height * n, WORTH), 1);
    if (a->dweight)
        TG_TRY(columns_sums(ctx, groups, n, 1, grain, &job.dweight));
    if (job.pieces > 1 && job.wanted) {
        job.partial = tg_workspace(ctx, (size_t)(groups * job.pieces * 2 * n) * sizeof(float));
        if (!job.partial)
            return TG_ENOMEM;
    }
    if (job.pieces > 1)
        tg_parallel_for(ctx, groups * job.pieces, 1, piece_chunk, &job);
    tg_parallel_for(ctx, groups, grain, group_chunk, &job);
    columns_reduce(ctx, &job.dweight, 0, job.type, a->dweight, a->accumulate);
    return TG_OK;
}
