/* model.c - the views that the passes use. */
#include "model.h"

#include <math.h>
#include <string.h>

#include "dispatch.h"
#include "experts.h"
#include "gradients.h"
#include "muon.h"
#include "ranks/ranks.h"
#include "ring.h"

/* ---- arrays ---- */

void array_set(model *m, array *a, const void *data, tg_type type, int ndim, const int64_t *shape)
{
    memcpy(a->shape, shape, (size_t)ndim * sizeof(*shape));
    a->t = tensor_at(m->r, data, type, ndim, a->shape);
}

static void vector(model *m, array *a, const void *data, tg_type type, int64_t n)
{
    array_set(m, a, data, type, 1, (int64_t[]){n});
}

static void matrix(model *m, array *a, const void *data, tg_type type, int64_t rows, int64_t cols)
{
    array_set(m, a, data, type, 2, (int64_t[]){rows, cols});
}

/* Columns of a matrix. */
static void columns(array *a, const array *of, int64_t start, int64_t count)
{
    a->t = tg_tensor_slice(&of->t, start, count, a->shape, a->strides);
}

/* Columns of a matrix of batch * seq rows, as [batch, seq, heads, head_dim]. */
static void by_heads(array *a, const array *of, int64_t start, int64_t batch, int64_t heads,
                     int64_t head_dim)
{
    const int64_t seq = of->shape[0] / batch, width = of->shape[1];
    columns(a, of, start, heads * head_dim);
    a->t.ndim = 4;
    memcpy(a->shape, (int64_t[]){batch, seq, heads, head_dim}, sizeof(a->shape));
    memcpy(a->strides, (int64_t[]){seq * width, width, head_dim, 1}, sizeof(a->strides));
}

/* ---- activations ---- */

/* Of the pair of elements at `part` of a head. With --rope-factor those of few turns in the window
 * are divided by it, those of many are not, and between them goes a line. */
static double frequency(const options *o, double part)
{
    const double f = pow(o->theta, -part), turns = o->rope_window * f / 6.28318530717958648;
    if (o->rope_factor == 0 || turns > o->rope_high)
        return f;
    const double whole = fmax(0, (turns - o->rope_low) / (o->rope_high - o->rope_low));
    return (1 - whole) * f / o->rope_factor + whole * f;
}

static void init_rope(model *m)
{
    const int64_t seq = m->o->seq, half = m->head_dim / 2;
    float *c = take_tensors(m->r, (size_t)(seq * half) * sizeof(*c));
    float *s = take_tensors(m->r, (size_t)(seq * half) * sizeof(*s));
    for (int64_t p = 0; p < seq; p++)
        for (int64_t i = 0; i < half; i++) {
            const double angle = (double)p * frequency(m->o, (double)i / (double)half);
            c[p * half + i] = (float)cos(angle);
            s[p * half + i] = (float)sin(angle);
        }
    to_device(m->r, c, (size_t)(seq * half) * sizeof(*c));
    to_device(m->r, s, (size_t)(seq * half) * sizeof(*s));
    matrix(m, &m->cosine, c, TG_F32, seq, half);
    matrix(m, &m->sine, s, TG_F32, seq, half);
}

/* Queries and keys that are normalised lie apart from what they are made of. */
static void bind_normed(model *m, layer *l, extent x, int64_t batch)
{
    const options *o = m->o;
    const int64_t n = x.batch * x.count, dim = m->head_dim, el = (int64_t)tg_type_size(m->type);
    const int64_t keys = o->kv_heads * dim;
    array all; /* keys of the earlier positions and of these */
    by_heads(&l->raw_q, &l->qkv, 0, batch, o->heads, dim);
    by_heads(&l->raw_k, &l->qkv, m->inner, batch, o->kv_heads, dim);
    matrix(m, &l->qs, l->qs_data, m->type, n, m->inner);
    matrix(m, &l->ks, l->ks_data + x.first * keys * el, m->type, n, keys);
    matrix(m, &all, l->ks_data, m->type, x.batch * (x.first + x.count), keys);
    by_heads(&l->q, &l->qs, 0, batch, o->heads, dim);
    by_heads(&l->new_k, &l->ks, 0, batch, o->kv_heads, dim);
    by_heads(&l->k, &all, 0, batch, o->kv_heads, dim);
    matrix(m, &l->qrstd, l->qrstd_data, TG_F32, n, o->heads);
    matrix(m, &l->krstd, l->krstd_data, TG_F32, n, o->kv_heads);
}

static void bind_layer(model *m, layer *l, extent x)
{
    const options *o = m->o;
    const int64_t n = x.batch * x.count, dim = m->head_dim, el = (int64_t)tg_type_size(m->type);
    const int64_t k_at = o->heads * dim, v_at = k_at + o->kv_heads * dim;
    array all; /* qkv of the earlier positions and of these */
    const int64_t batch = x.what == PACKED ? 1 : x.batch;
    matrix(m, &all, l->qkv_data, m->type, x.batch * (x.first + x.count), m->qkv_width);
    matrix(m, &l->qkv, l->qkv_data + x.first * m->qkv_width * el, m->type, n, m->qkv_width);
    by_heads(&l->q, &l->qkv, 0, batch, o->heads, dim);
    by_heads(&l->new_k, &l->qkv, k_at, batch, o->kv_heads, dim);
    by_heads(&l->k, &all, k_at, batch, o->kv_heads, dim);
    by_heads(&l->v, &all, v_at, batch, o->kv_heads, dim);
    if (o->qk_norm)
        bind_normed(m, l, x, batch);
    matrix(m, &l->attended, l->attended_data, m->type, n, m->inner);
    by_heads(&l->attended4, &l->attended, 0, batch, o->heads, dim);
    array_set(m, &l->lse, l->lse_data, TG_F32, 3, (int64_t[]){batch, o->heads, n / batch});
    matrix(m, &l->s2, l->s2_data, m->type, n, o->width);
    vector(m, &l->rstd2, l->rstd2_data, TG_F32, n);
    if (o->experts) {
        experts_bind(m, l, n);
    } else {
        matrix(m, &l->gate_up, l->gate_up_data, m->type, n, 2 * o->ff);
        columns(&l->gate, &l->gate_up, 0, o->ff);
        columns(&l->up, &l->gate_up, o->ff, o->ff);
    }
    matrix(m, &l->normed1, l->normed1_data, m->type, n, o->width);
    matrix(m, &l->normed2, l->normed2_data, m->type, n, o->width);
    matrix(m, &l->h, l->h_data, m->type, n, o->ff);
}

void model_bind(model *m, extent x)
{
    const options *o = m->o;
    const int64_t n = x.batch * x.count, dim = m->head_dim, el = (int64_t)tg_type_size(m->type);
    const int64_t batch = x.what == PACKED ? 1 : x.batch;
    for (int64_t i = 0; i <= o->layers; i++) {
        const layer *l = i < o->layers ? &m->layers[i] : NULL;
        matrix(m, &m->s1[i], l ? l->s1_data : m->last_s1_data, m->type, n, o->width);
        vector(m, &m->rstd1[i], l ? l->rstd1_data : m->last_rstd1_data, TG_F32, n);
    }
    for (int64_t i = 0; i < o->layers; i++)
        bind_layer(m, &m->layers[i], x);
    matrix(m, &m->y, m->y_data, m->type, n, o->width);
    matrix(m, &m->dattended, m->y_data, m->type, n, m->inner);
    by_heads(&m->y4, &m->dattended, 0, batch, o->heads, dim);
    matrix(m, &m->d, m->d_data, m->type, n, o->width);
    matrix(m, &m->e, m->e_data, m->type, n, o->width);
    matrix(m, &m->h, m->h_data, m->type, n, o->ff);
    matrix(m, &m->dqkv, m->dqkv_data, m->type, n, m->qkv_width);
    by_heads(&m->dq, &m->dqkv, 0, batch, o->heads, dim);
    by_heads(&m->dk, &m->dqkv, o->heads * dim, batch, o->kv_heads, dim);
    by_heads(&m->dv, &m->dqkv, (o->heads + o->kv_heads) * dim, batch, o->kv_heads, dim);
    matrix(m, &m->last, m->y_data + (n - 1) * o->width * el, m->type, 1, o->width);
    matrix(m, &m->logits, m->logits_data, TG_F32, 1, o->vocab);
    const int64_t table[3] = {batch, n / batch, dim / 2};
    if (x.what != WHOLE) {
        array_set(m, &m->row_cosine, m->row_cosine_data, TG_F32, 3, table);
        array_set(m, &m->row_sine, m->row_sine_data, TG_F32, 3, table);
    }
    m->first = x.first;
    m->what = x.what;
    model_step_place(m, 0);
}

void model_step_place(model *m, int64_t place)
{
    m->place = place;
    vector(m, &m->squares, model_results(m, place) + m->o->accumulate, TG_F32, 1);
    model_micro_batch(m, 0);
}

windows *model_windows(const model *m, int64_t i)
{
    return &m->drawn[m->place * m->o->accumulate + i];
}

void model_make_room(model *m, int64_t i)
{
    const int64_t rows = m->y.shape[0], documents = model_windows(m, i)->documents;
    while (m->room < documents)
        m->room = 2 * m->room < rows ? 2 * m->room : rows;
}

void model_micro_batch(model *m, int64_t i)
{
    const int64_t n = m->y.shape[0];
    const windows *w = model_windows(m, i);
    model_make_room(m, i);
    m->input_data = w->in;
    m->target_data = w->target;
    m->position_data = w->position;
    m->begin_data = w->begin;
    m->share_data = &m->shares[m->place * m->o->accumulate + i];
    vector(m, &m->input, w->in, TG_I64, n);
    vector(m, &m->target, w->target, TG_I64, n);
    vector(m, &m->loss, model_results(m, m->place) + i, TG_F32, 1);
    vector(m, &m->dloss, m->share_data, TG_F32, 1);
    if (m->what != WHOLE)
        array_set(m, &m->position, w->position, TG_I64, 2, m->row_cosine.shape);
    if (m->what == PACKED)
        vector(m, &m->begin, w->begin, TG_I64, (is_apart(m->r) ? m->room : w->documents) + 1);
    for (int k = 0; m->what == SHARED && m->o->pack && k < 4; k++) {
        m->cuts_data[k / 2][k % 2] = w->cuts[k / 2][k % 2];
        vector(m, &m->cuts[k / 2][k % 2], w->cuts[k / 2][k % 2], TG_I64,
               (is_apart(m->r) ? m->room : w->documents) + 1);
    }
}

void model_weigh(model *m)
{
    const int64_t micro_batches = m->o->accumulate;
    int64_t all = 0;
    for (int64_t i = 0; i < micro_batches; i++)
        all += model_windows(m, i)->targets;
    for (int64_t i = 0; i < micro_batches; i++)
        m->shares[m->place * micro_batches + i] =
            all ? (float)((double)model_windows(m, i)->own / (double)all) : 0;
}

const float *model_results(const model *m, int64_t place)
{
    return m->results + (size_t)place * model_results_of(m);
}

size_t model_results_of(const model *m)
{
    return (size_t)m->o->accumulate + 1;
}

void model_fetch_results(model *m)
{
    fetch(m->r, (void *)model_results(m, m->place), model_results_of(m) * sizeof(*m->results));
}

static void cut(model *m)
{
    const int64_t layers = m->o->layers, layer = (m->decayed - m->tables) / layers;
    int64_t *ends = take_memory((size_t)(layers + 2) * sizeof(*ends));
    for (int64_t i = 0; i <= layers; i++)
        ends[i] = m->tables + i * layer;
    ends[layers + 1] = m->count;
    const struct layer *l = &m->layers[0];
    const expert_cut e = {
        .experts = m->o->experts,
        .begin = {l->wgate_up.at, l->wdown.at},
        .each = {2 * m->o->expert_ff * m->o->width, m->o->width * m->o->expert_ff},
        .apart = (int)m->o->expert_parallel};
    shards_open(&m->shards, ends, (int)layers + 2, m->o->experts ? &e : NULL, ranks_count(),
                ranks_here());
}

void model_open(model *m, run *r, const options *o, int training)
{
    *m = (model){.r = r, .o = o};
    m->type = (tg_type)tg_type_by_name(o->type);
    r->sparse = experts_are_shared(o); /* others' experts take no memory */
    m->head_dim = options_head_dim(o);
    m->inner = o->heads * m->head_dim;
    m->qkv_width = (o->heads + 2 * o->kv_heads) * m->head_dim;
    m->rows = o->batch * o->seq / o->ring;
    const size_t layers = (size_t)o->layers;
    m->layers = take_memory(layers * sizeof(layer));
    m->norm1 = take_memory((layers + 1) * sizeof(weight));
    m->s1 = take_memory((layers + 1) * sizeof(array));
    m->rstd1 = take_memory((layers + 1) * sizeof(array));
    model_place(m); /* counts */
    m->ordered = !o->unordered && !is_apart(r);
    m->rounds = (o->accumulate + rings_count(o) - 1) / rings_count(o);
    cut(m);
    if (is_apart(r) && experts_are_shared(o)) /* they are the last ones of a layer */
        m->apart = (m->decayed - m->tables) / o->layers - (m->layers[0].wgate_up.at - m->tables);
    model_place_activations(m, training);
    const size_t bytes = (size_t)m->shards.owned * 4;
    if (training) {
        m->m = take_tensors(r, bytes);
        m->v = take_tensors(r, bytes);
        if (m->type != TG_F32)
            m->master = take_tensors(r, bytes);
        gradients_open(m);
        m->sharing = ranks_transfers(m->shards.count);
    }
    model_take_params(m);
    model_place(m);
    if (training && muon_is_used(o))
        muon_open(m);
    model_init(m);
    init_rope(m);
    for (int64_t i = 0; i < 2 * o->accumulate; i++)
        m->shares[i] = 1 / (float)o->accumulate;
    to_device(r, m->shares, 2 * (size_t)o->accumulate * sizeof(*m->shares));
    if (o->ring > 1)
        ring_open(m);
    if (experts_are_shared(o))
        dispatch_open(m);
    m->room = o->batch; /* each window begins one */
    if (o->ring > 1)    /* either chunk of the windows is a batch */
        model_bind(m, (extent){2 * o->batch, 0, o->seq / (2 * o->ring), SHARED});
    else
        model_bind(m, (extent){o->batch, 0, o->seq, o->pack ? PACKED : WHOLE});
}
