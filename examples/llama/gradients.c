/* gradients.c - rounds, exchanges with other ranks, sums. */
#include "gradients.h"

#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "ranks/cards.h"
#include "ranks/ranks.h"

/* A bucket that is under way: gradients of other ranks for this rank's slice, and this
 * rank's for theirs. */
typedef struct exchange {
    const bucket *b;
    transfers *t;
    float *inbox; /* [ranks, the largest slice] */
} exchange;

struct gradients {
    float *sum; /* of what this rank keeps; NULL: the gradients themselves are it */
    float *squares;
    double *merged;
    int64_t round, from; /* of the step; how many ranks have a micro-batch in it */
    int late;            /* 1 + the part whose sum on cards is to be begun, or 0 */
    int room, begun, ended;
    exchange *exchanges; /* [room], in turn */
};

/* Whether gradients of one micro-batch are not those of the step. */
static int adds(const model *m)
{
    return m->shards.ranks > 1 || (m->ordered && m->o->accumulate > 1);
}

void gradients_open(model *m)
{
    struct gradients *g = m->gradients = take_memory(sizeof(*g));
    const shards *s = &m->shards;
    const size_t results = (size_t)(m->o->accumulate + s->chunks);
    g->squares = take_memory((size_t)s->chunks * sizeof(*g->squares));
    g->merged = take_memory(results * sizeof(*g->merged));
    if (!adds(m))
        return;
    if (is_apart(m->r)) {
        g->sum = take_activations(m->r, (size_t)s->owned * sizeof(*g->sum));
        return;
    }
    g->sum = take_memory((size_t)s->owned * sizeof(*g->sum));
    /* room for two layers: one is computed while the other is under way */
    g->room = 2 * (s->first[2] - s->first[1]) + 1;
    g->exchanges = take_memory((size_t)g->room * sizeof(*g->exchanges));
    const size_t inbox = s->ranks > 1 ? (size_t)(s->ranks * s->largest) * sizeof(float) : 0;
    for (int i = 0; i < g->room; i++)
        g->exchanges[i] = (exchange){.t = ranks_transfers(2 * s->ranks),
                                     .inbox = m->ordered ? take_memory(inbox) : NULL};
}

const float *gradients_at(const model *m, int64_t at, int64_t place)
{
    return m->gradients->sum ? m->gradients->sum + place : model_grad(m, at);
}

/* ---- the sum in order ---- */

typedef struct adding {
    float *sum;
    int64_t count;      /* of gradients */
    int keeps;          /* what is in the sum */
    const float **from; /* [count] */
} adding;

static void add_in_order(void *arg, int64_t begin, int64_t end, int worker)
{
    const adding *a = arg;
    (void)worker;
    if (!a->keeps)
        memcpy(a->sum + begin, a->from[0] + begin, (size_t)(end - begin) * sizeof(float));
    for (int64_t k = a->keeps ? 0 : 1; k < a->count; k++) {
        const float *restrict x = a->from[k];
        float *restrict y = a->sum;
        for (int64_t i = begin; i < end; i++)
            y[i] += x[i];
    }
}

static void add_bucket(model *m, const exchange *e)
{
    const struct gradients *g = m->gradients;
    const float *from[g->from];
    for (int64_t r = 0; r < g->from; r++)
        from[r] =
            r == ranks_here() ? model_grad(m, e->b->own.at) : e->inbox + r * m->shards.largest;
    adding a = {g->sum + e->b->place, g->from, g->round > 0, from};
    tg_parallel_for(m->r->ctx, e->b->own.count, CHUNK, add_in_order, &a);
}

typedef struct one_adding {
    const model *m;
    const float *from;
    int keeps;
} one_adding;

static void add_piece(void *user, int64_t offset, int64_t place, int64_t n)
{
    const one_adding *o = user;
    const float *from[1] = {o->from + offset};
    adding a = {o->m->gradients->sum + place, 1, o->keeps, from};
    tg_parallel_for(o->m->r->ctx, n, CHUNK, add_in_order, &a);
}

void gradients_add(model *m, int64_t at, int64_t count, const float *from, int source)
{
    one_adding o = {m, from, m->gradients->round > 0 || source > 0};
    shards_each(&m->shards, at, count, add_piece, &o);
}

int gradients_go_on(const model *m)
{
    return m->gradients->round > 0;
}

int gradients_sources(const model *m)
{
    return (int)m->gradients->from;
}

/* ---- exchanges ---- */

static void begin_ordered(const model *m, exchange *e)
{
    const struct gradients *g = m->gradients;
    const bucket *b = e->b;
    const int ranks = m->shards.ranks, here = ranks_here();
    for (int r = 0; r < ranks; r++)
        if (r != here && r < g->from)
            ranks_receive(e->t, r, e->inbox + r * m->shards.largest,
                          (size_t)b->own.count * sizeof(float));
    for (int k = 1; k < ranks && here < g->from; k++) {
        const int r = (here + k) % ranks; /* not all to the same one */
        ranks_send(e->t, r, model_grad(m, b->at + b->starts[r]),
                   (size_t)b->counts[r] * sizeof(float));
    }
}

static void end_exchange(model *m)
{
    struct gradients *g = m->gradients;
    exchange *e = &g->exchanges[g->ended++ % g->room];
    if (m->shards.ranks > 1)
        ranks_wait(e->t);
    if (m->ordered)
        add_bucket(m, e);
}

/* On cards, where streams keep the order and nothing is waited for here. */
static void sum_on_cards(const model *m, int part)
{
    const shards *s = &m->shards;
    cards_begin(tg_ctx_stream(m->r->ctx));
    for (const bucket *b = s->buckets + s->first[part]; b < s->buckets + s->first[part + 1]; b++)
        if (!b->apart) /* dispatch_backward() has left it in its place */
            cards_sum(on_device(m->r, model_grad(m, b->at)), b->counts, b->starts,
                      on_device(m->r, m->gradients->sum + b->place));
    cards_end();
}

void gradients_late(model *m)
{
    struct gradients *g = m->gradients;
    if (g->late)
        sum_on_cards(m, g->late - 1);
    g->late = 0;
}

static void begin_exchange(model *m, const bucket *b)
{
    struct gradients *g = m->gradients;
    if (b->apart) /* dispatch_backward() has added them up */
        return;
    if (g->begun - g->ended == g->room)
        end_exchange(m);
    exchange *e = &g->exchanges[g->begun++ % g->room];
    e->b = b;
    if (!m->ordered)
        ranks_sum(e->t, model_grad(m, b->at), b->counts, g->sum + b->place);
    else if (m->shards.ranks > 1)
        begin_ordered(m, e);
    /* those that have come meanwhile */
    while (g->ended < g->begun &&
           (m->shards.ranks == 1 || ranks_done(g->exchanges[g->ended % g->room].t)))
        end_exchange(m);
}

void model_ready(model *m, int part)
{
    struct gradients *g = m->gradients;
    const shards *s = &m->shards;
    if (!g->sum || (!m->ordered && g->round + 1 < m->rounds))
        return;
    if (is_apart(m->r)) {
        gradients_late(m);
        g->late = part + 1;
        if (!m->dispatch || part == 0) /* others wait for the tokens of the next layer's experts */
            gradients_late(m);
        return;
    }
    for (int i = s->first[part]; i < s->first[part + 1]; i++)
        begin_exchange(m, &s->buckets[i]);
}

/* ---- rounds ---- */

/* The same exchanges as those of ranks with a micro-batch. */
static void idle_round(model *m)
{
    const shards *s = &m->shards;
    if (!m->ordered && m->gradients->round == 0) /* it never has one: its gradients are zeros */
        for (int i = 0; i < s->count; i++)
            memset(model_grad(m, s->buckets[i].at), 0, (size_t)s->buckets[i].count * sizeof(float));
    if (m->dispatch)
        dispatch_forward_idle(m);
    for (int i = (int)m->o->layers; i > 0; i--) {
        if (m->dispatch)
            dispatch_backward(m, &m->layers[i - 1], 0);
        model_ready(m, i);
    }
    model_ready(m, s->parts - 1);
    model_ready(m, 0);
}

void gradients_round(model *m, int64_t round)
{
    struct gradients *g = m->gradients;
    const int64_t rings = rings_count(m->o), left = m->o->accumulate - round * rings;
    const int add = !m->ordered && round > 0;
    g->round = round;
    g->from = (left < rings ? left : rings) * m->o->ring;
    if (ring_here(m->o) < left) {
        model_micro_batch(m, round * rings + ring_here(m->o));
        model_forward(m);
        model_loss(m, 1, add);
        model_backward(m, add);
    } else {
        idle_round(m);
    }
    while (g->ended < g->begun)
        end_exchange(m);
}

/* ---- results ---- */

/* On one of several cards: of what it keeps, and then of all. */
static void squares_on_cards(model *m)
{
    const int64_t n[1] = {m->shards.owned};
    tg_tensor own = tensor_at(m->r, m->gradients->sum, TG_F32, 1, n);
    void *stream = tg_ctx_stream(m->r->ctx);
    cards_join(stream);
    CALL(m->r, sum_squares_forward, .x = &own, .y = &m->squares.t);
    cards_merge(stream, m->squares.t.data, 1);
    cards_join(stream);
}

/* On a device: two calls, which a recorded step can hold. */
static void squares_there(model *m)
{
    const int64_t tables[1] = {m->tables}, others[1] = {m->count - m->tables};
    tg_tensor first = tensor_at(m->r, model_grad(m, 0), TG_F32, 1, tables);
    tg_tensor rest = tensor_at(m->r, model_grad(m, m->tables), TG_F32, 1, others);
    CALL(m->r, sum_squares_forward, .x = &first, .y = &m->squares.t);
    CALL(m->r, sum_squares_forward, .x = &rest, .y = &m->squares.t, .accumulate = 1);
}

typedef struct squares {
    const model *m;
    const bucket *b;
} squares;

/* Of the i-th chunk of what this rank keeps of a bucket. */
static tg_status chunk_squares(tg_ctx *ctx, void *arg, int64_t i)
{
    const squares *s = arg;
    const bucket *b = s->b;
    const slice c = shards_chunk(b, i);
    const int64_t n[1] = {c.count}, one[1] = {1};
    const run *r = s->m->r;
    tg_tensor x = tensor_at(r, gradients_at(s->m, b->own.at + c.at, b->place + c.at), TG_F32, 1, n);
    tg_tensor y = tensor_at(r, s->m->gradients->squares + b->chunk + i, TG_F32, 1, one);
    return tg_sum_squares_forward(ctx, &(tg_sum_squares_forward_args){.x = &x, .y = &y});
}

static void bucket_squares(model *m, const bucket *b)
{
    squares s = {m, b};
    run_pieces(m->r, "sum_squares_forward", b->chunks, chunk_squares, &s);
}

void gradients_squares(model *m)
{
    if (is_apart(m->r)) {
        if (m->gradients->sum)
            squares_on_cards(m);
        else
            squares_there(m);
        return;
    }
    struct gradients *g = m->gradients;
    const shards *s = &m->shards;
    const int64_t losses = m->o->accumulate;
    float *results = (float *)model_results(m, m->place);
    memset(g->squares, 0, (size_t)s->chunks * sizeof(*g->squares));
    for (int i = 0; i < s->count; i++)
        bucket_squares(m, &s->buckets[i]);
    for (int64_t i = 0; i < losses; i++)
        g->merged[i] = i % rings_count(m->o) == ring_here(m->o)
                           ? (double)results[i] * windows_share(model_windows(m, i))
                           : 0;
    for (int64_t i = 0; i < s->chunks; i++)
        g->merged[losses + i] = (double)g->squares[i];
    ranks_merge(g->merged, (int)(losses + s->chunks));
    double sum = 0;
    for (int64_t i = 0; i < s->chunks; i++)
        sum += g->merged[losses + i];
    for (int64_t i = 0; i < losses; i++)
        results[i] = (float)g->merged[i];
    results[losses] = (float)sum;
}
