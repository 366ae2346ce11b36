/* src/rotary/rotary_cpu.h - the fast walk over the rows of q and k, in the order in which they lie
 * in memory; compiled once per level with each family.
 *
 * A family gives two always-inline functions: `find`, the angles of a position, called when the
 * walk comes to another one, and `turn`, which rotates one row [D] by them. */
#ifndef TG_ROTARY_CPU_H
#define TG_ROTARY_CPU_H

#include "simd.h"

#include "rotary/rotary.h"

/* The rows [D] of one tensor and of its result. Rows are numbered by batch, then by the two other
 * dimensions in the order of their strides, so that memory is walked forwards. */
typedef struct rotary_rows {
    const char *x;
    char *y;
    int stream; /* write past the cache */
    int64_t count, per_batch, outer, inner;
    int inner_is_position; /* else the inner dimension is the head */
    int64_t x_batch, x_outer, x_inner, y_batch, y_outer, y_inner; /* strides in bytes */
} rotary_rows;

/* A table of angles: where position p of batch b begins. Strides in bytes. */
typedef struct rotary_table {
    const char *data;
    int64_t batch, position;
} rotary_table;

typedef struct rotary_job {
    el type, table_type;
    float direction; /* 1 forward, -1 backward: the sign of sin */
    int64_t width;   /* D */
    int64_t start;   /* of what is turned */
    int64_t half;    /* pairs that are turned; what lies before and behind them is copied */
    rotary_table cos, sin;
    rotary_rows q, k;
} rotary_job;

/* The angles of one position, as the family lays them out. */
typedef struct rotary_angles {
    const char *cos, *sin;
} rotary_angles;

typedef rotary_angles (*rotary_find)(const rotary_job *j, int64_t b, int64_t position, int worker);
typedef void (*rotary_turn)(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                            const char *x, char *y);

SIMD_INLINE const char *rotary_at(const rotary_table *t, int64_t b, int64_t position)
{
    return t->data + b * t->batch + position * t->position;
}

/* The pairs of the half-split layout: elements [0, half) and [half, 2 half) of the row. */
SIMD_INLINE void rotary_turn_halves(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                                    const char *x, char *y)
{
    const vf sign = v_set(j->direction);
    const int64_t half = j->half;
    const char *x2 = x + half * el_size(e);
    char *y2 = y + half * el_size(e);
    int64_t d = 0;
    for (; d + 2 * VL <= half; d += 2 * VL) {
        const vf2 c = v_load2(e, te, at.cos, d), t = v_load2(e, te, at.sin, d);
        v_ahead2(e, x, d);
        v_ahead2(e, x2, d);
        const vf2 a = v_load2(e, e, x, d), b = v_load2(e, e, x2, d);
        const vf sa = t.a * sign, sb = t.b * sign;
        v_write2(e, stream, y, d, (vf2){a.a * c.a - b.a * sa, a.b * c.b - b.b * sb});
        v_write2(e, stream, y2, d, (vf2){b.a * c.a + a.a * sa, b.b * c.b + a.b * sb});
    }
    for (; d < half; d += VL) {
        const int64_t n = half - d < VL ? half - d : VL;
        const vf c = v_load_n(te, at.cos, d, n, 0.0f);
        const vf s = v_load_n(te, at.sin, d, n, 0.0f) * sign;
        const vf a = v_load_n(e, x, d, n, 0.0f), b = v_load_n(e, x2, d, n, 0.0f);
        v_store_n(e, y, d, n, a * c - b * s);
        v_store_n(e, y2, d, n, b * c + a * s);
    }
}

/* Copies what of a row is not turned. */
SIMD_INLINE void rotary_rest(el e, const rotary_job *j, const char *x, char *y)
{
    const int64_t behind = j->start + 2 * j->half;
    if (x == y)
        return;
    if (j->start > 0)
        memcpy(y, x, (size_t)(j->start * el_size(e)));
    if (behind < j->width)
        memcpy(y + behind * el_size(e), x + behind * el_size(e),
               (size_t)((j->width - behind) * el_size(e)));
}

/* A row of halves: streamed where its halves are aligned. */
SIMD_INLINE void rotary_halves(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                               const char *x, char *y)
{
    const char *from = x + j->start * el_size(e);
    char *to = y + j->start * el_size(e);
    if (stream && v_streamable2(e, to) && v_streamable2(e, to + j->half * el_size(e)))
        rotary_turn_halves(e, te, 1, j, at, from, to);
    else
        rotary_turn_halves(e, te, 0, j, at, from, to);
    rotary_rest(e, j, x, y);
}

/* Rows [begin, end) of one tensor, run by run along the inner dimension. */
SIMD_INLINE void rotary_walk(el e, el te, rotary_find find, rotary_turn turn, const rotary_job *j,
                             const rotary_rows *t, int64_t begin, int64_t end, int worker)
{
    int64_t b = begin / t->per_batch, outer = begin % t->per_batch / t->inner;
    int64_t inner = begin % t->per_batch % t->inner;
    for (int64_t i = begin; i < end; inner = 0) {
        const int64_t stop = t->inner - inner < end - i ? t->inner : inner + end - i;
        const char *x = t->x + b * t->x_batch + outer * t->x_outer + inner * t->x_inner;
        char *y = t->y + b * t->y_batch + outer * t->y_outer + inner * t->y_inner;
        rotary_angles at = {0};
        /* no case: cases have positions before heads; tests/ops/rope.c and rotary.c have both */
        if (!t->inner_is_position)
            at = find(j, b, outer, worker);
        for (i += stop - inner; inner < stop; inner++, x += t->x_inner, y += t->y_inner) {
            if (t->inner_is_position)           /* no case: as above */
                at = find(j, b, inner, worker); /* no case: as above */
            turn(e, te, t->stream, j, at, x, y);
        }
        if (++outer == t->outer) {
            outer = 0;
            b++;
        }
    }
    if (t->stream)
        v_fence();
}

SIMD_INLINE void rotary_walk_typed(el e, rotary_find find, rotary_turn turn, const rotary_job *j,
                                   const rotary_rows *t, int64_t begin, int64_t end, int worker)
{
    if (e != EL_F32 && j->table_type == EL_F32)
        rotary_walk(e, EL_F32, find, turn, j, t, begin, end, worker);
    else
        rotary_walk(e, e, find, turn, j, t, begin, end, worker);
}

/* Rows [begin, end), those of q first, those of k behind them. */
SIMD_INLINE void rotary_chunk(rotary_find find, rotary_turn turn, const rotary_job *j,
                              int64_t begin, int64_t end, int worker)
{
    const int64_t split = j->q.count;
    if (begin < split)
        EL_SPECIALIZE(j->type, rotary_walk_typed, find, turn, j, &j->q, begin,
                      end < split ? end : split, worker);
    if (end > split)
        EL_SPECIALIZE(j->type, rotary_walk_typed, find, turn, j, &j->k,
                      begin > split ? begin - split : 0, end - split, worker);
}

static inline rotary_rows rotary_rows_of(const tg_tensor *x, const tg_tensor *y)
{
    if (!x)
        return (rotary_rows){.per_batch = 1, .inner = 1};
    const int64_t size = (int64_t)tg_type_size(tg_type_of(x));
    /* The dimension with the shorter stride goes inside: 1 the position, 2 the head.
     * no case: of the first in cases; tests/ops/rope.c and rotary.c have both */
    const int inner = tg_stride(y, 1) < tg_stride(y, 2) && x->shape[1] > 1 ? 1 : 2;
    const int outer = 3 - inner;
    rotary_rows t = {.x = tg_data(x), .y = tg_data(y), .inner_is_position = inner == 1};
    t.inner = x->shape[inner];
    t.outer = x->shape[outer];
    t.per_batch = t.inner * t.outer;
    t.count = x->shape[0] * t.per_batch;
    t.x_batch = tg_stride(x, 0) * size;
    t.x_outer = tg_stride(x, outer) * size;
    t.x_inner = tg_stride(x, inner) * size;
    t.y_batch = tg_stride(y, 0) * size;
    t.y_outer = tg_stride(y, outer) * size;
    t.y_inner = tg_stride(y, inner) * size;
    t.stream = t.x != t.y && tg_streams(t.count * x->shape[3] * size);
    return t;
}

/* The job without its angles: table_type, start, half, cos and sin are the family's. */
static inline rotary_job rotary_job_of(rotary_args a, float direction)
{
    return (rotary_job){.type = (el)tg_el(tg_type_of(a.q)),
                        .direction = direction,
                        .width = a.q->shape[3],
                        .q = rotary_rows_of(a.q, a.yq),
                        .k = rotary_rows_of(a.k, a.yk)};
}

/* Dimensions `batch` (negative: none) and `position` of a table. */
static inline rotary_table rotary_table_of(const tg_tensor *t, int batch, int position)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    return (rotary_table){tg_data(t), rotary_batch_stride(t, batch) * size,
                          tg_stride(t, position) * size};
}

/* job: a rotary_job, or a struct that begins with one. */
static inline void rotary_run(tg_ctx *ctx, rotary_job *job, tg_range_fn chunk)
{
    enum { CHUNK = 16384 }; /* elements, at least: what is worth a thread */
    if (job->width == 0)
        return;
    const int64_t grain = job->width < CHUNK ? CHUNK / job->width : 1;
    tg_parallel_for(ctx, job->q.count + job->k.count, grain, chunk, job);
}

#endif
