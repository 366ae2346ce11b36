/* geglu, fast: one pass, one exponential and one reciprocal an element. */
#include "simd.h"

#include "core/services.h"

/* Elements in one piece of a row. Pieces are what threads share out. */
enum { PIECE = 16384 };

/* The arrays of either direction. OUT is y or dgate; forward has no DY and no DUP. */
enum { DY, GATE, UP, OUT, DUP, ARRAYS };

/* Arrays of rows of one shape, cut into pieces. */
typedef struct job {
    el type;
    int exact;
    int stream; /* write past the cache */
    int64_t n, pieces;
    char *data[ARRAYS];
    int64_t stride[ARRAYS]; /* in bytes */
} job;

typedef struct gelu {
    vf value, slope;
} gelu;

/* a s with s = sigmoid(u), from exp(-|u|): as in swiglu, neither s nor 1 - s is a difference. Where |a| is
 * beyond 16, s is 0 or 1, and what is clamped there keeps a^2 from overflowing. */
SIMD_INLINE gelu gelu_tanh(vf a)
{
    const vf near = v_min(v_set(16.0f), v_abs(a)), square = near * near;
    const vf linear = v_set(1.5957691216f), cubic = v_set(0.0713548163f);
    const vf minus_u = near * (square * -cubic - linear);
    const vf du = square * (v_set(3.0f) * cubic) + linear;
    const vf power = v_exp_nonpositive(minus_u);
    const vf large = v_recip(v_set(1.0f) + power), small = power * large;
    const vf s = v_if_negative(a, small, large), rest = v_if_negative(a, large, small);
    const vf value = a * s;
    return (gelu){value, value * (rest * du) + s};
}

/* a Phi(a) */
SIMD_INLINE gelu gelu_exact(vf a)
{
    const v_normals normal = v_normal(a);
    const vf below = v_if_negative(a, normal.tail, v_set(1.0f) - normal.tail);
    return (gelu){a * below, a * (normal.bell * v_set(0.3989422804f)) + below};
}

/* Forward: y in a. Backward: the gradients of gate in a, of up in b. */
SIMD_INLINE vf2 one(int exact, int backward, vf dy, vf gate, vf up)
{
    const gelu g = exact ? gelu_exact(gate) : gelu_tanh(gate);
    if (!backward)
        return (vf2){g.value * up, g.value};
    return (vf2){dy * up * g.slope, dy * g.value};
}

SIMD_INLINE void some(el e, int exact, int backward, char *const *at, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += VL) {
        const int64_t n = v_tail(end, i);
        const vf dy = backward ? v_load_n(e, at[DY], i, n, 0.0f) : v_set(0.0f);
        const vf2 d = one(exact, backward, dy, v_load_n(e, at[GATE], i, n, 0.0f),
                          v_load_n(e, at[UP], i, n, 0.0f));
        v_store_n(e, at[OUT], i, n, d.a);
        if (backward)
            v_store_n(e, at[DUP], i, n, d.b);
    }
}

SIMD_INLINE void run_piece(el e, int exact, int backward, int stream, char *const *at, int64_t n)
{
    int64_t i = stream ? v_head2(e, at[OUT], n) : 0;
    some(e, exact, backward, at, 0, i);
    for (; i + V_PAIR <= n; i += V_PAIR) {
        vf2 dy = {{0}, {0}};
        if (backward) {
            v_ahead2(e, at[DY], i);
            dy = v_load2(e, e, at[DY], i);
        }
        v_ahead2(e, at[GATE], i);
        v_ahead2(e, at[UP], i);
        const vf2 gate = v_load2(e, e, at[GATE], i), up = v_load2(e, e, at[UP], i);
        const vf2 first = one(exact, backward, dy.a, gate.a, up.a);
        const vf2 second = one(exact, backward, dy.b, gate.b, up.b);
        v_write2_clean(e, stream, at[OUT], i, (vf2){first.a, second.a});
        if (backward)
            v_write2_clean(e, stream, at[DUP], i, (vf2){first.b, second.b});
    }
    some(e, exact, backward, at, i, n);
}

SIMD_INLINE void run_pieces(el e, int exact, int backward, const job *j, int64_t begin, int64_t end)
{
    for (int64_t item = begin; item < end; item++) {
        const int64_t r = item / j->pieces, first = item % j->pieces * PIECE;
        const int64_t n = j->n - first < PIECE ? j->n - first : PIECE;
        char *at[ARRAYS];
        for (int k = backward ? DY : GATE; k <= (backward ? DUP : OUT); k++)
            at[k] = j->data[k] + r * j->stride[k] + first * el_size(e);
        /* both results have to reach an aligned address at the same element */
        if (j->stream && (!backward || v_head2(e, at[OUT], n) == v_head2(e, at[DUP], n)))
            run_piece(e, exact, backward, 1, at, n);
        else
            run_piece(e, exact, backward, 0, at, n);
    }
    if (j->stream)
        v_fence();
}

static void forward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    if (j->exact)
        EL_SPECIALIZE(j->type, run_pieces, 1, 0, j, begin, end);
    else
        EL_SPECIALIZE(j->type, run_pieces, 0, 0, j, begin, end);
}

static void backward_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    if (j->exact)
        EL_SPECIALIZE(j->type, run_pieces, 1, 1, j, begin, end);
    else
        EL_SPECIALIZE(j->type, run_pieces, 0, 1, j, begin, end);
}

/* Compact arrays are one long row. Then short rows are grouped, long ones cut into pieces. */
static void run(tg_ctx *ctx, job *j, const tg_tensor *const tensors[ARRAYS], tg_range_fn chunk)
{
    const tg_rows gate = tg_rows_of(tensors[GATE]);
    int compact = 1;
    for (int k = 0; k < ARRAYS; k++) {
        const tg_rows rows = tg_rows_of(tensors[k]);
        j->data[k] = rows.data;
        j->stride[k] = rows.stride * el_size(j->type);
        compact &= !tensors[k] || rows.stride == rows.n;
    }
    const int64_t count = compact ? 1 : gate.rows;
    j->n = compact ? gate.rows * gate.n : gate.n;
    if (j->n == 0)
        return;
    j->pieces = (j->n + PIECE - 1) / PIECE;
    const int64_t grain = j->n < PIECE ? PIECE / j->n : 1;
    tg_parallel_for(ctx, count * j->pieces, grain, chunk, j);
}

static tg_status forward(tg_ctx *ctx, const tg_geglu_forward_args *args)
{
    const tg_tensor *const tensors[ARRAYS] = {NULL, args->gate, args->up, args->y, NULL};
    job j = {.type = (el)tg_el(tg_type_of(args->gate)), .exact = (int)args->exact};
    j.stream = tg_streams(tg_numel(args->y) * el_size(j.type));
    run(ctx, &j, tensors, forward_chunk);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_geglu_backward_args *args)
{
    const tg_tensor *const tensors[ARRAYS] = {args->dy, args->gate, args->up, args->dgate,
                                              args->dup};
    job j = {.type = (el)tg_el(tg_type_of(args->gate)), .exact = (int)args->exact};
    /* a line that has just been read is best written through the cache */
    j.stream = tg_data(args->dgate) != tg_data(args->gate) &&
               tg_data(args->dup) != tg_data(args->up) &&
               tg_streams(2 * tg_numel(args->gate) * el_size(j.type));
    run(ctx, &j, tensors, backward_chunk);
    return TG_OK;
}

TG_CPU_IMPLS(geglu) = {
    TG_CPU_IMPL(geglu_forward, forward),
    TG_CPU_IMPL(geglu_backward, backward),
    TG_IMPLS_END,
};
