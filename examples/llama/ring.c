/* ring.c - attention to keys and values that go round, and their gradients, which go with them.
 *
 * A rank first attends to its own keys, then to those of the rank before it, of the one before that
 * ... In each turn but the first either all queries see the first half of the keys that have come,
 * or the second half of the queries sees them all. Sums are of f32, in the order of the turns. */
#include "ring.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "ranks/ranks.h"

struct ring {
    int members, here, next, before;       /* here: of the members; the others are ranks */
    int64_t chunk, count;                  /* count: of elements of k and v of a rank */
    transfers *forth, *back;               /* of keys and values; of their gradients */
    char *kv[2], *part, *part_q, *part_kv; /* of the model's type: k and v here, and that come */
    float *dkv[2], *sum, *part_lse;
};

/* ---- rows of tensors, by their addresses ---- */

/* `width` elements of `rows` rows. */
typedef struct place {
    char *at;
    int64_t stride; /* in elements */
} place;

typedef struct moved {
    place from;
    float *sum; /* compact rows */
    int64_t width;
    tg_type type;
    int adds, back; /* to what is there; from the sum to the place */
} moved;

static float wide(const char *at, int64_t i, tg_type type)
{
    float value;
    if (type == TG_F32)
        return ((const float *)at)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void move_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const moved *v = arg;
    const int64_t el = (int64_t)tg_type_size(v->type);
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        char *at = v->from.at + row * v->from.stride * el;
        float *sum = v->sum + row * v->width;
        for (int64_t i = 0; i < v->width; i++)
            if (!v->back)
                sum[i] = v->adds ? sum[i] + wide(at, i, v->type) : wide(at, i, v->type);
            else if (v->type == TG_F32)
                ((float *)at)[i] = sum[i];
            else
                ((uint16_t *)at)[i] = bf16_of(sum[i]);
    }
}

static void move(const model *m, int64_t rows, moved v)
{
    v.type = m->type;
    tg_parallel_for(m->r->ctx, rows, 64, move_rows, &v);
}

/* Rows of one half of each window, of `rows` compact ones that are there for all windows. */
static void add_half(const model *m, const char *from, float *sum, int64_t width, int64_t half)
{
    const int64_t chunk = m->ring->chunk, el = (int64_t)tg_type_size(m->type);
    for (int64_t b = 0; b < m->o->batch; b++)
        move(m, chunk,
             (moved){.from = {(char *)from + b * chunk * width * el, width},
                     .sum = sum + (2 * b + half) * chunk * width,
                     .width = width,
                     .adds = 1});
}

/* ---- views ---- */

/* Some places of each window. */
static tg_tensor of_half(const tg_tensor *t, int64_t chunk, int64_t half, int64_t *shape)
{
    tg_tensor view = *t;
    memcpy(shape, t->shape, 4 * sizeof(*shape));
    shape[1] = chunk;
    view.shape = shape;
    view.byte_offset += (uint64_t)(half * chunk * t->strides[1]) * tg_type_size(tg_type_of(t));
    return view;
}

/* What is attended to in a turn: q, k, v, and how many halves of both there are. */
typedef struct pairs {
    int of_all; /* the queries; the first half of the keys: otherwise the second one, and all */
    tg_tensor q, k, v;
    array all_k, all_v;
    int64_t q_shape[4], k_shape[4], v_shape[4], rows, keys;
} pairs;

/* k or v of a buffer, strides told. */
static void by_key_heads(const model *m, array *a, char *data)
{
    const options *o = m->o;
    const int64_t places = 2 * m->ring->chunk;
    array_set((model *)m, a, data, m->type, 4,
              (int64_t[]){o->batch, places, o->kv_heads, m->head_dim});
    memcpy(
        a->strides,
        (int64_t[]){places * o->kv_heads * m->head_dim, o->kv_heads * m->head_dim, m->head_dim, 1},
        sizeof(a->strides));
    a->t.strides = a->strides;
}

static char *values_of(const model *m, char *kv)
{
    return kv + m->ring->count / 2 * (int64_t)tg_type_size(m->type);
}

static void block_of(const model *m, const layer *l, int turn, pairs *b)
{
    const struct ring *r = m->ring;
    const int source = (r->here - turn + r->members) % r->members;
    b->of_all = source < r->here;
    by_key_heads(m, &b->all_k, r->kv[turn % 2]);
    by_key_heads(m, &b->all_v, values_of(m, r->kv[turn % 2]));
    b->q = b->of_all ? l->q.t : of_half(&l->q.t, r->chunk, 1, b->q_shape);
    b->k = b->of_all ? of_half(&b->all_k.t, r->chunk, 0, b->k_shape) : b->all_k.t;
    b->v = b->of_all ? of_half(&b->all_v.t, r->chunk, 0, b->v_shape) : b->all_v.t;
    b->rows = (b->of_all ? 2 : 1) * r->chunk;
    b->keys = (b->of_all ? 1 : 2) * r->chunk;
}

/* ---- what goes round ---- */

/* A rank hands on what it has, and gets what the one before it had. */
static void begin_turn(const model *m, transfers *t, void *const *buffers, size_t element, int turn)
{
    const struct ring *r = m->ring;
    ranks_receive(t, r->before, buffers[turn % 2], (size_t)r->count * element);
    ranks_send(t, r->next, buffers[(turn + 1) % 2], (size_t)r->count * element);
}

static void begin_keys(const model *m, int turn)
{
    if (turn < m->ring->members)
        begin_turn(m, m->ring->forth, (void *const *)m->ring->kv, tg_type_size(m->type), turn);
}

static void begin_gradients(const model *m, int turn)
{
    begin_turn(m, m->ring->back, (void *const *)m->ring->dkv, sizeof(float), turn);
}

/* A layer's own keys and values, compact. */
static void take_keys(const model *m, const layer *l)
{
    const int64_t width = m->o->kv_heads * m->head_dim, el = (int64_t)tg_type_size(m->type);
    const char *from[2] = {(const char *)l->k.t.data + l->k.t.byte_offset,
                           (const char *)l->v.t.data + l->v.t.byte_offset};
    char *to[2] = {m->ring->kv[0], values_of(m, m->ring->kv[0])};
    for (int64_t row = 0; row < m->rows; row++)
        for (int i = 0; i < 2; i++)
            memcpy(to[i] + row * width * el, from[i] + row * m->qkv_width * el,
                   (size_t)(width * el));
}

/* ---- forward ---- */

typedef struct merging {
    const model *m;
    const layer *l;
    const pairs *b;
} merging;

/* Of one query, all heads: each result has the weight exp(lse). */
static void merge_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const merging *g = arg;
    const model *m = g->m;
    const struct ring *r = m->ring;
    const int64_t heads = m->o->heads, dim = m->head_dim, rows = g->b->rows, all = 2 * r->chunk;
    float *lse = (float *)g->l->lse_data;
    (void)worker;
    for (int64_t at = begin; at < end; at++) {
        const int64_t w = at / rows, i = at % rows, row = i + (g->b->of_all ? 0 : r->chunk);
        for (int64_t h = 0; h < heads; h++) {
            float *total = &lse[(w * heads + h) * all + row];
            const float part = r->part_lse[(w * heads + h) * rows + i];
            const float most = fmaxf(*total, part), old = expf(*total - most),
                        new = expf(part - most), sum = old + new;
            float *y = r->sum + ((w * all + row) * heads + h) * dim;
            for (int64_t d = 0; d < dim; d++)
                y[d] =
                    (y[d] * old + wide(r->part, (at * heads + h) * dim + d, m->type) * new) / sum;
            *total = most + logf(sum);
        }
    }
}

static void attend(model *m, layer *l, int turn)
{
    struct ring *r = m->ring;
    const options *o = m->o;
    pairs b;
    array y, lse;
    block_of(m, l, turn, &b);
    array_set(m, &y, r->part, m->type, 4, (int64_t[]){o->batch, b.rows, o->heads, m->head_dim});
    array_set(m, &lse, r->part_lse, TG_F32, 3, (int64_t[]){o->batch, o->heads, b.rows});
    CALL(m->r, flash_attention_forward, .q = &b.q, .k = &b.k, .v = &b.v, .y = &y.t, .lse = &lse.t);
    tg_parallel_for(m->r->ctx, o->batch * b.rows, 16, merge_rows, &(merging){m, l, &b});
}

void ring_forward(model *m, layer *l)
{
    struct ring *r = m->ring;
    const int64_t width = m->o->width;
    take_keys(m, l);
    begin_keys(m, 1);
    CALL(m->r, flash_attention_forward, .q = &l->q.t, .k = &l->k.t, .v = &l->v.t,
         .y = &l->attended4.t, .lse = &l->lse.t, .causal = 1);
    const moved own = {.from = {l->attended_data, width}, .sum = r->sum, .width = width};
    move(m, m->rows, own);
    for (int turn = 1; turn < r->members; turn++) {
        ranks_wait(r->forth);
        begin_keys(m, turn + 1);
        attend(m, l, turn);
    }
    moved result = own;
    result.back = 1;
    move(m, m->rows, result);
}

/* ---- backward ---- */

/* lse of the second half of the queries, compact. */
static void half_lse(const model *m, const layer *l)
{
    const struct ring *r = m->ring;
    const float *lse = (const float *)l->lse_data;
    for (int64_t i = 0; i < m->o->batch * m->o->heads; i++)
        memcpy(r->part_lse + i * r->chunk, lse + (2 * i + 1) * r->chunk,
               (size_t)r->chunk * sizeof(*lse));
}

/* Gradients of a block's queries, keys and values, into the parts. */
static void differentiate(model *m, const layer *l, const pairs *b)
{
    const struct ring *r = m->ring;
    const options *o = m->o;
    const int64_t keys[4] = {o->batch, b->keys, o->kv_heads, m->head_dim}, half = r->chunk;
    int64_t y_shape[4], dy_shape[4];
    array dq, dk, dv, lse;
    tg_tensor y = b->of_all ? l->attended4.t : of_half(&l->attended4.t, half, 1, y_shape);
    tg_tensor dy = b->of_all ? m->y4.t : of_half(&m->y4.t, half, 1, dy_shape);
    array_set(m, &dq, r->part_q, m->type, 4, (int64_t[]){o->batch, b->rows, o->heads, m->head_dim});
    array_set(m, &dk, r->part_kv, m->type, 4, keys);
    array_set(m, &dv, values_of(m, r->part_kv), m->type, 4, keys);
    if (!b->of_all)
        half_lse(m, l);
    array_set(m, &lse, b->of_all ? (void *)l->lse_data : r->part_lse, TG_F32, 3,
              (int64_t[]){o->batch, o->heads, b->rows});
    CALL(m->r, flash_attention_backward, .dy = &dy, .q = &b->q, .k = &b->k, .v = &b->v, .y = &y,
         .lse = &lse.t, .dq = &dq.t, .dk = &dk.t, .dv = &dv.t);
}

/* Adds what is there for all places of the windows, or for one half of them. */
static void add(const model *m, char *part, float *sum, int64_t width, int whole, int64_t half)
{
    if (whole)
        move(m, m->rows, (moved){.from = {part, width}, .sum = sum, .width = width, .adds = 1});
    else
        add_half(m, part, sum, width, half);
}

/* dqkv, columns from `first` on: from f32 rows, or into them. */
static void move_gradient(const model *m, float *sum, int64_t first, int64_t width, int back)
{
    char *at = m->dqkv_data + first * (int64_t)tg_type_size(m->type);
    move(m, m->rows, (moved){.from = {at, m->qkv_width}, .sum = sum, .width = width, .back = back});
}

static void move_gradients(const model *m, float *dkv, int back)
{
    const int64_t width = m->o->kv_heads * m->head_dim, queries = m->o->heads * m->head_dim;
    move_gradient(m, m->ring->sum, 0, queries, back);
    move_gradient(m, dkv, queries, width, back);
    move_gradient(m, dkv + m->ring->count / 2, queries + width, width, back);
}

void ring_backward(model *m, const layer *l)
{
    struct ring *r = m->ring;
    const int64_t width = m->o->kv_heads * m->head_dim;
    take_keys(m, l);
    begin_keys(m, 1);
    CALL(m->r, flash_attention_backward, .dy = &m->y4.t, .q = &l->q.t, .k = &l->k.t, .v = &l->v.t,
         .y = &l->attended4.t, .lse = &l->lse.t, .dq = &m->dq.t, .dk = &m->dk.t, .dv = &m->dv.t,
         .causal = 1);
    move_gradients(m, r->dkv[0], 0);
    begin_gradients(m, 1);
    for (int turn = 1; turn < r->members; turn++) {
        pairs b;
        float *dk = r->dkv[turn % 2], *dv = dk + r->count / 2;
        ranks_wait(r->forth);
        begin_keys(m, turn + 1);
        block_of(m, l, turn, &b);
        differentiate(m, l, &b);
        add(m, r->part_q, r->sum, m->o->heads * m->head_dim, b.of_all, 1);
        ranks_wait(r->back);
        add(m, r->part_kv, dk, width, !b.of_all, 0);
        add(m, values_of(m, r->part_kv), dv, width, !b.of_all, 0);
        begin_gradients(m, turn + 1);
    }
    ranks_wait(r->back); /* those of the own keys are home */
    move_gradients(m, r->dkv[r->members % 2], 1);
}

void ring_open(model *m)
{
    const options *o = m->o;
    struct ring *r = m->ring = take_memory(sizeof(*r));
    const int first = ranks_here() / (int)o->ring * (int)o->ring;
    r->members = (int)o->ring;
    r->here = ranks_here() - first;
    r->next = first + (r->here + 1) % r->members;
    r->before = first + (r->here + r->members - 1) % r->members;
    r->chunk = o->seq / (2 * o->ring);
    r->count = 2 * m->rows * o->kv_heads * m->head_dim;
    if (r->count > INT_MAX / (int64_t)sizeof(float))
        die("keys and values of %lld bytes are too many for a message: a smaller --batch, or a "
            "larger --ring",
            (long long)r->count * (long long)sizeof(float));
    const size_t el = tg_type_size(m->type), kv = (size_t)r->count;
    const size_t rows = (size_t)(m->rows * o->width), heads = (size_t)(m->rows * o->heads);
    r->forth = ranks_transfers(2);
    r->back = ranks_transfers(2);
    for (int i = 0; i < 2; i++) {
        r->kv[i] = take_memory(kv * el);
        r->dkv[i] = take_memory(kv * sizeof(float));
    }
    r->part = take_memory(rows * el);
    r->part_q = take_memory(rows * el);
    r->part_kv = take_memory(kv * el);
    r->sum = take_memory(rows * sizeof(float));
    r->part_lse = take_memory(heads * sizeof(float));
}
