/* parameters.c - where each parameter lies among all, what it begins with, and how they go to
 * the device and back. */
#include <math.h>
#include <string.h>

#include "data.h"
#include "model.h"
#include "ranks/ranks.h"

enum { ALIGN = 64 }; /* elements: each parameter starts on a cache line */

/* ---- places ---- */

/* How far parameters have been laid out. */
typedef struct layout {
    model *m;
    int64_t at;
} layout;

static void place(layout *l, weight *w, int64_t rows, int64_t cols)
{
    model *m = l->m;
    const int64_t n = rows * cols;
    w->at = l->at;
    if (m->param) { /* the second walk, when the memory is there */
        const int ndim = rows == 1 ? 1 : 2;
        const int64_t shape[2] = {rows == 1 ? cols : rows, cols};
        array_set(m, &w->p, m->param + l->at * (int64_t)tg_type_size(m->type), m->type, ndim,
                  shape);
        if (m->grad)
            array_set(m, &w->g, model_grad(m, l->at), TG_F32, ndim, shape);
    } else {
        m->used += n;
    }
    l->at += (n + ALIGN - 1) / ALIGN * ALIGN;
}

float *model_grad(const model *m, int64_t at)
{
    if (at < m->tables)
        return m->table_grad + at;
    const int64_t layers = m->o->layers, layer = (m->decayed - m->tables) / layers;
    const int64_t before = (at - m->tables) / layer; /* layers */
    return m->grad + (at - m->tables) - (before < layers ? before : layers) * m->apart;
}

/* Of experts that cards share out a device has its own. */
void model_take_params(model *m)
{
    const size_t el = tg_type_size(m->type), bytes = (size_t)m->count * el;
    if (!m->apart) {
        m->param = take_tensors(m->r, bytes);
        return;
    }
    const int64_t experts = m->o->experts;
    part_of_tensors *parts = take_memory((size_t)(4 * m->o->layers + 1) * sizeof(*parts));
    int count = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < 2 * m->o->layers; i++) {
        const layer *l = &m->layers[i / 2];
        const weight *w = i % 2 ? &l->wdown : &l->wgate_up;
        const int64_t each = (i % 2 ? 1 : 2) * m->o->expert_ff * m->o->width;
        const int64_t first = expert_begin(experts, ranks_here(), ranks_count());
        const int64_t end = expert_begin(experts, ranks_here() + 1, ranks_count());
        if (w->at > at)
            parts[count++] = (part_of_tensors){(size_t)at * el, (size_t)(w->at - at) * el};
        parts[count++] = (part_of_tensors){(size_t)(w->at + first * each) * el,
                                           (size_t)((end - first) * each) * el};
        at = w->at + (experts * each + ALIGN - 1) / ALIGN * ALIGN;
    }
    parts[count++] = (part_of_tensors){(size_t)at * el, (size_t)(m->count - at) * el};
    m->param = take_parts(m->r, bytes, parts, count);
}

void model_place(model *m)
{
    const options *o = m->o;
    layout l = {m, 0};
    place(&l, &m->embed, o->vocab, o->width);
    if (o->untied)
        place(&l, &m->head, o->vocab, o->width);
    m->tables = l.at;
    for (int64_t i = 0; i < o->layers; i++) {
        layer *x = &m->layers[i];
        place(&l, &x->wqkv, m->qkv_width, o->width);
        place(&l, &x->wo, o->width, m->inner);
        if (o->experts) {
            place(&l, &x->x.router, o->experts, o->width);
            place(&l, &x->wgate_up, o->experts * 2 * o->expert_ff, o->width);
            place(&l, &x->wdown, o->experts * o->width, o->expert_ff);
        } else {
            place(&l, &x->wgate_up, 2 * o->ff, o->width);
            place(&l, &x->wdown, o->width, o->ff);
        }
    }
    m->decayed = l.at;
    for (int64_t i = 0; i <= o->layers; i++)
        place(&l, &m->norm1[i], 1, o->width);
    for (int64_t i = 0; i < o->layers; i++)
        place(&l, &m->layers[i].norm2, 1, o->width);
    for (int64_t i = 0; o->qk_norm && i < o->layers; i++) {
        place(&l, &m->layers[i].qnorm, 1, m->head_dim);
        place(&l, &m->layers[i].knorm, 1, m->head_dim);
    }
    m->count = l.at;
}

/* ---- values ---- */

/* One matrix of normal numbers: Box and Muller over hashes of the elements' places. */
typedef struct normal_task {
    model *m;
    int64_t base;
    float deviation;
} normal_task;

void model_set(model *m, int64_t i, float value)
{
    if (m->type == TG_F32) {
        ((float *)m->param)[i] = value;
        return;
    }
    ((uint16_t *)m->param)[i] = bf16_of(value);
    const int64_t place = m->master ? shards_place(&m->shards, i) : -1;
    if (place >= 0)
        m->master[place] = value;
}

/* Values of parameters that follow one another. */
typedef struct values {
    const model *m;
    const float *of;
} values;

static void set_masters(void *user, int64_t offset, int64_t place, int64_t n)
{
    const values *v = user;
    memcpy(v->m->master + place, v->of + offset, (size_t)n * sizeof(*v->of));
}

static void set_values(model *m, int64_t at, int64_t n, const float *of)
{
    values v = {m, of};
    if (m->type == TG_F32)
        memcpy((float *)m->param + at, of, (size_t)n * sizeof(*of));
    for (int64_t i = 0; m->type != TG_F32 && i < n; i++)
        ((uint16_t *)m->param)[at + i] = bf16_of(of[i]);
    if (m->type != TG_F32 && m->master)
        shards_each(&m->shards, at, n, set_masters, &v);
}

static void fill_normal(void *arg, int64_t begin, int64_t end, int worker)
{
    enum { SOME = 1024 };
    const normal_task *t = arg;
    float some[SOME];
    (void)worker;
    for (int64_t at = t->base + begin, n; at < t->base + end; at += n) {
        n = t->base + end - at < SOME ? t->base + end - at : SOME;
        for (int64_t i = 0; i < n; i++) {
            const uint64_t h = hash_at((uint64_t)t->m->o->seed ^ 0x5eed, (uint64_t)(at + i));
            const float u = ((float)(h >> 40) + 0.5f) / 16777216.0f;
            const float a = (float)(h & 0xffffff) * (6.28318531f / 16777216.0f);
            some[i] = t->deviation * sqrtf(-2 * logf(u)) * cosf(a);
        }
        set_values(t->m, at, n, some);
    }
}

static void init_elements(model *m, int64_t at, int64_t count, float deviation)
{
    normal_task task = {m, at, deviation};
    tg_parallel_for(m->r->ctx, count, 1 << 14, fill_normal, &task);
}

static void init_matrix(model *m, const weight *w, float deviation)
{
    init_elements(m, w->at, tg_numel(&w->p.t), deviation);
}

/* Of the experts that this rank has. */
static void init_experts(model *m, const weight *w, float deviation)
{
    const int64_t experts = m->o->experts, each = tg_numel(&w->p.t) / experts;
    for (int64_t i = 0; i < experts; i++)
        if (shards_has(&m->shards, w->at + i * each))
            init_elements(m, w->at + i * each, each, deviation);
}

/* ---- to the device and back ---- */

static void move(const model *m, void (*to)(run *r, void *host, size_t bytes))
{
    float *const state[] = {m->m, m->v, m->master};
    to(m->r, m->param, (size_t)m->count * tg_type_size(m->type));
    for (int i = 0; i < 3; i++)
        if (state[i])
            to(m->r, state[i], (size_t)m->shards.owned * sizeof(float));
}

void model_params_to_device(const model *m)
{
    to_device(m->r, m->param, (size_t)m->count * tg_type_size(m->type));
    if (m->master)
        to_device(m->r, m->master, (size_t)m->shards.owned * sizeof(*m->master));
    run_wait(m->r);
}

void model_to_device(const model *m)
{
    move(m, to_device);
    run_wait(m->r);
}

void model_from_device(const model *m)
{
    move(m, from_device);
}

void model_init(model *m)
{
    const options *o = m->o;
    const float small = 0.02f / sqrtf(2 * (float)o->layers); /* for what is added to the stream */
    init_matrix(m, &m->embed, 0.02f);
    if (o->untied)
        init_matrix(m, &m->head, 0.02f);
    for (int64_t i = 0; i < o->layers; i++) {
        init_matrix(m, &m->layers[i].wqkv, 0.02f);
        init_matrix(m, &m->layers[i].wo, small);
        if (o->experts) {
            init_matrix(m, &m->layers[i].x.router, 0.02f);
            init_experts(m, &m->layers[i].wgate_up, 0.02f);
            init_experts(m, &m->layers[i].wdown, small);
        } else {
            init_matrix(m, &m->layers[i].wgate_up, 0.02f);
            init_matrix(m, &m->layers[i].wdown, small);
        }
    }
    for (int64_t i = m->decayed; i < m->count; i++)
        model_set(m, i, 1);
    model_params_to_device(m); /* moments are zeros there */
}
