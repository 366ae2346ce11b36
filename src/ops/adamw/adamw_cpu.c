/* adamw on the CPU: one pass over all five arrays. */
#include "adamw.h"
#include "rows/rows.h"

enum { AHEAD = 256 }; /* elements from a load to its prefetch */

typedef struct adamw_job {
    void *param;
    float *master;
    const void *grad;
    float *m, *v;
    el type, grad_type;
    int stream; /* param is written past the cache */
    float scale, beta1, rest1, beta2, rest2, keep, step, root, eps;
} adamw_job;

/* One vector: new m, v and p. Without FMA the same formula with two roundings more. */
SIMD_INLINE vf updated(const adamw_job *j, vf p, vf g, vf *m, vf *v)
{
    g *= v_set(j->scale);
    *m = *m * v_set(j->beta1) + g * v_set(j->rest1);
    *v = *v * v_set(j->beta2) + g * g * v_set(j->rest2);
    const vf below = v_sqrt(*v) * v_set(j->root) + v_set(j->eps);
    return p * v_set(j->keep) - *m * v_set(j->step) / below;
}

SIMD_INLINE void step_n(el e, el ge, int has_master, const adamw_job *j, int64_t i, int64_t n)
{
    vf m = v_load_n(EL_F32, j->m, i, n, 0), v = v_load_n(EL_F32, j->v, i, n, 0);
    const vf old =
        has_master ? v_load_n(EL_F32, j->master, i, n, 0) : v_load_n(e, j->param, i, n, 0);
    const vf p = updated(j, old, v_load_n(ge, j->grad, i, n, 0), &m, &v);
    v_store_n(EL_F32, j->m, i, n, m);
    v_store_n(EL_F32, j->v, i, n, v);
    if (has_master)
        v_store_n(EL_F32, j->master, i, n, p);
    v_store_n(e, j->param, i, n, p);
}

/* Four to five streams, each with writes: the hardware's prefetchers keep too short a distance. */
SIMD_INLINE void prefetch(el e, el ge, int has_master, const adamw_job *j, int64_t i)
{
    v_prefetch(j->m + i);
    v_prefetch(j->v + i);
    v_prefetch((const char *)j->grad + i * el_size(ge));
    if (has_master)
        v_prefetch(j->master + i);
    else
        v_prefetch((const char *)j->param + i * el_size(e));
}

SIMD_INLINE void range(el e, el ge, int has_master, const adamw_job *j, int64_t begin, int64_t end)
{
    int64_t i = begin;
    for (; i + VL <= end; i += VL) {
        prefetch(e, ge, has_master, j, i + AHEAD);
        vf m = v_load(EL_F32, j->m, i), v = v_load(EL_F32, j->v, i);
        const vf old = has_master ? v_load(EL_F32, j->master, i) : v_load(e, j->param, i);
        const vf p = updated(j, old, v_load(ge, j->grad, i), &m, &v);
        v_store(EL_F32, j->m, i, m);
        v_store(EL_F32, j->v, i, v);
        if (has_master)
            v_store(EL_F32, j->master, i, p);
        if (has_master && j->stream)
            v_stream(e, j->param, i, p);
        else
            v_store(e, j->param, i, p);
    }
    if (i < end)
        step_n(e, ge, has_master, j, i, end - i);
    if (has_master && j->stream)
        v_fence();
}

static void with_master(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const adamw_job *j = arg;
    if (j->grad_type == EL_F32)
        EL_SPECIALIZE(j->type, range, EL_F32, 1, j, begin, end);
    else if (j->type == EL_BF16)
        range(EL_BF16, EL_BF16, 1, j, begin, end);
    else
        range(EL_F16, EL_F16, 1, j, begin, end);
}

static void in_place(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const adamw_job *j = arg;
    if (j->grad_type == EL_F32)
        EL_SPECIALIZE(j->type, range, EL_F32, 0, j, begin, end);
    else if (j->type == EL_BF16)
        range(EL_BF16, EL_BF16, 0, j, begin, end);
    else
        range(EL_F16, EL_F16, 0, j, begin, end);
}

static tg_status adamw(tg_ctx *ctx, const tg_adamw_args *a)
{
    const adamw_factors f = adamw_factors_of(a);
    const int64_t n = f.runs ? tg_numel(a->param) : 0;
    adamw_job j = {.param = tg_data(a->param), .master = tg_data(a->master)};
    j.grad = tg_data(a->grad);
    j.m = tg_data(a->m);
    j.v = tg_data(a->v);
    j.type = el_of(a->param);
    j.grad_type = el_of(a->grad);
    j.stream = tg_streams(n * el_size(j.type)) && v_streamable(j.type, j.param);
    j.scale = (float)f.scale;
    j.beta1 = (float)f.beta1;
    j.rest1 = (float)(1 - f.beta1);
    j.beta2 = (float)f.beta2;
    j.rest2 = (float)(1 - f.beta2);
    j.keep = (float)f.keep;
    j.step = (float)f.step;
    j.root = (float)f.root;
    j.eps = (float)f.eps;
    tg_parallel_for(ctx, n, ROWS_WORTH, a->master ? with_master : in_place, &j);
    return TG_OK;
}

TG_CPU_IMPLS(adamw) = {TG_CPU_IMPL(adamw, adamw), TG_IMPLS_END};
