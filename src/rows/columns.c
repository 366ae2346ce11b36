/* src/rows/columns.c - parameters as f32, and the ordered sums of their gradients. */
#include <string.h>

#include "rows/columns.h"
#include "rows/rows.h"

/* ---- parameters ---- */

/* x + -0 is x for every x, -0 too. */
SIMD_INLINE void copy_columns(el order, el type, const void *from, float offset, float *to,
                              int64_t n)
{
    const vf add = v_set(offset);
    int64_t j = 0;
    for (; j < v_whole_pairs(n); j += V_PAIR) {
        const vf2 x = v_load2(order, type, from, j);
        v_put2(to + j, (vf2){x.a + add, x.b + add});
    }
    for (; j < n; j += VL)
        v_store_n(EL_F32, to, j, v_tail(n, j), v_load_n(type, from, j, v_tail(n, j), 0) + add);
}

static tg_status copy_of(tg_ctx *ctx, el order, const tg_tensor *t, int64_t n, float offset,
                         const float **columns)
{
    float *copy = tg_workspace(ctx, (size_t)n * sizeof *copy);
    if (!copy)
        return TG_ENOMEM;
    if (t)
        EL_SPECIALIZE(order, copy_columns, el_of(t), tg_data(t), offset, copy, n);
    *columns = copy;
    return TG_OK;
}

tg_status columns_load(tg_ctx *ctx, el order, const tg_tensor *t, int64_t n, float missing,
                       const float **columns)
{
    *columns = tg_data(t);
    if (t && order != EL_BF16 && tg_type_of(t) == TG_F32)
        return TG_OK;
    TG_TRY(copy_of(ctx, order, t, n, -0.0f, columns));
    for (int64_t j = 0; !t && j < n; j++)
        ((float *)*columns)[j] = missing;
    return TG_OK;
}

tg_status columns_load_plus(tg_ctx *ctx, el order, const tg_tensor *t, float offset,
                            const float **columns)
{
    *columns = NULL;
    return t ? copy_of(ctx, order, t, tg_numel(t), offset, columns) : TG_OK;
}

/* ---- sums ---- */

tg_status columns_sums(tg_ctx *ctx, int64_t rows, int64_t n, int64_t count, int64_t grain,
                       column_sums *sums)
{
    *sums = (column_sums){.n = n, .count = count, .grain = grain};
    sums->chunks = (rows + grain - 1) / grain;
    sums->partial = tg_workspace(ctx, (size_t)(sums->chunks * count * n) * sizeof(float));
    return sums->partial ? TG_OK : TG_ENOMEM;
}

typedef struct reduce_job {
    const float *partial; /* of the first chunk; that of the next stands `step` further */
    const float *factor;  /* of each column; NULL: 1 */
    int64_t step, chunks;
    char *out;
    el order, type; /* of lanes; of out */
    int accumulate;
} reduce_job;

/* Columns [begin, end) begin at a pair. */
SIMD_INLINE void reduce_columns(el order, const reduce_job *job, int64_t begin, int64_t end)
{
    int64_t j = begin;
    for (; j + V_PAIR <= end; j += V_PAIR) {
        vf2 sum = {{0}, {0}};
        for (int64_t k = 0; k < job->chunks; k++) {
            const vf2 part = v_get2(job->partial + k * job->step + j);
            sum = (vf2){sum.a + part.a, sum.b + part.b};
        }
        if (job->factor) {
            const vf2 by = v_get2(job->factor + j);
            sum = (vf2){sum.a * by.a, sum.b * by.b};
        }
        sum = v_natural2(order, sum);
        if (job->accumulate)
            sum = (vf2){sum.a + v_load(job->type, job->out, j),
                        sum.b + v_load(job->type, job->out, j + VL)};
        v_store(job->type, job->out, j, sum.a);
        v_store(job->type, job->out, j + VL, sum.b);
    }
    for (; j < end; j += VL) {
        vf sum = {0};
        for (int64_t k = 0; k < job->chunks; k++)
            sum += v_load_n(EL_F32, job->partial + k * job->step, j, v_tail(end, j), 0);
        if (job->factor)
            sum *= v_load_n(EL_F32, job->factor, j, v_tail(end, j), 0);
        if (job->accumulate)
            sum += v_load_n(job->type, job->out, j, v_tail(end, j), 0);
        v_store_n(job->type, job->out, j, v_tail(end, j), sum);
    }
}

static void reduce_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const reduce_job *job = arg;
    EL_SPECIALIZE(job->order, reduce_columns, job, begin, end);
}

void columns_reduce_times(tg_ctx *ctx, const column_sums *s, int which, el order,
                          const float *factor, const tg_tensor *out, int64_t accumulate)
{
    if (!out)
        return;
    reduce_job job = {s->partial + which * s->n,
                      factor,
                      s->count * s->n,
                      s->chunks,
                      tg_data(out),
                      order,
                      el_of(out),
                      accumulate != 0};
    const int64_t worth = ROWS_WORTH / (s->chunks + 1);
    tg_parallel_for(ctx, s->n, v_whole_pairs(worth) + V_PAIR, reduce_chunk, &job);
}

void columns_reduce(tg_ctx *ctx, const column_sums *s, int which, el order, const tg_tensor *out,
                    int64_t accumulate)
{
    columns_reduce_times(ctx, s, which, order, NULL, out, accumulate);
}
