/* swiglu, fast: one pass, one exponential and one reciprocal an element. */
#include "simd.h"

#include "core/services.h"

/* Elements in one piece of a row. Pieces are what threads share out. */
enum { PIECE = 16384 };

/* Up to five arrays of rows of one shape, cut into pieces: the operands and results of either
 * direction. */
typedef struct job {
    el type;
    int stream; /* write past the cache */
    int64_t n, pieces;
    float gate_multiplier, down_multiplier;
    char *dy, *gate, *up, *out[2];
    int64_t dy_stride, gate_stride, up_stride, out_stride[2]; /* in bytes */
} job;

typedef struct gates {
    vf s, rest; /* sigmoid(u) and 1 - sigmoid(u) */
} gates;

/* exp(-|u|) cannot overflow, 1 + exp(-|u|) lies in [1, 2], and neither result cancels. */
SIMD_INLINE gates sigmoids(vf u)
{
    const vf power = v_exp_nonpositive(v_minus_abs(u));
    const vf large = v_recip(v_set(1.0f) + power), small = power * large;
    return (gates){v_if_negative(u, small, large), v_if_negative(u, large, small)};
}

/* Constants of the loops. */
typedef struct scales {
    vf gate, down;
} scales;

/* plain: both are 1, which the compiler leaves out */
SIMD_INLINE scales scales_of(const job *j, int plain)
{
    if (plain)
        return (scales){v_set(1.0f), v_set(1.0f)};
    return (scales){v_set(j->gate_multiplier), v_set(j->down_multiplier)};
}

SIMD_INLINE vf forward_one(vf gate, vf up, scales by)
{
    return v_silu(gate * by.gate) * (up * by.down);
}

/* Gradients of gate in a, of up in b. */
SIMD_INLINE vf2 backward_one(vf dy, vf gate, vf up, scales by)
{
    const vf g = dy * by.down, u = gate * by.gate;
    const gates sigmoid = sigmoids(u);
    const vf gs = g * sigmoid.s;
    return (vf2){gs * (up * by.gate) * (u * sigmoid.rest + v_set(1.0f)), gs * u};
}

SIMD_INLINE void forward_some(el e, const char *gate, const char *up, char *y, int64_t begin,
                              int64_t end, scales by)
{
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        v_store_n(e, y, i, n,
                  forward_one(v_load_n(e, gate, i, n, 0.0f), v_load_n(e, up, i, n, 0.0f), by));
    }
}

SIMD_INLINE void forward_run(el e, int stream, const char *gate, const char *up, char *y, int64_t n,
                             scales by)
{
    int64_t i = stream ? v_head2(e, y, n) : 0;
    forward_some(e, gate, up, y, 0, i, by);
    for (; i + 2 * VL <= n; i += 2 * VL) {
        v_ahead2(e, gate, i);
        v_ahead2(e, up, i);
        const vf2 a = v_load2(e, e, gate, i), b = v_load2(e, e, up, i);
        v_write2_clean(e, stream, y, i,
                       (vf2){forward_one(a.a, b.a, by), forward_one(a.b, b.b, by)});
    }
    forward_some(e, gate, up, y, i, n, by);
}

SIMD_INLINE void forward_pieces(el e, int plain, const job *j, int64_t begin, int64_t end)
{
    const scales by = scales_of(j, plain);
    for (int64_t item = begin; item < end; item++) {
        const int64_t r = item / j->pieces, first = item % j->pieces * PIECE;
        const int64_t n = j->n - first < PIECE ? j->n - first : PIECE, skip = first * el_size(e);
        const char *gate = j->gate + r * j->gate_stride + skip;
        const char *up = j->up + r * j->up_stride + skip;
        char *y = j->out[0] + r * j->out_stride[0] + skip;
        if (j->stream)
            forward_run(e, 1, gate, up, y, n, by);
        else
            forward_run(e, 0, gate, up, y, n, by);
    }
    if (j->stream)
        v_fence();
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    if (j->gate_multiplier == 1.0f && j->down_multiplier == 1.0f)
        EL_SPECIALIZE(j->type, forward_pieces, 1, j, begin, end);
    else
        EL_SPECIALIZE(j->type, forward_pieces, 0, j, begin, end);
}

/* One piece of the backward arrays. */
typedef struct piece {
    const char *dy, *gate, *up;
    char *dgate, *dup;
    int64_t n;
} piece;

SIMD_INLINE void backward_some(el e, const piece *p, int64_t begin, int64_t end, scales by)
{
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        const vf2 d = backward_one(v_load_n(e, p->dy, i, n, 0.0f), v_load_n(e, p->gate, i, n, 0.0f),
                                   v_load_n(e, p->up, i, n, 0.0f), by);
        v_store_n(e, p->dgate, i, n, d.a);
        v_store_n(e, p->dup, i, n, d.b);
    }
}

SIMD_INLINE void backward_run(el e, int stream, const piece *p, scales by)
{
    int64_t i = stream ? v_head2(e, p->dgate, p->n) : 0;
    backward_some(e, p, 0, i, by);
    for (; i + 2 * VL <= p->n; i += 2 * VL) {
        v_ahead2(e, p->dy, i);
        v_ahead2(e, p->gate, i);
        v_ahead2(e, p->up, i);
        const vf2 g = v_load2(e, e, p->dy, i), a = v_load2(e, e, p->gate, i);
        const vf2 b = v_load2(e, e, p->up, i);
        const vf2 first = backward_one(g.a, a.a, b.a, by);
        const vf2 second = backward_one(g.b, a.b, b.b, by);
        v_write2_clean(e, stream, p->dgate, i, (vf2){first.a, second.a});
        v_write2_clean(e, stream, p->dup, i, (vf2){first.b, second.b});
    }
    backward_some(e, p, i, p->n, by);
}

SIMD_INLINE void backward_pieces(el e, int plain, const job *j, int64_t begin, int64_t end)
{
    const scales by = scales_of(j, plain);
    for (int64_t item = begin; item < end; item++) {
        const int64_t r = item / j->pieces, first = item % j->pieces * PIECE;
        const int64_t skip = first * el_size(e);
        const piece p = {.dy = j->dy + r * j->dy_stride + skip,
                         .gate = j->gate + r * j->gate_stride + skip,
                         .up = j->up + r * j->up_stride + skip,
                         .dgate = j->out[0] + r * j->out_stride[0] + skip,
                         .dup = j->out[1] + r * j->out_stride[1] + skip,
                         .n = j->n - first < PIECE ? j->n - first : PIECE};
        /* both results have to reach an aligned address at the same element */
        if (j->stream && v_head2(e, p.dgate, p.n) == v_head2(e, p.dup, p.n))
            backward_run(e, 1, &p, by);
        else
            backward_run(e, 0, &p, by);
    }
    if (j->stream)
        v_fence();
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    if (j->gate_multiplier == 1.0f && j->down_multiplier == 1.0f)
        EL_SPECIALIZE(j->type, backward_pieces, 1, j, begin, end);
    else
        EL_SPECIALIZE(j->type, backward_pieces, 0, j, begin, end);
}

static void set_array(const tg_tensor *t, char **data, int64_t *stride)
{
    const tg_rows rows = tg_rows_of(t);
    *data = rows.data;
    *stride = rows.stride * (int64_t)tg_type_size(rows.type);
}

/* Compact arrays are one long row. Then short rows are grouped, long ones cut into pieces. */
static void run(tg_ctx *ctx, job *j, const tg_tensor *gate, tg_range_fn chunk)
{
    const tg_rows rows = tg_rows_of(gate);
    const int64_t width = rows.n * el_size(j->type);
    const int compact = (!j->dy || j->dy_stride == width) && j->gate_stride == width &&
                        j->up_stride == width && j->out_stride[0] == width &&
                        (!j->out[1] || j->out_stride[1] == width);
    const int64_t count = compact ? 1 : rows.rows;
    j->n = compact ? rows.rows * rows.n : rows.n;
    if (j->n == 0)
        return;
    j->pieces = (j->n + PIECE - 1) / PIECE;
    const int64_t grain = j->n < PIECE ? PIECE / j->n : 1;
    tg_parallel_for(ctx, count * j->pieces, grain, chunk, j);
}

static tg_status forward(tg_ctx *ctx, const tg_swiglu_forward_args *args)
{
    job j = {.type = (el)tg_el(tg_type_of(args->gate)),
             .gate_multiplier = (float)args->gate_multiplier,
             .down_multiplier = (float)args->down_multiplier};
    j.stream = tg_streams(tg_numel(args->y) * el_size(j.type));
    set_array(args->gate, &j.gate, &j.gate_stride);
    set_array(args->up, &j.up, &j.up_stride);
    set_array(args->y, &j.out[0], &j.out_stride[0]);
    run(ctx, &j, args->gate, forward_chunk);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_swiglu_backward_args *args)
{
    job j = {.type = (el)tg_el(tg_type_of(args->gate)),
             .gate_multiplier = (float)args->gate_multiplier,
             .down_multiplier = (float)args->down_multiplier};
    set_array(args->dy, &j.dy, &j.dy_stride);
    set_array(args->gate, &j.gate, &j.gate_stride);
    set_array(args->up, &j.up, &j.up_stride);
    set_array(args->dgate, &j.out[0], &j.out_stride[0]);
    set_array(args->dup, &j.out[1], &j.out_stride[1]);
    /* a line that has just been read is best written through the cache */
    j.stream = j.out[0] != j.gate && j.out[1] != j.up &&
               tg_streams(2 * tg_numel(args->gate) * el_size(j.type));
    run(ctx, &j, args->gate, backward_chunk);
    return TG_OK;
}

TG_CPU_IMPLS(swiglu) = {
    TG_CPU_IMPL(swiglu_forward, forward),
    TG_CPU_IMPL(swiglu_backward, backward),
    TG_IMPLS_END,
};
