/* What forward and backward of sparsemax on the CPU share: panels of a tensor that is cut
 * along any dimension.
 *
 * A panel is a row, or a strip of rows beside each other: rows along the last dimension and those
 * along another one differ in one point, whether the lanes of a vector belong together. Both are
 * `count` pairs of vectors, `step` bytes apart.
 */
#ifndef TG_SPARSEMAX_CPU_H
#define TG_SPARSEMAX_CPU_H

#include "rows/rows.h"

/* Rows [..,N] that lie one after another in the lanes of pairs (apart = 0), or beside each other
 * (apart = 1). */
typedef struct panel {
    int64_t count; /* pairs */
    int64_t lanes; /* elements of a row (apart = 0), live lanes of all pairs (apart = 1) */
} panel;

SIMD_INLINE int64_t lanes_at(int apart, panel p, int64_t i)
{
    if (apart)
        return p.lanes;
    return p.lanes - i * V_PAIR < V_PAIR ? p.lanes - i * V_PAIR : V_PAIR;
}

/* The first `lanes` elements, behind them `fill`. */
SIMD_INLINE vf2 load_pair(el e, const char *x, int64_t lanes, float fill)
{
    if (lanes == V_PAIR)
        return v_load2(e, e, x, 0);
    const int64_t first = lanes < VL ? lanes : VL;
    return (vf2){v_load_n(e, x, 0, first, fill), v_load_n(e, x, first, lanes - first, fill)};
}

SIMD_INLINE void store_pair(el e, int stream, char *y, int64_t lanes, vf2 v)
{
    if (lanes == V_PAIR) {
        v_write2(e, stream, y, 0, v);
    } else {
        const int64_t first = lanes < VL ? lanes : VL;
        v_store_n(e, y, 0, first, v.a);
        v_store_n(e, y, first, lanes - first, v.b);
    }
}

/* Asks for the memory of a pair. */
SIMD_INLINE void prefetch_pair(el e, const char *x)
{
    __builtin_prefetch(x);
    if (V_PAIR * el_size(e) > 64)
        __builtin_prefetch(x + 64);
}

SIMD_INLINE vi is_above(vf a, float limit)
{
    return ~(a <= v_set(limit)); /* NaN is above everything, so that it stays in sight */
}

/* ---- the panels of a tensor ---- */

typedef struct walk { /* of one tensor, in bytes */
    char *data;
    int64_t outer, step;
} walk;

typedef struct job {
    el type;
    int apart;
    int stream;               /* write past the cache */
    int64_t n, inner, strips; /* strips: panels to an outer index */
    int64_t panels;
    walk from, dy, to; /* x or y; backward alone; y or dx */
    float *scratch; /* forward alone: scratch_size floats a worker; room: pairs of them but one */
    int64_t scratch_size, room;
} job;

SIMD_INLINE char *panel_at(el e, const job *j, const walk *w, int64_t i)
{
    return w->data + i / j->strips * w->outer + i % j->strips * V_PAIR * el_size(e);
}

/* Bytes from pair to pair of a panel. */
SIMD_INLINE int64_t step_of(el e, int apart, const walk *w)
{
    return apart ? w->step : V_PAIR * el_size(e);
}

/* Panel i; next: the one after it, or i if it is the last. */
typedef void (*panel_kernel)(el e, int apart, int stream, const job *j, panel p, int64_t i,
                             int64_t next, int worker);

SIMD_INLINE void visit_panels(el e, int stream, panel_kernel kernel, const job *j, int64_t begin,
                              int64_t end, int worker)
{
    for (int64_t i = begin; i < end; i++) {
        const int past = stream && v_streamable2(e, panel_at(e, j, &j->to, i)) &&
                         (!j->apart || v_streamable2(e, (const char *)j->to.step));
        const int64_t next = i + 1 < end ? i + 1 : i;
        const int64_t beside = j->inner - i % j->strips * V_PAIR;
        const panel strip = {j->n, beside < V_PAIR ? beside : V_PAIR};
        const panel row = {(j->n + V_PAIR - 1) / V_PAIR, j->n};
        if (j->apart && past)
            kernel(e, 1, 1, j, strip, i, next, worker);
        else if (j->apart)
            kernel(e, 1, 0, j, strip, i, next, worker);
        else if (past)
            kernel(e, 0, 1, j, row, i, next, worker);
        else
            kernel(e, 0, 0, j, row, i, next, worker);
    }
}

static inline walk walk_of(const tg_cut *c)
{
    const int64_t size = (int64_t)tg_type_size(c->type);
    return (walk){c->data, c->outer_step * size, c->step * size};
}

static inline int in_a_row(const tg_cut *c)
{
    return c->inner == 1 && c->step == 1;
}

/* dy: NULL for forward */
static inline job job_of(const tg_cut *from, const tg_cut *dy, const tg_cut *to)
{
    const int64_t size = (int64_t)tg_type_size(from->type);
    job j = {.type = (el)tg_el(from->type),
             .apart = !in_a_row(from) || !in_a_row(to) || (dy && !in_a_row(dy)),
             .n = from->n,
             .inner = from->inner,
             .from = walk_of(from),
             .to = walk_of(to)};
    if (dy)
        j.dy = walk_of(dy);
    j.strips = j.apart ? (j.inner + V_PAIR - 1) / V_PAIR : 1;
    j.panels = j.n ? from->outer * j.strips : 0;
    j.stream = j.dy.data != j.to.data &&
               rows_stream(from->outer * from->inner * j.n * size, j.to.data, j.from.data);
    return j;
}

static inline void run_panels(tg_ctx *ctx, job *j, tg_range_fn chunk)
{
    const int64_t elements = j->n * (j->apart ? V_PAIR : 1);
    tg_parallel_for(ctx, j->panels, rows_grain(j->panels, elements, 1), chunk, j);
}

#endif
