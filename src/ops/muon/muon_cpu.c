/* muon_momentum and muon_update on the CPU: one pass each. */
#include <string.h>

#include "muon.h"
#include "rows/rows.h"

enum { AHEAD = 256 }; /* elements from a load to its prefetch */

/* ---- momentum ---- */

typedef struct momentum_job {
    const void *grad;
    void *m, *update;
    el type;
    int wide_grad, wide_m; /* 1: f32 */
    int stream;            /* update is written past the cache */
    float scale, momentum, rest;
    int plain;
} momentum_job;

/* One vector: m becomes the next one, the result is what is to be orthogonalised. */
SIMD_INLINE vf momentum_of(const momentum_job *j, vf g, vf *m)
{
    g *= v_set(j->scale * j->rest);
    *m = *m * v_set(j->momentum) + g;
    return j->plain ? *m : *m * v_set(j->momentum) + g;
}

SIMD_INLINE void momentum_range(el e, el ge, el me, const momentum_job *j, int64_t begin,
                                int64_t end)
{
    int64_t i = begin;
    for (; i + VL <= end; i += VL) {
        v_prefetch((const char *)j->m + (i + AHEAD) * el_size(me));
        v_prefetch((const char *)j->grad + (i + AHEAD) * el_size(ge));
        vf m = v_load(me, j->m, i);
        const vf update = momentum_of(j, v_load(ge, j->grad, i), &m);
        v_store(me, j->m, i, m);
        if (j->stream)
            v_stream(e, j->update, i, update);
        else
            v_store(e, j->update, i, update);
    }
    if (i < end) {
        vf m = v_load_n(me, j->m, i, end - i, 0);
        const vf update = momentum_of(j, v_load_n(ge, j->grad, i, end - i, 0), &m);
        v_store_n(me, j->m, i, end - i, m);
        v_store_n(e, j->update, i, end - i, update);
    }
    if (j->stream)
        v_fence();
}

SIMD_INLINE void momentum_types(el e, const momentum_job *j, int64_t begin, int64_t end)
{
    if (j->wide_grad && j->wide_m)
        momentum_range(e, EL_F32, EL_F32, j, begin, end);
    else if (j->wide_grad)
        momentum_range(e, EL_F32, e, j, begin, end);
    else if (j->wide_m)
        momentum_range(e, e, EL_F32, j, begin, end);
    else
        momentum_range(e, e, e, j, begin, end);
}

static void momentum_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const momentum_job *j = arg;
    EL_SPECIALIZE(j->type, momentum_types, j, begin, end);
}

static void clear(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const momentum_job *j = arg;
    const int64_t size = el_size(j->type);
    memset((char *)j->update + begin * size, 0, (size_t)((end - begin) * size));
}

static tg_status run_momentum(tg_ctx *ctx, const tg_muon_momentum_args *a)
{
    double scale;
    const int steps = muon_scale(a, &scale);
    const int64_t n = tg_numel(a->update);
    momentum_job j = {.grad = tg_data(a->grad), .m = tg_data(a->m), .update = tg_data(a->update)};
    j.type = el_of(a->update);
    j.wide_grad = el_of(a->grad) == EL_F32;
    j.wide_m = el_of(a->m) == EL_F32;
    j.stream = tg_streams(n * el_size(j.type)) && v_streamable(j.type, j.update);
    j.scale = (float)scale;
    j.momentum = (float)a->momentum;
    j.rest = (float)(1 - a->momentum);
    j.plain = a->plain != 0;
    tg_parallel_for(ctx, n, ROWS_WORTH, steps ? momentum_chunk : clear, &j);
    return TG_OK;
}

/* ---- the update ---- */

typedef struct update_job {
    void *param;
    float *master;
    const void *update;
    el type;
    int stream; /* param is written past the cache */
    float keep, step;
} update_job;

SIMD_INLINE vf updated(const update_job *j, vf p, vf update)
{
    return p * v_set(j->keep) - update * v_set(j->step);
}

SIMD_INLINE void update_range(el e, int has_master, const update_job *j, int64_t begin, int64_t end)
{
    const el pe = has_master ? EL_F32 : e;
    void *const p = has_master ? (void *)j->master : j->param;
    int64_t i = begin;
    for (; i + VL <= end; i += VL) {
        v_prefetch((const char *)p + (i + AHEAD) * el_size(pe));
        v_prefetch((const char *)j->update + (i + AHEAD) * el_size(e));
        const vf next = updated(j, v_load(pe, p, i), v_load(e, j->update, i));
        v_store(pe, p, i, next);
        if (has_master && j->stream)
            v_stream(e, j->param, i, next);
        else if (has_master)
            v_store(e, j->param, i, next);
    }
    if (i < end) {
        const int64_t n = end - i;
        const vf next = updated(j, v_load_n(pe, p, i, n, 0), v_load_n(e, j->update, i, n, 0));
        v_store_n(pe, p, i, n, next);
        if (has_master)
            v_store_n(e, j->param, i, n, next);
    }
    if (has_master && j->stream)
        v_fence();
}

SIMD_INLINE void update_types(el e, const update_job *j, int64_t begin, int64_t end)
{
    if (j->master)
        update_range(e, 1, j, begin, end);
    else
        update_range(e, 0, j, begin, end);
}

static void update_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const update_job *j = arg;
    EL_SPECIALIZE(j->type, update_types, j, begin, end);
}

static tg_status run_update(tg_ctx *ctx, const tg_muon_update_args *a)
{
    const int64_t n = muon_steps(a->grad_squares) ? tg_numel(a->param) : 0;
    update_job j = {.param = tg_data(a->param), .update = tg_data(a->update)};
    j.master = tg_data(a->master);
    j.type = el_of(a->param);
    j.stream = tg_streams(n * el_size(j.type)) && v_streamable(j.type, j.param);
    j.keep = (float)(1 - a->lr * a->weight_decay);
    j.step = (float)(a->lr * a->factor);
    tg_parallel_for(ctx, n, ROWS_WORTH, update_chunk, &j);
    return TG_OK;
}

TG_CPU_IMPLS(muon) = {TG_CPU_IMPL(muon_momentum, run_momentum),
                      TG_CPU_IMPL(muon_update, run_update), TG_IMPLS_END};
