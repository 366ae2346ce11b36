/* ring.c - attention to the keys and values of all ranks that share windows, and their gradients.
 *
 * The keys and values of one layer of whole windows lie in the order of their places, with those of
 * other ranks as they come. So a query sees all of its keys in one call, and the forward pass and
 * the gradients of queries have the sums of a single rank. The two chunks of a rank are a call
 * each: the first ones need nothing from behind the middle of the window, which comes while they
 * are computed. Gradients of keys and values go back, for each chunk of queries by itself, to the
 * ranks that have these keys, which add them up in f32 in the order of the chunks. */
#include "ring.h"

#include <limits.h>

#include "ranks/cards.h"
#include "ranks/ranks.h"

/* Messages that are waited for together. */
typedef struct exchange {
    transfers *t; /* in the host's memory */
    void *ended;  /* on cards: a moment of their stream */
} exchange;

struct ring {
    int members, here, first;   /* here: of the members, which are ranks from `first` on */
    int64_t chunk, width;       /* places; elements of k and v of a place */
    exchange keys[2], grads[2]; /* of the first chunks of all ranks, and of the second ones */
    char *kv;                   /* [batch, seq, width] */
    char *part[2];              /* gradients of it by either chunk of queries here */
    char *inbox[2];             /* of either chunk of keys here: [chunks of queries, batch, chunk,
                                   width] */
};

/* The chunk of a window that a member has as its first or second one, and the member that has a
 * chunk. */
static int chunk_of(const struct ring *r, int member, int half)
{
    return half ? 2 * r->members - 1 - member : member;
}

static int owner_of(const struct ring *r, int chunk)
{
    return chunk < r->members ? chunk : 2 * r->members - 1 - chunk;
}

/* ---- messages: MPI's between the host's memory, NCCL's between cards ---- */

static void begin(const model *m)
{
    if (is_apart(m->r))
        cards_begin(tg_ctx_stream(m->r->ctx));
}

static void send(const model *m, exchange *e, int member, const char *data, size_t bytes)
{
    if (is_apart(m->r))
        cards_send(on_device(m->r, data), bytes, m->ring->first + member);
    else
        ranks_send(e->t, m->ring->first + member, data, bytes);
}

static void receive(const model *m, exchange *e, int member, char *data, size_t bytes)
{
    if (is_apart(m->r))
        cards_receive(on_device(m->r, data), bytes, m->ring->first + member);
    else
        ranks_receive(e->t, m->ring->first + member, data, bytes);
}

static void begun(const model *m, exchange *e)
{
    if (!is_apart(m->r))
        return;
    cards_end();
    cards_mark(&e->ended);
}

static void wait(const model *m, const exchange *e)
{
    if (is_apart(m->r))
        cards_wait(tg_ctx_stream(m->r->ctx), e->ended);
    else
        ranks_wait(e->t);
}

/* ---- places ---- */

static size_t block_bytes(const model *m)
{
    return (size_t)(m->ring->chunk * m->ring->width) * tg_type_size(m->type);
}

/* A chunk of window b among whole windows. */
static char *chunk_at(const model *m, char *windows, int64_t b, int chunk)
{
    return windows + (size_t)(b * 2 * m->ring->members + chunk) * block_bytes(m);
}

static char *inbox_at(const model *m, int half, int from, int64_t b)
{
    const struct ring *r = m->ring;
    const int64_t slot = from - chunk_of(r, r->here, half);
    return r->inbox[half] + (size_t)(slot * m->o->batch + b) * block_bytes(m);
}

/* Columns of `rows` rows from `first` on, as [1, rows, count]. */
static void columns_of(const model *m, array *a, const array *of, int64_t first, int64_t rows,
                       int64_t column, int64_t count)
{
    const int64_t stride = of->shape[1];
    a->t = of->t;
    a->t.ndim = 3;
    memcpy(a->shape, (int64_t[]){1, rows, count}, 3 * sizeof(*a->shape));
    memcpy(a->strides, (int64_t[]){rows * stride, stride, 1}, 3 * sizeof(*a->strides));
    a->t.shape = a->shape;
    a->t.strides = a->strides;
    a->t.byte_offset += (uint64_t)(first * stride + column) * tg_type_size(m->type);
}

/* ---- keys and values ---- */

static void take_own(model *m, const layer *l)
{
    const struct ring *r = m->ring;
    const int64_t batch = m->o->batch, half = r->width / 2;
    const struct {
        const array *of;
        int64_t column;
    } from[2] = {{m->o->qk_norm ? &l->ks : &l->qkv, m->o->qk_norm ? 0 : m->inner},
                 {&l->qkv, m->inner + half}};
    array own, all, to;
    for (int64_t i = 0; i < 4 * batch; i++) {
        const int64_t rows = i / 2, b = rows % batch, k = i % 2;
        const int chunk = chunk_of(r, r->here, rows >= batch);
        columns_of(m, &own, from[k].of, rows * r->chunk, r->chunk, from[k].column, half);
        array_set(m, &all, chunk_at(m, r->kv, b, chunk), m->type, 2,
                  (int64_t[]){r->chunk, r->width});
        to.t = tg_tensor_slice(&all.t, k * half, half, to.shape, to.strides);
        CALL(m->r, sum_rows_forward, .x = &own.t, .y = &to.t);
    }
}

void ring_begin(model *m, const layer *l)
{
    struct ring *r = m->ring;
    take_own(m, l);
    for (int half = 0; half < 2; half++) {
        exchange *e = &r->keys[half];
        begin(m);
        for (int64_t i = 0; i < r->members * m->o->batch; i++) {
            const int member = (int)(i / m->o->batch);
            const int64_t b = i % m->o->batch;
            if (member == r->here)
                continue;
            receive(m, e, member, chunk_at(m, r->kv, b, chunk_of(r, member, half)), block_bytes(m));
            send(m, e, member, chunk_at(m, r->kv, b, chunk_of(r, r->here, half)), block_bytes(m));
        }
        begun(m, e);
    }
}

/* ---- a chunk of queries and what it sees ---- */

/* Either chunk of all windows, of what has heads, and is [2 batch, chunk, heads, dim]. */
static void half_of(const model *m, array *a, const array *of, int half)
{
    const options *o = m->o;
    const int64_t rows = m->ring->chunk, row = of->strides[1];
    *a = *of;
    a->shape[0] = o->pack ? 1 : o->batch;
    a->shape[1] = o->pack ? o->batch * rows : rows;
    a->strides[0] = a->shape[1] * row;
    a->t.shape = a->shape;
    a->t.strides = a->strides;
    a->t.byte_offset += (uint64_t)(half * o->batch * rows * row) * tg_type_size(m->type);
}

/* Keys, from element 0 of a place on, or values, of all windows up to a chunk of each. */
static void up_to(const model *m, array *a, char *windows, int chunk, int64_t element)
{
    const options *o = m->o;
    const int64_t width = m->ring->width, there = (chunk + 1) * m->ring->chunk;
    const int64_t batch = o->pack ? 1 : o->batch,
                  places = o->pack ? (o->batch - 1) * o->seq + there : there;
    array_set((model *)m, a, windows + (size_t)element * tg_type_size(m->type), m->type, 4,
              (int64_t[]){batch, places, o->kv_heads, m->head_dim});
    memcpy(a->strides, (int64_t[]){o->seq * width, width, m->head_dim, 1}, sizeof(a->strides));
    a->t.strides = a->strides;
}

static void lse_of(const model *m, array *a, const layer *l, int half)
{
    const int64_t batch = m->o->pack ? 1 : m->o->batch, rows = m->ring->chunk * m->o->batch / batch;
    array_set((model *)m, a, l->lse_data + (size_t)(half * batch * m->o->heads * rows) * 4, TG_F32,
              3, (int64_t[]){batch, m->o->heads, rows});
}

static const tg_tensor *documents(const model *m, int half, int of_keys)
{
    return m->o->pack ? &m->cuts[half][of_keys].t : NULL;
}

/* ---- forward ---- */

void ring_forward(model *m, layer *l)
{
    const struct ring *r = m->ring;
    ring_begin(m, l);
    for (int half = 0; half < 2; half++) {
        const int chunk = chunk_of(r, r->here, half);
        array q, k, v, y, lse;
        half_of(m, &q, &l->q, half);
        half_of(m, &y, &l->attended4, half);
        up_to(m, &k, r->kv, chunk, 0);
        up_to(m, &v, r->kv, chunk, r->width / 2);
        lse_of(m, &lse, l, half);
        wait(m, &r->keys[half]);
        CALL(m->r, flash_attention_forward, .q = &q.t, .k = &k.t, .v = &v.t,
             .cu_seqlens_q = documents(m, half, 0), .cu_seqlens_k = documents(m, half, 1),
             .y = &y.t, .lse = &lse.t, .causal = 1);
    }
}

/* ---- backward ---- */

static void differentiate(model *m, const layer *l, int half)
{
    const struct ring *r = m->ring;
    const int chunk = chunk_of(r, r->here, half);
    array q, k, v, y, dy, dq, dk, dv, lse;
    half_of(m, &q, &l->q, half);
    half_of(m, &y, &l->attended4, half);
    half_of(m, &dy, &m->y4, half);
    half_of(m, &dq, &m->dq, half);
    up_to(m, &k, r->kv, chunk, 0);
    up_to(m, &v, r->kv, chunk, r->width / 2);
    up_to(m, &dk, r->part[half], chunk, 0);
    up_to(m, &dv, r->part[half], chunk, r->width / 2);
    lse_of(m, &lse, l, half);
    CALL(m->r, flash_attention_backward, .dy = &dy.t, .q = &q.t, .k = &k.t, .v = &v.t, .y = &y.t,
         .lse = &lse.t, .cu_seqlens_q = documents(m, half, 0),
         .cu_seqlens_k = documents(m, half, 1), .dq = &dq.t, .dk = &dk.t, .dv = &dv.t, .causal = 1);
}

/* What one chunk of queries says of a chunk of keys, of window b: to the rank that has these keys,
 * which may be this one. */
static void give(model *m, int half, int64_t b, int keys)
{
    const struct ring *r = m->ring;
    const int owner = owner_of(r, keys), there = tg_ctx_device_type(m->r->ctx);
    const char *part = chunk_at(m, r->part[half], b, keys);
    if (owner != r->here) {
        send(m, &m->ring->grads[half], owner, part, block_bytes(m));
        return;
    }
    char *own = inbox_at(m, keys >= r->members, chunk_of(r, r->here, half), b);
    must(tg_copy(m->r->ctx, on_device(m->r, own), there, on_device(m->r, part), there,
                 block_bytes(m)));
}

/* The other ranks' of a chunk of keys that is here. */
static void take(model *m, int half, int64_t b, int keys)
{
    struct ring *r = m->ring;
    for (int member = 0; member < r->members; member++) {
        const int from = chunk_of(r, member, half);
        if (member != r->here && from >= keys)
            receive(m, &r->grads[half], member, inbox_at(m, keys >= r->members, from, b),
                    block_bytes(m));
    }
}

/* Gradients of keys and values by either chunk of queries of each rank. */
static void exchange_parts(model *m, int half)
{
    struct ring *r = m->ring;
    begin(m);
    for (int keys = 0; keys < 2 * r->members; keys++)
        for (int64_t b = 0; b < m->o->batch; b++) {
            if (keys <= chunk_of(r, r->here, half))
                give(m, half, b, keys);
            if (owner_of(r, keys) == r->here)
                take(m, half, b, keys);
        }
    begun(m, &r->grads[half]);
}

/* All of them, into dqkv. */
static void add_up(model *m, int half)
{
    const struct ring *r = m->ring;
    const int64_t rows = m->o->batch * r->chunk,
                  parts = 2 * r->members - chunk_of(r, r->here, half);
    array all, sum;
    array_set(m, &all, r->inbox[half], m->type, 3, (int64_t[]){parts, rows, r->width});
    columns_of(m, &sum, &m->dqkv, half * rows, rows, m->qkv_width - r->width, r->width);
    sum.t.ndim = 2; /* without the one in front */
    sum.t.shape++;
    sum.t.strides++;
    CALL(m->r, sum_rows_forward, .x = &all.t, .y = &sum.t);
}

void ring_backward(model *m, const layer *l)
{
    const struct ring *r = m->ring;
    wait(m, &r->keys[0]);
    wait(m, &r->keys[1]);
    for (int half = 1; half >= 0; half--) { /* first the larger messages */
        differentiate(m, l, half);
        exchange_parts(m, half);
    }
    wait(m, &r->grads[1]);
    wait(m, &r->grads[0]);
    for (int half = 0; half < 2; half++)
        add_up(m, half);
}

void ring_open(model *m)
{
    const options *o = m->o;
    struct ring *r = m->ring = take_memory(sizeof(*r));
    r->members = (int)o->ring;
    r->here = ranks_here() % r->members;
    r->first = ranks_here() - r->here;
    r->chunk = o->seq / (2 * o->ring);
    r->width = 2 * o->kv_heads * m->head_dim;
    if (block_bytes(m) > INT_MAX)
        die("keys and values of a chunk are %zu bytes, too many for a message: a larger --ring",
            block_bytes(m));
    const size_t windows = (size_t)(2 * o->ring * o->batch) * block_bytes(m);
    r->kv = take_activations(m->r, windows);
    for (int half = 0; half < 2; half++) {
        const int parts = 2 * r->members - chunk_of(r, r->here, half);
        const int most = (int)o->batch * 2 * r->members;
        r->keys[half].t = ranks_transfers(most);
        r->grads[half].t = ranks_transfers(2 * most);
        r->part[half] = take_activations(m->r, windows);
        r->inbox[half] = take_activations(m->r, (size_t)(parts * o->batch) * block_bytes(m));
    }
}
