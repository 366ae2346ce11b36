/* dispatch_cards.c - the same between cards: rows go by NCCL, products wait on the device.
 *
 * A rank's experts are two pieces. The rows of all tokens for a piece, those of each rank behind
 * those of the rank before, are one call of the operators, so that a matrix is read once and its
 * gradient written once. Rows for the second piece go while the first is computed, results of the
 * first one while the second is. What is kept of a layer grows with the most rows that have come.
 *
 * NCCL takes the sizes of messages from the host. So a layer's forward pass waits once, for the
 * number of rows of each expert; the backward pass has them. */
#include "dispatch_cards.h"
#include "gradients.h"

static char *room_there(model *m, buffer *b, size_t bytes)
{
    if (bytes > b->bytes || !b->at) {
        if (b->at)
            leave_activations(m->r, b->at, b->bytes);
        b->bytes = bytes + bytes / 8 + 256;
        b->at = take_activations(m->r, b->bytes);
    }
    return b->at;
}

void dispatch_open_cards(model *m)
{
    const options *o = m->o;
    struct dispatch *d = m->dispatch;
    struct on_cards *c = d->cards = take_memory(sizeof(*c));
    const size_t slots = (size_t)(m->rows * o->experts_used), all = slots * (size_t)d->ranks;
    const size_t from = (size_t)d->ranks * (size_t)(d->own + 1);
    c->counts = take_exchanged(m->r, ((size_t)o->experts + 1 + from) * sizeof(int64_t));
    c->index = take_exchanged(m->r, all * sizeof(int64_t));
    c->ones = take_tensors(m->r, all * sizeof(float));
    for (size_t i = 0; i < all; i++)
        c->ones[i] = 1;
    to_device(m->r, c->ones, all * sizeof(float));
    c->factors = take_activations(m->r, all * sizeof(float));
    c->dfactors = take_activations(m->r, all * sizeof(float));
    c->own_factors = take_activations(m->r, slots * sizeof(float));
    c->own_dfactors = take_activations(m->r, slots * sizeof(float));
    c->rows = take_activations(m->r, slots * row_bytes(m));
    c->results = take_activations(m->r, slots * row_bytes(m));
    c->kept = take_memory((size_t)o->layers * sizeof(*c->kept));
    for (kept *k = c->kept; k < c->kept + o->layers; k++) {
        k->slot = take_activations(m->r, all * sizeof(int64_t));
        k->place = take_activations(m->r, all * sizeof(int64_t));
        k->offset = take_activations(m->r, (size_t)(d->own + PIECES) * sizeof(int64_t));
        k->there = take_memory(((size_t)o->experts + 1) * sizeof(int64_t));
        k->from = take_memory(from * sizeof(int64_t));
    }
    run_wait(m->r);
}

/* ---- a piece of the experts and all rows for it ---- */

typedef struct call {
    array x, gate_up, down, index, weights, result, pre, slot, offset, place;
    array dy, dgate_up, ddown, dweights;
    int keeps;
} call;

static void set_matrices(model *m, const layer *l, int64_t first, int64_t count, call *c)
{
    const options *o = m->o;
    const int64_t el = (int64_t)tg_type_size(m->type), n = o->expert_ff * o->width;
    const int64_t up[3] = {count, 2 * o->expert_ff, o->width},
                  back[3] = {count, o->width, o->expert_ff};
    const int64_t at[2] = {l->wgate_up.at + first * 2 * n, l->wdown.at + first * n};
    array_set(m, &c->gate_up, m->param + at[0] * el, m->type, 3, up);
    array_set(m, &c->down, m->param + at[1] * el, m->type, 3, back);
    if (!m->grad) /* no course */
        return;
    const int64_t place[2] = {shards_place(&m->shards, at[0]), shards_place(&m->shards, at[1])};
    array_set(m, &c->dgate_up, gradients_at(m, at[0], place[0]), TG_F32, 3, up);
    array_set(m, &c->ddown, gradients_at(m, at[1], place[1]), TG_F32, 3, back);
}

/* `weights`: a factor for each row that has come. Whether the rank has experts in this piece. */
static int set_call(model *m, const layer *l, int piece, const float *weights, call *c)
{
    const options *o = m->o;
    const struct dispatch *d = m->dispatch;
    const struct on_cards *cards = d->cards;
    const kept *k = kept_of(m, l);
    const int64_t begin = piece_begin(m, d->here, piece);
    const int64_t count = piece_begin(m, d->here, piece + 1) - begin;
    const span all = piece_come_all(m, k, piece);
    const int64_t n = all.count, at = all.at, one[2] = {n, 1}, rows[2] = {n, o->width};
    const int64_t each = (int64_t)row_bytes(m);
    const int64_t gates = 2 * o->expert_ff * (int64_t)tg_type_size(m->type);
    if (!count)
        return 0;
    c->keeps = o->recompute < RECOMPUTE_GATES;
    set_matrices(m, l, d->first + begin, count, c);
    array_set(m, &c->x, k->x.at + at * each, m->type, 2, rows);
    array_set(m, &c->result, cards->result.at + at * each, m->type, 2, rows);
    array_set(m, &c->index, cards->index + at, TG_I64, 2, one);
    array_set(m, &c->weights, weights + at, TG_F32, 2, one);
    array_set(m, &c->place, k->place + at * 8, TG_I64, 2, one);
    array_set(m, &c->slot, k->slot + at * 8, TG_I64, 1, one);
    array_set(m, &c->offset, k->offset + (begin + piece) * 8, TG_I64, 1, (int64_t[]){count + 1});
    if (c->keeps)
        array_set(m, &c->pre, k->pre.at + at * gates, m->type, 2, (int64_t[]){n, 2 * o->expert_ff});
    return 1;
}

static void compute(model *m, const layer *l, int piece)
{
    call c;
    if (!set_call(m, l, piece, m->dispatch->cards->ones, &c))
        return;
    CALL(m->r, fused_moe_forward, .x = &c.x.t, .gate_up = &c.gate_up.t, .down = &c.down.t,
         .index = &c.index.t, .weights = &c.weights.t, .y = &c.result.t,
         .pre = c.keeps ? &c.pre.t : NULL, .slot = &c.slot.t, .offset = &c.offset.t,
         .place = &c.place.t);
}

static void differentiate(model *m, const layer *l, int piece)
{
    const struct on_cards *cards = m->dispatch->cards;
    const span all = piece_come_all(m, kept_of(m, l), piece);
    call c;
    if (!set_call(m, l, piece, cards->factors, &c))
        return;
    array_set(m, &c.dy, cards->dy.at + all.at * (int64_t)row_bytes(m), m->type, 2, c.x.shape);
    array_set(m, &c.dweights, cards->dfactors + all.at, TG_F32, 2, c.index.shape);
    CALL(m->r, fused_moe_backward, .dy = &c.dy.t, .x = &c.x.t, .gate_up = &c.gate_up.t,
         .down = &c.down.t, .weights = &c.weights.t, .pre = c.keeps ? &c.pre.t : NULL,
         .slot = &c.slot.t, .offset = &c.offset.t, .place = &c.place.t, .dx = &c.result.t,
         .dgate_up = &c.dgate_up.t, .ddown = &c.ddown.t, .dweights = &c.dweights.t,
         .accumulate = gradients_go_on(m));
}

/* ---- the passes ---- */

/* Which expert each row that comes is for. */
static void tell_index(model *m, const kept *k)
{
    const struct dispatch *d = m->dispatch;
    int64_t *index = d->cards->index;
    for (int i = 0; i < PIECES * d->ranks; i++) {
        const int piece = i / d->ranks;
        const int64_t *from = k->from + i % d->ranks * (d->own + 1);
        const int64_t begin = piece_begin(m, d->here, piece);
        const int64_t end = piece_begin(m, d->here, piece + 1);
        for (int64_t e = begin; e < end; e++)
            for (int64_t n = from[e + 1] - from[e]; n > 0; n--)
                *index++ = e - begin;
    }
    to_device(m->r, d->cards->index, (size_t)(index - d->cards->index) * sizeof(*index));
}

/* Room for the rows of a layer that come, in both passes. All calls that have what is given back
 * here have ended: the counts were waited for behind them. */
static void make_room(model *m, kept *k)
{
    struct on_cards *c = m->dispatch->cards;
    const span last = piece_come_all(m, k, PIECES - 1);
    const size_t rows = (size_t)(last.at + last.count), el = tg_type_size(m->type);
    room_there(m, &c->result, rows * row_bytes(m));
    room_there(m, &k->x, rows * row_bytes(m));
    if (m->o->recompute < RECOMPUTE_GATES)
        room_there(m, &k->pre, rows * 2 * (size_t)m->o->expert_ff * el);
    if (m->grad)
        room_there(m, &c->dy, rows * row_bytes(m));
}

/* Rows that have been sorted go out, x or dy and their factors, to `all`. */
static void send_out(model *m, const layer *l, const char *all, int backward)
{
    struct on_cards *c = m->dispatch->cards;
    for (int p = 0; p < PIECES; p++) {
        cards_begin(tg_ctx_stream(m->r->ctx));
        piece_swap(m, kept_of(m, l), p, c->rows, all, row_bytes(m), 0);
        if (backward)
            piece_swap(m, kept_of(m, l), p, c->own_factors, c->factors, sizeof(float), 0);
        cards_end();
        cards_mark(&c->gone[p]);
    }
}

static void send_back(model *m, const layer *l, int p, int backward)
{
    struct on_cards *c = m->dispatch->cards;
    cards_begin(tg_ctx_stream(m->r->ctx));
    piece_swap(m, kept_of(m, l), p, c->results, c->result.at, row_bytes(m), 1);
    if (backward)
        piece_swap(m, kept_of(m, l), p, c->own_dfactors, c->dfactors, sizeof(float), 1);
    cards_end();
    cards_mark(&c->back[p]);
}

/* Each token's results, with its weights or without them. */
static void add_up(model *m, layer *l, const array *weights, array *out)
{
    array rows;
    array_set(m, &rows, m->dispatch->cards->results, m->type, 2,
              (int64_t[]){l->x.slot.shape[0], m->o->width});
    CALL(m->r, moe_scatter_forward, .rows = &rows.t, .place = &l->x.place.t,
         .weights = weights ? &weights->t : NULL, .y = &out->t);
}

void dispatch_forward_cards(model *m, layer *l, int active)
{
    struct on_cards *c = m->dispatch->cards;
    kept *k = kept_of(m, l);
    void *stream = tg_ctx_stream(m->r->ctx);
    if (active) {
        array offset;
        array_set(m, &offset, c->counts, TG_I64, 1, (int64_t[]){m->o->experts + 1});
        CALL(m->r, moe_route, .index = &l->x.index.t, .slot = &l->x.slot.t, .offset = &offset.t,
             .place = &l->x.place.t, .experts = m->o->experts);
    }
    counts_begin(m, active);
    if (active)
        rows_sort_all(m, l, &l->normed2);
    counts_end(m, k);
    make_room(m, k);
    send_out(m, l, k->x.at, 0);
    tell_index(m, k);
    for (int p = 0; p < PIECES; p++) {
        if (active)
            piece_sort_own(m, l, &l->normed2, k->x.at, p);
        cards_wait(stream, c->gone[p]);
        compute(m, l, p);
        send_back(m, l, p, 0);
        if (active)
            piece_copy_own(m, l, p, 0);
    }
    cards_wait(stream, c->back[PIECES - 1]);
    if (active)
        add_up(m, l, &l->x.weights, &m->y);
}

void dispatch_backward_cards(model *m, layer *l, int active)
{
    struct on_cards *c = m->dispatch->cards;
    kept *k = kept_of(m, l);
    void *stream = tg_ctx_stream(m->r->ctx);
    if (active) {
        rows_sort_all(m, l, &m->d);
        factors_sort(m, l, l->x.weights_data, c->own_factors);
    }
    send_out(m, l, c->dy.at, 1);
    for (int p = 0; p < PIECES; p++) {
        const span own = piece_going(m, k, m->dispatch->here, p);
        const span at = piece_come(m, k, m->dispatch->here, m->dispatch->here, p);
        if (active)
            piece_sort_own(m, l, &m->d, c->dy.at, p);
        if (own.count)
            rows_copy(m, (char *)(c->own_factors + own.at), (char *)(c->factors + at.at), TG_F32,
                      own.count, 1);
        cards_wait(stream, c->gone[p]);
        differentiate(m, l, p);
        send_back(m, l, p, 1);
        if (active)
            piece_copy_own(m, l, p, 1);
    }
    gradients_late(m);
    cards_wait(stream, c->back[PIECES - 1]);
    if (!active)
        return;
    add_up(m, l, NULL, &m->e);
    factors_spread(m, l);
}

void dispatch_collect_cards(model *m)
{
    if (ranks_here() != 0)
        return;
    const size_t bytes = (size_t)m->count * tg_type_size(m->type);
    take_whole(m->r, m->param, bytes);
    to_device(m->r, m->param, bytes);
    model_place(m);
    run_wait(m->r);
}
