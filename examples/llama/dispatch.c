/* dispatch.c - tokens to the ranks of their experts, and results back. */
#include <limits.h>

#include "dispatch_parts.h"
#include "gradients.h"

void dispatch_open(model *m)
{
    const options *o = m->o;
    struct dispatch *d = m->dispatch = take_memory(sizeof(*d));
    d->ranks = ranks_count();
    d->here = ranks_here();
    d->first = expert_begin(o->experts, d->here, d->ranks);
    d->own = expert_begin(o->experts, d->here + 1, d->ranks) - d->first;
    if (is_apart(m->r)) {
        dispatch_open_cards(m);
        return;
    }
    const size_t ranks = (size_t)d->ranks, experts = (size_t)o->experts;
    const size_t slots = (size_t)(m->rows * o->experts_used);
    if (slots * (size_t)o->width * tg_type_size(m->type) > INT_MAX)
        die("--expert-parallel: the rows of a micro-batch are too many for a message: a smaller "
            "--batch");
    d->visits = take_memory((size_t)o->layers * ranks * sizeof(*d->visits));
    d->peers = take_memory(ranks * sizeof(*d->peers));
    for (peer *p = d->peers; p < d->peers + d->ranks; p++)
        *p = (peer){.come = ranks_transfers(2),
                    .gone = ranks_transfers(2),
                    .result_come = ranks_transfers(2),
                    .result_gone = ranks_transfers(2)};
    d->there = take_memory(experts * sizeof(int64_t));
    d->none = take_memory((experts + 1) * sizeof(int64_t));
    d->counts = take_memory(ranks * (size_t)d->own * sizeof(int64_t));
    d->factors = take_memory(slots * sizeof(float));
    d->dfactors = take_memory(slots * sizeof(float));
    d->ones = take_memory(slots * sizeof(float));
    for (size_t i = 0; i < slots; i++)
        d->ones[i] = 1;
}

/* The k-th rank in the order in which this one works: itself, and then the others. */
static int turn(const struct dispatch *d, int k)
{
    return (d->here + k) % d->ranks;
}

/* ---- rows that go out ---- */

/* Where the rows for a rank begin; for all ranks, how many there are. */
static int64_t begin_of(const model *m, int rank)
{
    const struct dispatch *d = m->dispatch;
    return d->offset[expert_begin(m->o->experts, rank, d->ranks)];
}

static int64_t rows_for(const model *m, int rank)
{
    return begin_of(m, rank + 1) - begin_of(m, rank);
}

/* Rows of x, sorted by the experts that their tokens have chosen. */
static void sort_rows(model *m, layer *l, const array *x)
{
    struct dispatch *d = m->dispatch;
    const int64_t slots = l->x.slot.shape[0];
    array rows;
    array_set(m, &rows, room(&d->rows, (size_t)slots * row_bytes(m)), m->type, 2,
              (int64_t[]){slots, m->o->width});
    CALL(m->r, moe_gather_forward, .x = &x->t, .slot = &l->x.slot.t, .rows = &rows.t,
         .top_k = m->o->experts_used);
}

/* Each token's results, with its weights or without them. */
static void add_up(model *m, layer *l, const array *weights, array *out)
{
    struct dispatch *d = m->dispatch;
    const int64_t slots = l->x.slot.shape[0];
    array rows;
    array_set(m, &rows, d->results.at, m->type, 2, (int64_t[]){slots, m->o->width});
    CALL(m->r, moe_scatter_forward, .rows = &rows.t, .place = &l->x.place.t,
         .weights = weights ? &weights->t : NULL, .y = &out->t);
}

/* How many rows go to each expert, and how many come to those that are here. */
static void exchange_counts(model *m, layer *l)
{
    struct dispatch *d = m->dispatch;
    for (int64_t e = 0; e < m->o->experts; e++)
        d->there[e] = d->offset[e + 1] - d->offset[e];
    memcpy(d->counts + d->here * d->own, d->there + d->first, (size_t)d->own * sizeof(int64_t));
    for (int k = 1; k < d->ranks; k++) {
        const int r = turn(d, k);
        const int64_t begin = expert_begin(m->o->experts, r, d->ranks);
        const int64_t count = expert_begin(m->o->experts, r + 1, d->ranks) - begin;
        ranks_receive(d->peers[r].come, r, d->counts + r * d->own,
                      (size_t)d->own * sizeof(int64_t));
        ranks_send(d->peers[r].gone, r, d->there + begin, (size_t)count * sizeof(int64_t));
    }
    for (int r = 0; r < d->ranks; r++) {
        visit *v = visit_of(m, l, r);
        ranks_wait(d->peers[r].come);
        ranks_wait(d->peers[r].gone);
        v->rows = 0;
        for (int64_t e = 0; e < d->own; e++)
            v->rows += d->counts[r * d->own + e];
    }
}

/* To and from each other rank: rows of x or of dy, and their factors, which may be missing. */
static void begin_rows(model *m, layer *l, int backward)
{
    struct dispatch *d = m->dispatch;
    for (int k = 1; k < d->ranks; k++) {
        const int r = turn(d, k);
        visit *v = visit_of(m, l, r);
        peer *p = &d->peers[r];
        const size_t n = (size_t)v->rows, out = (size_t)rows_for(m, r), each = row_bytes(m);
        const size_t at = (size_t)begin_of(m, r);
        if (n) {
            ranks_receive(p->come, r, room(backward ? &p->dy : &v->x, n * each), n * each);
            if (backward)
                ranks_receive(p->come, r, room(&v->factors, n * 4), n * 4);
        }
        if (!out)
            continue;
        ranks_send(p->gone, r, d->rows.at + at * each, out * each);
        if (backward)
            ranks_send(p->gone, r, d->factors + at, out * 4);
        ranks_receive(p->result_come, r, d->results.at + at * each, out * each);
        if (backward)
            ranks_receive(p->result_come, r, d->dfactors + at, out * 4);
    }
}

/* A rank's results go back to it; to this one by a copy. */
static void give_back(model *m, layer *l, int r, int backward)
{
    struct dispatch *d = m->dispatch;
    const size_t n = (size_t)visit_of(m, l, r)->rows, each = row_bytes(m);
    peer *p = &d->peers[r];
    if (r == d->here && n) {
        const size_t at = (size_t)begin_of(m, r);
        memcpy(d->results.at + at * each, p->result.at, n * each);
        if (backward)
            memcpy(d->dfactors + at, p->dfactors.at, n * 4);
    } else if (n) {
        ranks_send(p->result_gone, r, p->result.at, n * each);
        if (backward)
            ranks_send(p->result_gone, r, p->dfactors.at, n * 4);
    }
}

static void end_rows(model *m)
{
    struct dispatch *d = m->dispatch;
    for (int k = 1; k < d->ranks; k++) {
        peer *p = &d->peers[turn(d, k)];
        ranks_wait(p->gone);
        ranks_wait(p->result_come);
        ranks_wait(p->result_gone);
    }
}

/* Moves all messages on while there is something to compute. */
static void move_on(struct dispatch *d)
{
    for (int k = 1; k < d->ranks; k++) {
        const peer *p = &d->peers[turn(d, k)];
        ranks_done(p->come);
        ranks_done(p->gone);
        ranks_done(p->result_come);
        ranks_done(p->result_gone);
    }
}

/* ---- the passes ---- */

void dispatch_forward(model *m, layer *l, int active)
{
    struct dispatch *d = m->dispatch;
    if (d->cards) {
        dispatch_forward_cards(m, l, active);
        return;
    }
    d->offset = d->none;
    if (active) {
        experts *x = &l->x;
        CALL(m->r, moe_route, .index = &x->index.t, .slot = &x->slot.t, .offset = &x->offset.t,
             .place = &x->place.t, .experts = m->o->experts);
        d->offset = (int64_t *)x->offset_data;
        room(&d->results, (size_t)l->x.slot.shape[0] * row_bytes(m));
        sort_rows(m, l, &l->normed2);
    }
    exchange_counts(m, l);
    begin_rows(m, l, 0);
    visit *v = visit_of(m, l, d->here);
    const size_t own = (size_t)v->rows * row_bytes(m);
    if (own)
        memcpy(room(&v->x, own), d->rows.at + (size_t)begin_of(m, d->here) * row_bytes(m), own);
    for (int k = 0; k < d->ranks; k++) {
        const int r = turn(d, k);
        ranks_wait(d->peers[r].come);
        dispatch_compute(m, l, r);
        give_back(m, l, r, 0);
        move_on(d);
    }
    end_rows(m);
    if (active)
        add_up(m, l, &l->x.weights, &m->y);
}

void dispatch_forward_idle(model *m)
{
    for (layer *l = m->layers; l < m->layers + m->o->layers; l++)
        dispatch_forward(m, l, 0);
}

/* Factors of the rows that go out, and what has come for them. */
static void sort_factors(const model *m, const layer *l)
{
    const float *weights = (const float *)l->x.weights_data;
    const int64_t *slot = (const int64_t *)l->x.slot_data;
    for (int64_t i = 0; i < l->x.slot.shape[0]; i++)
        m->dispatch->factors[i] = weights[slot[i]];
}

static void spread_factors(const model *m, const layer *l)
{
    const int64_t *slot = (const int64_t *)l->x.slot_data;
    for (int64_t i = 0; i < l->x.slot.shape[0]; i++)
        ((float *)m->dweights_data)[slot[i]] = m->dispatch->dfactors[i];
}

/* The gradients of this rank's experts by the tokens of rank r. */
static void add_gradients(model *m, const layer *l, int r, const float *dgate_up,
                          const float *ddown)
{
    const struct dispatch *d = m->dispatch;
    const int64_t n = m->o->expert_ff * m->o->width;
    gradients_add(m, l->wgate_up.at + d->first * 2 * n, d->own * 2 * n, dgate_up, r);
    gradients_add(m, l->wdown.at + d->first * n, d->own * n, ddown, r);
}

/* Those by its own tokens are computed first, apart, and added when it is their turn. */
static void backward_turns(model *m, layer *l)
{
    struct dispatch *d = m->dispatch;
    const int64_t n = m->o->expert_ff * m->o->width;
    const int sources = gradients_sources(m);
    float *mine[2] = {(float *)room(&d->dgate_up, (size_t)(d->own * 2 * n) * 4),
                      (float *)room(&d->ddown, (size_t)(d->own * n) * 4)};
    float *theirs[2] = {model_grad(m, l->wgate_up.at + d->first * 2 * n),
                        model_grad(m, l->wdown.at + d->first * n)};
    if (d->here < sources) {
        dispatch_differentiate(m, l, d->here, mine[0], mine[1]);
        give_back(m, l, d->here, 1);
        move_on(d);
    }
    for (int r = 0; r < sources; r++) {
        if (r == d->here) {
            add_gradients(m, l, r, mine[0], mine[1]);
            continue;
        }
        ranks_wait(d->peers[r].come);
        dispatch_differentiate(m, l, r, theirs[0], theirs[1]);
        give_back(m, l, r, 1);
        move_on(d);
        add_gradients(m, l, r, theirs[0], theirs[1]);
    }
}

void dispatch_backward(model *m, layer *l, int active)
{
    struct dispatch *d = m->dispatch;
    if (d->cards) {
        dispatch_backward_cards(m, l, active);
        return;
    }
    d->offset = active ? (int64_t *)l->x.offset_data : d->none;
    if (active) {
        sort_rows(m, l, &m->d);
        sort_factors(m, l);
    }
    begin_rows(m, l, 1);
    visit *v = visit_of(m, l, d->here);
    const size_t n = (size_t)v->rows, at = (size_t)begin_of(m, d->here);
    if (n) {
        memcpy(room(&d->peers[d->here].dy, n * row_bytes(m)), d->rows.at + at * row_bytes(m),
               n * row_bytes(m));
        memcpy(room(&v->factors, n * 4), d->factors + at, n * 4);
    }
    backward_turns(m, l);
    end_rows(m);
    if (!active)
        return;
    add_up(m, l, NULL, &m->e);
    spread_factors(m, l);
}

void dispatch_collect(model *m)
{
    const options *o = m->o;
    const size_t el = tg_type_size(m->type);
    from_device(m->r, m->param, (size_t)m->count * el);
    for (int64_t i = 0; i < 2 * o->layers * o->experts; i++) {
        const layer *l = &m->layers[i / 2 / o->experts];
        const weight *w = i % 2 ? &l->wdown : &l->wgate_up;
        const int64_t count = tg_numel(&w->p.t) / o->experts;
        const int64_t at = w->at + i / 2 % o->experts * count;
        char *to = m->param + (size_t)at * el;
        const void *from = shards_fetch(&m->shards, m->param, el, at, count);
        if (ranks_here() == 0 && from != to)
            memcpy(to, from, (size_t)count * el);
    }
    if (m->dispatch->cards)
        dispatch_collect_cards(m);
    m->dispatch = NULL;
}
