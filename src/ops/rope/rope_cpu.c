/* rope, fast: one pass over the rows of q and k, in the order in which they lie in memory. */
#include "simd.h"

#include "core/services.h"

/* Elements to a chunk, at least: what is worth a thread. */
enum { CHUNK = 16384 };

/* The rows [D] of one tensor and of its result. Rows are numbered by batch, then by the two other
 * dimensions in the order of their strides, so that memory is walked forwards. */
typedef struct rows {
    const char *x;
    char *y;
    int stream; /* write past the cache */
    int64_t count, per_batch, outer, inner;
    int inner_is_position; /* else the inner dimension is the head */
    int64_t x_batch, x_outer, x_inner, y_batch, y_outer, y_inner; /* strides in bytes */
} rows;

typedef struct job {
    el type, table_type;
    float direction; /* 1 forward, -1 backward: the sign of sin */
    int64_t width, half;
    const char *cos, *sin;
    int64_t cos_batch, cos_position, sin_batch, sin_position; /* strides in bytes */
    rows q, k;
} job;

typedef struct angles {
    const char *cos, *sin;
    float direction;
} angles;

SIMD_INLINE void put2(el e, int stream, void *p, int64_t i, vf2 x)
{
    if (stream)
        v_stream2(e, p, i, x);
    else
        v_store2(e, p, i, x);
}

/* The rotated pairs: elements [0, half) and [half, 2 half) of the row. */
SIMD_INLINE void rotate_row(el e, el te, int stream, const char *x, char *y, angles at,
                            int64_t half)
{
    const vf sign = v_set(at.direction);
    const char *x2 = x + half * el_size(e);
    char *y2 = y + half * el_size(e);
    int64_t d = 0;
    for (; d + 2 * VL <= half; d += 2 * VL) {
        const vf2 c = v_load2(e, te, at.cos, d), t = v_load2(e, te, at.sin, d);
        v_ahead2(e, x, d);
        v_ahead2(e, x2, d);
        const vf2 a = v_load2(e, e, x, d), b = v_load2(e, e, x2, d);
        const vf sa = t.a * sign, sb = t.b * sign;
        put2(e, stream, y, d, (vf2){a.a * c.a - b.a * sa, a.b * c.b - b.b * sb});
        put2(e, stream, y2, d, (vf2){b.a * c.a + a.a * sa, b.b * c.b + a.b * sb});
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

/* What the rotation leaves alone. */
SIMD_INLINE void copy_rest(el e, const char *x, char *y, int64_t begin, int64_t width)
{
    if (x != y)
        memcpy(y + begin * el_size(e), x + begin * el_size(e),
               (size_t)((width - begin) * el_size(e)));
}

/* Where row i stands; moved on row by row, since divisions would cost as much as a short row. */
typedef struct place {
    int64_t b, outer, inner;
} place;

static void step(place *at, const rows *t)
{
    if (++at->inner < t->inner)
        return;
    at->inner = 0;
    if (++at->outer < t->outer)
        return;
    at->outer = 0;
    at->b++;
}

SIMD_INLINE void some_rows(el e, el te, const job *j, const rows *t, int64_t begin, int64_t end)
{
    const int64_t in_batch = begin % t->per_batch, rest = 2 * j->half;
    place at = {begin / t->per_batch, in_batch / t->inner, in_batch % t->inner};
    for (int64_t i = begin; i < end; i++, step(&at, t)) {
        const int64_t position = t->inner_is_position ? at.inner : at.outer;
        const angles by = {j->cos + at.b * j->cos_batch + position * j->cos_position,
                           j->sin + at.b * j->sin_batch + position * j->sin_position, j->direction};
        const char *x = t->x + at.b * t->x_batch + at.outer * t->x_outer + at.inner * t->x_inner;
        char *y = t->y + at.b * t->y_batch + at.outer * t->y_outer + at.inner * t->y_inner;
        if (t->stream && v_streamable2(e, y) && v_streamable2(e, y + j->half * el_size(e)))
            rotate_row(e, te, 1, x, y, by, j->half);
        else
            rotate_row(e, te, 0, x, y, by, j->half);
        if (rest < j->width)
            copy_rest(e, x, y, rest, j->width);
    }
    if (t->stream)
        v_fence();
}

SIMD_INLINE void table_rows(el e, const job *j, const rows *t, int64_t begin, int64_t end)
{
    if (e != EL_F32 && j->table_type == EL_F32)
        some_rows(e, EL_F32, j, t, begin, end);
    else
        some_rows(e, e, j, t, begin, end);
}

/* Rows of q come first, rows of k follow. */
static void chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    const int64_t split = j->q.count;
    if (begin < split)
        EL_SPECIALIZE(j->type, table_rows, j, &j->q, begin, end < split ? end : split);
    if (end > split)
        EL_SPECIALIZE(j->type, table_rows, j, &j->k, begin > split ? begin - split : 0,
                      end - split);
}

static rows rows_of(const tg_tensor *x, const tg_tensor *y)
{
    if (!x)
        return (rows){.per_batch = 1, .inner = 1};
    const int64_t size = (int64_t)tg_type_size(tg_type_of(x));
    /* the dimension with the shorter stride goes inside: 1 the position, 2 the head */
    const int inner = tg_stride(y, 1) < tg_stride(y, 2) && x->shape[1] > 1 ? 1 : 2;
    const int outer = 3 - inner;
    rows t = {.x = tg_data(x), .y = tg_data(y), .inner_is_position = inner == 1};
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

static tg_status run(tg_ctx *ctx, job *j, const tg_tensor *cos, const tg_tensor *sin,
                     const tg_tensor *q, int64_t rotary_dim, int64_t offset)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(cos)), n = cos->ndim;
    j->type = (el)tg_el(tg_type_of(q));
    j->table_type = (el)tg_el(tg_type_of(cos));
    j->width = q->shape[3];
    j->half = (rotary_dim ? rotary_dim : j->width) / 2;
    j->cos_position = tg_stride(cos, (int)n - 2) * size;
    j->sin_position = tg_stride(sin, (int)n - 2) * size;
    j->cos_batch = n == 3 ? tg_stride(cos, 0) * size : 0;
    j->sin_batch = n == 3 ? tg_stride(sin, 0) * size : 0;
    j->cos = (const char *)tg_data(cos) + offset * j->cos_position;
    j->sin = (const char *)tg_data(sin) + offset * j->sin_position;
    if (j->width == 0)
        return TG_OK;
    const int64_t grain = j->width < CHUNK ? CHUNK / j->width : 1;
    tg_parallel_for(ctx, j->q.count + j->k.count, grain, chunk, j);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    job j = {.direction = 1.0f, .q = rows_of(args->q, args->yq), .k = rows_of(args->k, args->yk)};
    return run(ctx, &j, args->cos, args->sin, args->q, args->rotary_dim, args->position_offset);
}

static tg_status backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    job j = {
        .direction = -1.0f, .q = rows_of(args->dyq, args->dq), .k = rows_of(args->dyk, args->dk)};
    return run(ctx, &j, args->cos, args->sin, args->dyq, args->rotary_dim, args->position_offset);
}

static int accepts_forward(const tg_rope_forward_args *args)
{
    return tg_fast_type(args->q);
}

static int accepts_backward(const tg_rope_backward_args *args)
{
    return tg_fast_type(args->dyq);
}

TG_CPU_ROWS(rope) = {
    TG_CPU_ROW(rope_forward, accepts_forward, forward),
    TG_CPU_ROW(rope_backward, accepts_backward, backward),
    TG_ROWS_END,
};
