/* sparsemax, fast: the panels of a tensor along any dimension; what is done with one stands in
 * sparsemax_panel.h. */
#include "sparsemax_panel.h"

#include "sparsemax.h"

enum { CHUNK = 16384 };  /* elements to a chunk, at least: what is worth a thread */
enum { ROOM = 1 << 18 }; /* elements that a worker's list holds at most: 1 MiB */

typedef struct walk { /* of one tensor, in bytes */
    char *data;
    int64_t outer, step;
} walk;

typedef struct job {
    el type;
    int apart;
    int stream;               /* write past the cache */
    int64_t n, inner, strips; /* strips: panels to an outer index */
    walk from, dy, to;        /* x or y; backward alone; y or dx */
    float *scratch;
    int64_t scratch_size, room; /* floats a worker; pairs of them but one */
} job;

SIMD_INLINE char *panel_at(el e, const job *j, const walk *w, int64_t i)
{
    return w->data + i / j->strips * w->outer + i % j->strips * V_PAIR * el_size(e);
}

/* next: the panel after this one, or this one if it is the last */
SIMD_INLINE void one_panel(el e, int apart, int stream, const job *j, int64_t i, int64_t next,
                           int worker)
{
    const int64_t beside = j->inner - i % j->strips * V_PAIR;
    const panel p = {apart ? j->n : (j->n + V_PAIR - 1) / V_PAIR,
                     apart ? (beside < V_PAIR ? beside : V_PAIR) : j->n};
    const int64_t pair = V_PAIR * el_size(e);
    const char *from = panel_at(e, j, &j->from, i);
    char *to = panel_at(e, j, &j->to, i);
    const int64_t from_step = apart ? j->from.step : pair, to_step = apart ? j->to.step : pair;
    if (j->scratch)
        forward_panel(e, apart, stream, from, from_step, to, to_step, p,
                      panel_at(e, j, &j->from, next), j->scratch + worker * j->scratch_size,
                      j->room);
    else
        backward_panel(e, apart, stream, from, from_step, panel_at(e, j, &j->dy, i),
                       apart ? j->dy.step : pair, to, to_step, p);
}

SIMD_INLINE void some_panels(el e, const job *j, int64_t begin, int64_t end, int worker)
{
    for (int64_t i = begin; i < end; i++) {
        const int stream = j->stream && v_streamable2(e, panel_at(e, j, &j->to, i)) &&
                           (!j->apart || v_streamable2(e, (const char *)j->to.step));
        const int64_t next = i + 1 < end ? i + 1 : i;
        if (j->apart && stream)
            one_panel(e, 1, 1, j, i, next, worker);
        else if (j->apart)
            one_panel(e, 1, 0, j, i, next, worker);
        else if (stream)
            one_panel(e, 0, 1, j, i, next, worker);
        else
            one_panel(e, 0, 0, j, i, next, worker);
    }
    if (j->stream)
        v_fence();
}

static void chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    EL_SPECIALIZE(j->type, some_panels, j, begin, end, worker);
}

static walk walk_of(const sparsemax_cut *c)
{
    const int64_t size = (int64_t)tg_type_size(c->type);
    return (walk){c->data, c->outer_step * size, c->step * size};
}

static int in_a_row(const sparsemax_cut *c)
{
    return c->inner == 1 && c->step == 1;
}

/* from, to, and dy for backward alone */
static tg_status run(tg_ctx *ctx, sparsemax_cut from, const sparsemax_cut *dy, sparsemax_cut to)
{
    job j = {.type = (el)tg_el(from.type), .n = from.n, .inner = from.inner};
    if (from.n * from.inner * from.outer == 0)
        return TG_OK;
    j.from = walk_of(&from);
    j.to = walk_of(&to);
    j.dy = dy ? walk_of(dy) : (walk){0};
    j.apart = !in_a_row(&from) || !in_a_row(&to) || (dy && !in_a_row(dy));
    j.strips = j.apart ? (j.inner + V_PAIR - 1) / V_PAIR : 1;
    const int64_t size = (int64_t)tg_type_size(from.type), rows = from.outer * from.inner;
    j.stream =
        from.data != to.data && (!dy || dy->data != to.data) && tg_streams(rows * j.n * size);
    if (!dy) { /* one pair more, which is written before it is dropped */
        j.room = j.apart ? j.n : (j.n + V_PAIR - 1) / V_PAIR;
        j.room = j.room < ROOM / V_PAIR ? j.room : ROOM / V_PAIR;
        j.scratch_size = (j.room + 1) * V_PAIR;
        j.scratch =
            tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * j.scratch_size) * sizeof(float));
        if (!j.scratch)
            return TG_ENOMEM;
    }
    const int64_t elements = j.n * (j.apart ? V_PAIR : 1);
    tg_parallel_for(ctx, from.outer * j.strips, elements < CHUNK ? CHUNK / elements : 1, chunk, &j);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_sparsemax_forward_args *args)
{
    return run(ctx, sparsemax_cut_of(args->x, args->dim), NULL,
               sparsemax_cut_of(args->y, args->dim));
}

static tg_status backward(tg_ctx *ctx, const tg_sparsemax_backward_args *args)
{
    const sparsemax_cut dy = sparsemax_cut_of(args->dy, args->dim);
    return run(ctx, sparsemax_cut_of(args->y, args->dim), &dy,
               sparsemax_cut_of(args->dx, args->dim));
}

TG_CPU_IMPLS(sparsemax) = {
    TG_CPU_IMPL(sparsemax_forward, forward),
    TG_CPU_IMPL(sparsemax_backward, backward),
    TG_IMPLS_END,
};
