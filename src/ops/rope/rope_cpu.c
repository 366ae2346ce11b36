/* rope, fast: one pass over the rows of q and k, in the order in which they lie in memory. */
#include "rotary/rotary.h"
#include "rotary/rotary_cpu.h"
#include "tigon/options.h"

SIMD_INLINE rotary_angles find(const rotary_job *j, int64_t b, int64_t position, int worker)
{
    (void)worker;
    return (rotary_angles){rotary_at(&j->cos, b, position), rotary_at(&j->sin, b, position)};
}

/* Pairs [d, d + VL) as their first and their second elements; pairs are
 * neighbours, or `half` apart. */
SIMD_INLINE vf2 load_pairs(el e, int neighbours, const char *x, int64_t d, int64_t half)
{
    if (neighbours)
        return v_load_neighbours(e, x, d);
    return (vf2){v_load(e, x, d), v_load(e, x + half * el_size(e), d)};
}

SIMD_INLINE void write_pairs(el e, int stream, int neighbours, char *y, int64_t d, int64_t half,
                             vf2 v)
{
    if (neighbours) {
        v_write_neighbours(e, stream, y, d, v);
        return;
    }
    v_store(e, y, d, v.a);
    v_store(e, y + half * el_size(e), d, v.b);
}

SIMD_INLINE vf2 load_pairs_n(el e, int neighbours, const char *x, int64_t d, int64_t half,
                             int64_t n)
{
    if (neighbours)
        return v_load_neighbours_n(e, x, d, n);
    return (vf2){v_load_n(e, x, d, n, 0.0f), v_load_n(e, x + half * el_size(e), d, n, 0.0f)};
}

SIMD_INLINE void store_pairs_n(el e, int neighbours, char *y, int64_t d, int64_t half, int64_t n,
                               vf2 v)
{
    if (neighbours) {
        v_store_neighbours_n(e, y, d, n, v);
        return;
    }
    v_store_n(e, y, d, n, v.a);
    v_store_n(e, y + half * el_size(e), d, n, v.b);
}

SIMD_INLINE vf2 turned(vf2 v, vf c, vf s)
{
    return (vf2){v.a * c - v.b * s, v.b * c + v.a * s};
}

/* What of a row is turned, from x to y. */
SIMD_INLINE void turn(el e, el te, int stream, int from, int to, const rotary_job *j,
                      rotary_angles at, const char *x, char *y)
{
    const vf sign = v_set(j->direction);
    const int64_t half = j->half;
    int64_t d = 0;
    for (; d + VL <= half; d += VL) {
        const vf2 v = load_pairs(e, from, x, d, half);
        const vf c = v_load(te, at.cos, d), s = v_load(te, at.sin, d) * sign;
        write_pairs(e, stream, to, y, d, half, turned(v, c, s));
    }
    if (d < half) {
        const int64_t n = half - d;
        const vf2 v = load_pairs_n(e, from, x, d, half, n);
        const vf c = v_load_n(te, at.cos, d, n, 0.0f), s = v_load_n(te, at.sin, d, n, 0.0f) * sign;
        store_pairs_n(e, to, y, d, half, n, turned(v, c, s));
    }
}

SIMD_INLINE void turn_row(el e, el te, int stream, int from, int to, const rotary_job *j,
                          rotary_angles at, const char *x, char *y)
{
    const char *first = x + j->start * el_size(e);
    char *result = y + j->start * el_size(e);
    if (stream && to && v_streamable2(e, result))
        turn(e, te, 1, from, to, j, at, first, result);
    else
        turn(e, te, 0, from, to, j, at, first, result);
    rotary_rest(e, j, x, y);
}

SIMD_INLINE void neighbours(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                            const char *x, char *y)
{
    turn_row(e, te, stream, 1, 1, j, at, x, y);
}

SIMD_INLINE void to_halves(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                           const char *x, char *y)
{
    turn_row(e, te, stream, 1, 0, j, at, x, y);
}

SIMD_INLINE void to_neighbours(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                               const char *x, char *y)
{
    turn_row(e, te, stream, 0, 1, j, at, x, y);
}

#define CHUNK(turn)                                                             \
    static void chunk_##turn(void *arg, int64_t begin, int64_t end, int worker) \
    {                                                                           \
        rotary_chunk(find, turn, arg, begin, end, worker);                      \
    }
CHUNK(rotary_halves)
CHUNK(neighbours)
CHUNK(to_halves)
CHUNK(to_neighbours)

/* [from neighbours][to neighbours] */
static const tg_range_fn chunks[2][2] = {{chunk_rotary_halves, chunk_to_neighbours},
                                         {chunk_to_halves, chunk_neighbours}};

static rotary_table table_of(const tg_tensor *t, int64_t offset)
{
    rotary_table table = rotary_table_of(t, t->ndim - 3, t->ndim - 2);
    table.data += offset * table.position;
    return table;
}

static tg_status run(tg_ctx *ctx, rotary_args tensors, const tg_tensor *cos, const tg_tensor *sin,
                     const tg_rope_options *o)
{
    rotary_job j = rotary_job_of(tensors, o->transposed ? -1.0f : 1.0f);
    j.table_type = (el)tg_el(tg_type_of(cos));
    j.start = o->rotary_start;
    j.half = tg_rope_pairs(o, j.width);
    j.cos = table_of(cos, o->position_offset);
    j.sin = table_of(sin, o->position_offset);
    rotary_run(ctx, &j, chunks[tg_rope_is_adjacent(o, 0)][tg_rope_is_adjacent(o, 1)]);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    const tg_rope_options o = tg_rope_forward_options(args);
    return run(ctx, ROTARY_FORWARD("", args), args->cos, args->sin, &o);
}

static tg_status backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    const tg_rope_options o = tg_rope_backward_options(args);
    return run(ctx, ROTARY_BACKWARD("", args), args->cos, args->sin, &o);
}

TG_CPU_IMPLS(rope) = {
    TG_CPU_IMPL(rope_forward, forward),
    TG_CPU_IMPL(rope_backward, backward),
    TG_IMPLS_END,
};
