/* sum_rows on the CPU. A sum that is a vector is added up chunk by chunk of the rows, as gradients
 * of parameters are (rows/columns.h); one that has rows itself strip by strip of these. */
#include "core/parts.h"
#include "rows/columns.h"
#include "rows/rows.h"

enum { BLOCK = 4 /* rows that are added at a time */, STRIP = 1024 /* columns: 4 KiB of sums */ };

typedef struct job {
    el type, one_type; /* of x or dx; of y or dy */
    int stream;
    int64_t n, count; /* columns; rows of x or dx for each of y or dy */
    int64_t rows;     /* of y or dy */
    operand many, one;
    float scale;
    int accumulate;
    column_sums sums;
} job;

/* ---- forward: y is a vector ---- */

SIMD_INLINE void add_block(el e, const job *j, int64_t first, int count, float *sum)
{
    const char *x[BLOCK];
    for (int k = 0; k < count; k++)
        x[k] = row_at(&j->many, first + k);
    int64_t i = 0;
    for (; i < v_whole_pairs(j->n); i += V_PAIR) {
        vf2 s = v_get2(sum + i);
        for (int k = 0; k < count; k++) {
            const vf2 a = v_load2(e, e, x[k], i);
            v_ahead2(e, x[k], i);
            s = (vf2){s.a + a.a, s.b + a.b};
        }
        v_put2(sum + i, s);
    }
    for (; i < j->n; i += VL) {
        const int64_t left = v_tail(j->n, i);
        vf s = v_load_n(EL_F32, sum, i, left, 0);
        for (int k = 0; k < count; k++)
            s += v_load_n(e, x[k], i, left, 0);
        v_store_n(EL_F32, sum, i, left, s);
    }
}

SIMD_INLINE void add_rows(el e, const job *j, int64_t begin, int64_t end)
{
    float *sum = columns_begin(&j->sums, begin);
    int64_t row = begin;
    for (; row + BLOCK <= end; row += BLOCK)
        add_block(e, j, row, BLOCK, sum);
    for (; row < end; row++)
        add_block(e, j, row, 1, sum);
    for (int64_t i = 0; i < j->n && j->scale != 1; i += VL) {
        const int64_t left = v_tail(j->n, i);
        v_store_n(EL_F32, sum, i, left, v_load_n(EL_F32, sum, i, left, 0) * v_set(j->scale));
    }
}

static void add_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job copy = *(const job *)arg;
    EL_SPECIALIZE(copy.type, add_rows, &copy, begin, end);
}

/* ---- forward: y has rows ---- */

SIMD_INLINE void add_strip(el e, const job *j, int64_t row, int64_t first)
{
    const int64_t n = j->n - first < STRIP ? j->n - first : STRIP;
    float sum[STRIP];
    memset(sum, 0, sizeof sum);
    for (int64_t k = 0; k < j->count; k++) {
        const char *x = row_at(&j->many, k * j->rows + row) + first * el_size(e);
        for (int64_t i = 0; i < n; i += VL)
            v_store(EL_F32, sum, i, v_load(EL_F32, sum, i) + v_load_n(e, x, i, v_tail(n, i), 0));
    }
    char *y = row_at(&j->one, row) + first * el_size(j->one_type);
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t left = v_tail(n, i);
        vf total = v_load(EL_F32, sum, i) * v_set(j->scale);
        if (j->accumulate)
            total += v_load_n(j->one_type, y, i, left, 0);
        v_store_n(j->one_type, y, i, left, total);
    }
}

static int64_t strips_of(const job *j)
{
    return (j->n + STRIP - 1) / STRIP;
}

SIMD_INLINE void add_strips(el e, const job *j, int64_t begin, int64_t end)
{
    const int64_t strips = strips_of(j);
    for (int64_t i = begin; i < end; i++)
        add_strip(e, j, i / strips, i % strips * STRIP);
}

static void strips_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job copy = *(const job *)arg;
    EL_SPECIALIZE(copy.type, add_strips, &copy, begin, end);
}

/* ---- backward ---- */

SIMD_INLINE void fill_rows(el e, int stream, const job *j, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const vf scale = v_set(j->scale);
    for (int64_t row = begin; row < end; row++) {
        const char *dy = row_at(&j->one, row % j->rows);
        char *dx = row_at(&j->many, row);
        int64_t i = 0;
        for (; i < v_whole_pairs(j->n); i += V_PAIR) {
            const vf2 g = v_load2(e, j->one_type, dy, i);
            v_write2(e, stream, dx, i, (vf2){g.a * scale, g.b * scale});
        }
        for (; i < j->n; i += VL) {
            const int64_t left = v_tail(j->n, i);
            v_store_n(e, dx, i, left, v_load_n(j->one_type, dy, i, left, 0) * scale);
        }
    }
}

ROWS_CHUNK(fill_chunk, job, fill_rows);

/* ---- calls ---- */

static job job_of(const tg_tensor *many, const tg_tensor *one, double scale)
{
    const tg_rows rows = tg_rows_of(one);
    return (job){.type = el_of(many),
                 .one_type = el_of(one),
                 .n = rows.n,
                 .count = tg_numel(many) ? many->shape[0] : 0, /* R rows of nothing are none */
                 .rows = rows.rows,
                 .many = operand_of(many),
                 .one = operand_of(one),
                 .scale = (float)scale};
}

static tg_status forward(tg_ctx *ctx, const tg_sum_rows_forward_args *args)
{
    job j = job_of(args->x, args->y, tg_times_factor(args->scale, args->factor));
    j.accumulate = args->accumulate != 0;
    if (args->y->ndim > 1) {
        if (tg_reserving(ctx))
            return TG_OK;
        const int64_t items = j.rows * strips_of(&j);
        const int64_t each = (j.count + 1) * (j.n < STRIP ? j.n : STRIP);
        tg_parallel_for(ctx, items, rows_grain(items, each, 1), strips_chunk, &j);
        return TG_OK;
    }
    const int64_t grain = columns_grain(j.count, rows_worth(j.n, ROWS_WORTH), BLOCK);
    TG_TRY(columns_sums(ctx, j.count, j.n, 1, grain, &j.sums));
    if (tg_reserving(ctx))
        return TG_OK;
    tg_parallel_for(ctx, j.count, grain, add_chunk, &j);
    columns_reduce(ctx, &j.sums, 0, j.type, args->y, args->accumulate);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_sum_rows_backward_args *args)
{
    job j = job_of(args->dx, args->dy, tg_times_factor(args->scale, args->factor));
    if (tg_reserving(ctx))
        return TG_OK;
    j.stream = rows_stream_aligned(args->dx, args->dy);
    const int64_t rows = j.rows * j.count;
    tg_parallel_for(ctx, rows, rows_grain(rows, j.n, 1), fill_chunk, &j);
    return TG_OK;
}

TG_CPU_IMPLS(sum_rows) = {TG_CPU_IMPL(sum_rows_forward, forward),
                          TG_CPU_IMPL(sum_rows_backward, backward), TG_IMPLS_END};
