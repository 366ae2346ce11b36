/* src/grouped/grouped_rows.c - what products of rows in groups need besides. Compiled once per
 * level. */
#include "grouped_cpu.h"
#include "simd/register_tile.h"

tg_status grouped_floats(tg_ctx *ctx, const tg_tensor *t, const float **floats)
{
    *floats = NULL;
    if (!t)
        return TG_OK;
    *floats = tg_data(t);
    if (tg_type_of(t) == TG_F32)
        return TG_OK;
    const int64_t n = tg_numel(t);
    const void *from = tg_data(t);
    float *to = tg_workspace(ctx, (size_t)(n + 1) * sizeof *to);
    if (!to)
        return TG_ENOMEM;
    const el e = (el)tg_el(tg_type_of(t));
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t part = grouped_least(n - i, VL);
        v_store_n(EL_F32, to, i, part,
                  e == EL_BF16 ? v_load_n(EL_BF16, from, i, part, 0.0f)
                               : v_load_n(EL_F16, from, i, part, 0.0f));
    }
    *floats = to;
    return TG_OK;
}

/* ---- what tasks write ---- */

SIMD_INLINE void write_row(el e, char *to, const float *sums, const float *bias, int64_t n)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf x = v_load(EL_F32, sums, i);
        v_store(e, to, i, bias ? x + v_load(EL_F32, bias, i) : x);
    }
    if (i < n) {
        const vf x = v_load_n(EL_F32, sums, i, n - i, 0.0f);
        v_store_n(e, to, i, n - i, bias ? x + v_load_n(EL_F32, bias, i, n - i, 0.0f) : x);
    }
}

/* The same, added to what is there. */
SIMD_INLINE void add_row(el e, char *to, const float *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t part = grouped_least(n - i, VL);
        const vf x = v_load_n(EL_F32, sums, i, part, 0.0f) + v_load_n(e, to, i, part, 0.0f);
        v_store_n(e, to, i, part, x);
    }
}

/* Past the caches, whole vectors; the address is one for that. */
SIMD_INLINE void stream_row(el e, char *to, const float *sums, int64_t n)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_stream(e, to, i, v_load(EL_F32, sums, i));
    if (i < n)
        v_store_n(e, to, i, n - i, v_load_n(EL_F32, sums, i, n - i, 0.0f));
}

/* The same of rows that are a panel wide, at addresses that are ones for that. */
SIMD_INLINE void stream_panel(el e, char *to, int64_t stride, const grouped_block *b)
{
    const float *sums = b->sums;
    for (int64_t i = 0; i < b->rows; i++, to += stride, sums += b->stride)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            v_stream(e, to, v * VL, v_load(EL_F32, sums, v * VL));
}

SIMD_INLINE void write_rows(el e, const grouped_output *o, const grouped_product *p,
                            const grouped_block *b)
{
    const float *bias = o->bias ? o->bias + b->group * p->cols + b->col : NULL;
    const int64_t row = b->group * o->matrix_rows + b->row, stride = o->stride * el_size(e);
    char *to = o->data + row * stride + b->col * el_size(e);
    if (o->stream && !o->accumulate && b->cols == NR && v_streamable(e, to) &&
        stride % (VL * el_size(e)) == 0) {
        stream_panel(e, to, stride, b);
        return;
    }
    for (int64_t i = 0; i < b->rows; i++, to += stride) {
        const float *sums = b->sums + i * b->stride;
        if (o->accumulate)
            add_row(e, to, sums, b->cols);
        else if (o->stream && v_streamable(e, to))
            stream_row(e, to, sums, b->cols);
        else
            write_row(e, to, sums, bias, b->cols);
    }
}

void grouped_write(const grouped_product *p, const grouped_block *b)
{
    const grouped_output *o = p->arg;
    EL_SPECIALIZE(o->type, write_rows, o, p, b);
}

/* ---- sums of rows ---- */

typedef struct row_sums {
    const grouped_factor *rows;
    const float *factor;
    const int64_t *offset;
    char *to;
    el type;
    int64_t cols, across, accumulate;
} row_sums;

enum { SUM_COLS = 128 };

SIMD_INLINE void sum_part(el e, const row_sums *s, int64_t group, int64_t col)
{
    const int64_t n = grouped_least(s->cols - col, SUM_COLS);
    vf sum[SUM_COLS / VL];
    for (int v = 0; v < SUM_COLS / VL; v++)
        sum[v] = v_set(0.0f);
    for (int64_t j = s->offset[group]; j < s->offset[group + 1]; j++) {
        const char *row = grouped_row_at(s->rows, j, col);
        const vf factor = v_set(s->factor ? s->factor[j] : 1.0f);
        for (int v = 0; v * VL < n; v++)
            sum[v] += factor * v_load_n(e, row, v * VL, grouped_least(n - v * VL, VL), 0.0f);
    }
    char *to = s->to + (group * s->cols + col) * el_size(s->type);
    float floats[SUM_COLS];
    for (int v = 0; v < SUM_COLS / VL; v++)
        v_store(EL_F32, floats, v * VL, sum[v]);
    for (int64_t i = 0; i < n; i++)
        el_set(s->type, to, i, floats[i] + (s->accumulate ? el_get(s->type, to, i) : 0.0f));
}

static void sum_parts(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const row_sums *s = arg;
    for (int64_t n = begin; n < end; n++)
        EL_SPECIALIZE(s->rows->type, sum_part, s, n / s->across, n % s->across * SUM_COLS);
}

void grouped_sum_rows(tg_ctx *ctx, const grouped_factor *rows, const float *factor, int64_t groups,
                      const int64_t *offset, const tg_tensor *to, int64_t accumulate)
{
    if (!to)
        return;
    const int64_t cols = to->shape[1], across = (cols + SUM_COLS - 1) / SUM_COLS;
    row_sums s = {rows, factor, offset,    tg_data(to), (el)tg_el(tg_type_of(to)),
                  cols, across, accumulate};
    tg_parallel_for(ctx, groups * across, 1, sum_parts, &s);
}

static void clear_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const tg_rows *t = arg;
    for (int64_t row = begin; row < end; row++)
        memset(t->data + row * t->stride * (int64_t)tg_type_size(t->type), 0,
               (size_t)t->n * tg_type_size(t->type));
}

void grouped_clear(tg_ctx *ctx, const tg_tensor *t, int64_t first)
{
    if (!t)
        return;
    tg_rows rows = tg_rows_of(t);
    rows.data += first * rows.stride * (int64_t)tg_type_size(rows.type);
    tg_parallel_for(ctx, rows.rows - first, 65536 / (rows.n + 1) + 1, clear_rows, &rows);
}
