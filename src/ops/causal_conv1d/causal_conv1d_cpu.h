/* causal_conv1d_cpu.h - what both directions share: a problem as its kernels see it, and what is
 * read of it at a place of the columns.
 *
 * Kernels take a block of rows at a time and, within it, a pair of vectors of columns after the
 * other: what the block's sums read lies in memory of the stack by then, as f32, each element
 * loaded and multiplied by its gate once. The rows before a block, which it needs too, are still
 * in the cache.
 */
#ifndef TG_CAUSAL_CONV1D_CPU_H
#define TG_CAUSAL_CONV1D_CPU_H

#include "causal_conv1d.h"
#include "rows/columns.h"
#include "rows/rows.h"

/* CONV_ROWS: of a block. CONV_REST: rows beside a block that it reads, at most. */
enum { CONV_ROWS = 16, CONV_REST = CONV_MOST - 1 };

typedef struct conv_job {
    el type;
    int stream, silu, width;
    int64_t rows, n;
    /* of each row: how many before it its sum reads, how many behind it read it */
    const uint8_t *reach, *behind;
    const float *taps[CONV_MOST]; /* columns, as bias; NULL: no bias */
    const float *bias;
    operand x, in_gate, out_gate, out; /* out: y or dx */
    operand dy, din_gate, dout_gate;   /* of backward, which also has: */
    column_sums sums;                  /* of each tap, then of the bias */
} conv_job;

/* A place of the columns: a pair of vectors, or what is left of fewer elements than that. */
typedef struct conv_place {
    int64_t j, left;
} conv_place;

SIMD_INLINE vf2 conv_load(el e, int whole, const void *p, conv_place at)
{
    if (whole)
        return v_load2(e, e, p, at.j);
    return (vf2){v_load_n(e, p, at.j, at.left, 0), v_set(0)};
}

SIMD_INLINE void conv_store(el e, int stream, int whole, void *p, conv_place at, vf2 x)
{
    if (whole)
        v_write2(e, stream, p, at.j, x);
    else
        v_store_n(e, p, at.j, at.left, x.a);
}

SIMD_INLINE vf2 conv_column(int whole, const float *p, conv_place at)
{
    if (whole)
        return v_get2(p + at.j);
    return (vf2){v_load_n(EL_F32, p, at.j, at.left, 0), v_set(0)};
}

/* An element of a row of a tensor. */
SIMD_INLINE vf2 conv_get(el e, int whole, const operand *o, int64_t row, conv_place at)
{
    const char *p = row_at(o, row);
    if (whole)
        v_ahead2(e, p, at.j);
    return conv_load(e, whole, p, at);
}

/* x times a row of a tensor that may be missing. */
SIMD_INLINE vf2 conv_times(el e, int whole, vf2 x, const operand *o, int64_t row, conv_place at)
{
    if (!o->data)
        return x;
    const vf2 by = conv_get(e, whole, o, row, at);
    return (vf2){x.a * by.a, x.b * by.b};
}

/* What is convolved, of rows [first, end). */
SIMD_INLINE void conv_inputs(el e, int whole, const conv_job *job, int64_t first, int64_t end,
                             conv_place at, vf2 *u)
{
    for (int64_t row = first; row < end; row++)
        u[row - first] =
            conv_times(e, whole, conv_get(e, whole, &job->x, row, at), &job->in_gate, row, at);
}

SIMD_INLINE void conv_taps(int whole, int width, const conv_job *job, conv_place at, vf2 *taps)
{
    for (int k = 0; k < width; k++)
        taps[k] = conv_column(whole, job->taps[k], at);
}

/* The convolution at a row, whose own input is *u. */
SIMD_INLINE vf2 conv_sum(int width, int reach, const vf2 *taps, vf2 bias, const vf2 *u)
{
    vf2 v = bias;
    for (int back = reach; back >= 0; back--) {
        const vf2 tap = taps[width - 1 - back], x = u[-back];
        v = (vf2){v.a + tap.a * x.a, v.b + tap.b * x.b};
    }
    return v;
}

/* 1 if all rows of [begin, end) read as many before them as there are taps. */
SIMD_INLINE int conv_inner(const conv_job *job, int64_t begin, int64_t end)
{
    int least = job->width - 1;
    for (int64_t row = begin; row < end; row++)
        least = job->reach[row] < least ? job->reach[row] : least;
    return least == job->width - 1;
}

/* place(e, stream, width, inner, ...): with constants for the usual widths of blocks that lie
 * within a segment. */
#define CONV_BY_WIDTH(place, e, stream, width, inner, ...) \
    do {                                                   \
        if ((inner) && (width) == 4)                       \
            place(e, stream, 4, 1, __VA_ARGS__);           \
        else if ((inner) && (width) == 3)                  \
            place(e, stream, 3, 1, __VA_ARGS__);           \
        else                                               \
            place(e, stream, width, 0, __VA_ARGS__);       \
    } while (0)

/* ---- a call ---- */

/* How far back each row's sum goes, and from how far behind it is read. */
static inline tg_status conv_reaches(tg_ctx *ctx, const conv_shape *s, conv_job *job)
{
    uint8_t *reach = tg_workspace(ctx, 2 * (size_t)s->rows + 1), *behind = reach + s->rows;
    if (!reach)
        return TG_ENOMEM;
    for (int64_t row = 0; row < s->rows; row++) {
        const int before = conv_joined(s, row) ? reach[row - 1] + 1 : 0;
        reach[row] = (uint8_t)(before < s->width - 1 ? before : s->width - 1);
    }
    for (int64_t row = s->rows - 1; row >= 0; row--) {
        const int after = row + 1 < s->rows && conv_joined(s, row + 1) ? behind[row + 1] + 1 : 0;
        behind[row] = (uint8_t)(after < s->width - 1 ? after : s->width - 1);
    }
    job->reach = reach;
    job->behind = behind;
    return TG_OK;
}

/* The columns of weight, each a vector of f32. */
static inline tg_status conv_load_taps(tg_ctx *ctx, conv_job *job, const tg_tensor *weight)
{
    float *columns = tg_workspace(ctx, (size_t)(job->width * job->n) * sizeof *columns);
    if (!columns)
        return TG_ENOMEM;
    const char *w = tg_data(weight);
    for (int k = 0; k < job->width; k++) {
        float *tap = columns + k * job->n;
        for (int64_t j = 0; j < job->n; j++)
            tap[j] = el_get(el_of(weight), w, j * job->width + k);
        const tg_tensor t = tg_tensor_of(tap, TG_F32, 1, &job->n);
        TG_TRY(columns_load(ctx, job->type, &t, job->n, 0, &job->taps[k]));
    }
    return TG_OK;
}

static inline tg_status conv_begin(tg_ctx *ctx, const conv_shape *s, const tg_tensor *x,
                                   const tg_tensor *weight, const tg_tensor *bias, conv_job *job)
{
    job->type = el_of(x);
    job->width = s->width;
    job->rows = s->rows;
    job->n = s->channels;
    job->x = operand_of(x);
    TG_TRY(conv_reaches(ctx, s, job));
    TG_TRY(conv_load_taps(ctx, job, weight));
    return columns_load(ctx, job->type, bias, job->n, 0, &job->bias);
}

#endif
