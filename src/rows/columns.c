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

void columns_reduce(tg_ctx *ctx, const column_sums *s, int which, el order, const tg_tensor *out,
                    int64_t accumulate)
{
    if (!out)
        return;
    reduce_job job = {s->partial + which * s->n,
                      s->count * s->n,
                      s->chunks,
                      tg_data(out),
                      order,
                      el_of(out),
                      accumulate != 0};
    const int64_t worth = ROWS_WORTH / (s->chunks + 1);
    tg_parallel_for(ctx, s->n, v_whole_pairs(worth) + V_PAIR, reduce_chunk, &job);
}

/* ---- a vector in every row ---- */

typedef struct fill_job {
    el type;
    const void *columns;
    float *out;
    int64_t n;
} fill_job;

SIMD_INLINE void fill_rows(el e, const fill_job *j, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        float *out = j->out + row * j->n;
        int64_t i = 0;
        for (; i + VL <= j->n; i += VL)
            v_store(EL_F32, out, i, v_load(e, j->columns, i));
        v_store_n(EL_F32, out, i, j->n - i, v_load_n(e, j->columns, i, j->n - i, 0.0f));
    }
}

static void fill_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fill_job *j = arg;
    EL_SPECIALIZE(j->type, fill_rows, j, begin, end);
}

void columns_fill(tg_ctx *ctx, const tg_tensor *t, float *out, int64_t rows)
{
    fill_job j = {el_of(t), tg_data(t), out, tg_numel(t)};
    tg_parallel_for(ctx, rows, rows_grain(rows, j.n, 1), fill_chunk, &j);
}

/* ---- sums += scale times the sums of the columns: strips of columns, each down all rows ---- */

enum { STRIP = 4 * VL };

typedef struct add_job {
    el type;
    const void *x;
    int64_t rows, n;
    float *sums;
    float scale;
} add_job;

SIMD_INLINE void add_strips(el e, const add_job *j, int64_t begin, int64_t end)
{
    for (int64_t strip = begin; strip < end; strip++) {
        vf sum[4] = {0};
        const int64_t first = strip * STRIP, left = j->n - first;
        for (int64_t row = 0; row < j->rows; row++)
            for (int v = 0; v < 4; v++) {
                const int64_t at = row * j->n + first + v * VL, n = left - v * VL;
                if (n >= VL)
                    sum[v] += v_load(e, j->x, at);
                else if (n > 0)
                    sum[v] += v_load_n(e, j->x, at, n, 0.0f);
            }
        for (int v = 0; v < 4; v++) {
            const int64_t at = first + v * VL, n = left - v * VL;
            if (n <= 0)
                break;
            const int64_t lanes = n < VL ? n : VL;
            const vf before = v_load_n(EL_F32, j->sums, at, lanes, 0.0f);
            v_store_n(EL_F32, j->sums, at, lanes, before + sum[v] * v_set(j->scale));
        }
    }
}

static void add_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const add_job *j = arg;
    EL_SPECIALIZE(j->type, add_strips, j, begin, end);
}

void columns_add(tg_ctx *ctx, const tg_tensor *x, float scale, float *sums)
{
    const tg_rows rows = tg_rows_of(x);
    add_job j = {el_of(x), rows.data, rows.rows, rows.n, sums, scale};
    const int64_t strips = (j.n + STRIP - 1) / STRIP;
    tg_parallel_for(ctx, strips, rows_grain(strips, j.rows * STRIP, 1), add_chunk, &j);
}

/* ---- sums that are there already ---- */

typedef struct round_job {
    el type;
    operand out;
    const float *sums;
    int64_t n;
    int accumulate;
} round_job;

SIMD_INLINE void round_rows(el e, const round_job *j, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        char *out = row_at(&j->out, row);
        const float *sums = j->sums + row * j->n;
        for (int64_t i = 0; i < j->n; i += VL) {
            const int64_t n = v_tail(j->n, i);
            vf x = v_load_n(EL_F32, sums, i, n, 0.0f);
            if (j->accumulate)
                x += v_load_n(e, out, i, n, 0.0f);
            v_store_n(e, out, i, n, x);
        }
    }
}

static void round_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const round_job *j = arg;
    EL_SPECIALIZE(j->type, round_rows, j, begin, end);
}

void columns_round(tg_ctx *ctx, const float *sums, const tg_tensor *out, int64_t accumulate)
{
    const tg_rows rows = tg_rows_of(out);
    round_job j = {(el)tg_el(rows.type), operand_of(out), sums, rows.n, accumulate != 0};
    tg_parallel_for(ctx, rows.rows, rows_grain(rows.rows, rows.n, 1), round_chunk, &j);
}
