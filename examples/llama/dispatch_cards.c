/* dispatch_cards.c - the same between cards: rows go by NCCL, products wait on the device.
 *
 * A rank's experts are two pieces. The rows of all tokens for a piece, those of each rank behind
 * those of the rank before, are one call of the operators, so that a matrix is read once and its
 * gradient written once. Rows for the second piece go while the first is computed, results of the
 * first one while the second is. What is kept of a layer grows with the most rows that have come.
 *
 * NCCL takes the sizes of messages from the host. So a layer's forward pass waits once, for the
 * number of rows of each expert; the backward pass has them. */
#include "dispatch_parts.h"
#include "gradients.h"
#include "ranks/cards.h"

enum { PIECES = 2 };

/* What a layer keeps: rows, G and U of these, how the operators have sorted them; on the host where
 * the rows for each expert begin among those that go out, and among those of each rank that come.
 */
typedef struct kept {
    buffer x, pre;
    char *slot, *offset, *place;
    int64_t *there, *from; /* [experts + 1], [ranks, own + 1] */
} kept;

struct on_cards {
    int64_t *counts; /* there and from, as the device has them */
    int64_t *index;  /* [ranks rows]: the expert of each row that has come */
    tg_event *read;
    void *gone[PIECES], *back[PIECES]; /* moments */
    float *ones, *factors, *dfactors;  /* [ranks rows]: 1; of what comes */
    float *own_factors, *own_dfactors; /* [rows]: sorted, of what goes out */
    char *rows, *results;              /* likewise */
    buffer dy, result;                 /* of what has come */
    kept *kept;                        /* [layers] */
};

/* Rows, from the `at`-th on. */
typedef struct span {
    int64_t at, count;
} span;

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

/* ---- which rows ---- */

static kept *kept_of(const model *m, const layer *l)
{
    return &m->dispatch->cards->kept[l - m->layers];
}

/* Where a piece of the experts of rank r begins among them. */
static int64_t piece_begin(const model *m, int r, int piece)
{
    const int ranks = m->dispatch->ranks;
    const int64_t experts = m->o->experts, first = expert_begin(experts, r, ranks);
    return (expert_begin(experts, r + 1, ranks) - first) * piece / PIECES;
}

/* Those for a piece of rank r, among the sorted ones that go out. */
static span going(const model *m, const kept *k, int r, int piece)
{
    const int64_t first = expert_begin(m->o->experts, r, m->dispatch->ranks);
    const int64_t begin = k->there[first + piece_begin(m, r, piece)];
    return (span){begin, k->there[first + piece_begin(m, r, piece + 1)] - begin};
}

/* Those of rank r for a piece here, without their place. */
static int64_t coming(const model *m, const kept *k, int r, int piece)
{
    const struct dispatch *d = m->dispatch;
    const int64_t *from = k->from + r * (d->own + 1);
    return from[piece_begin(m, d->here, piece + 1)] - from[piece_begin(m, d->here, piece)];
}

/* Those of the ranks from `first` to `last` for a piece, among all that come; these lie by piece.
 */
static span come(const model *m, const kept *k, int first, int last, int piece)
{
    span s = {0, 0};
    for (int i = 0; i < (piece + 1) * m->dispatch->ranks; i++) {
        const int p = i / m->dispatch->ranks, r = i % m->dispatch->ranks;
        if (p == piece && r > last)
            break;
        *(p == piece && r >= first ? &s.count : &s.at) += coming(m, k, r, p);
    }
    return s;
}

static span come_all(const model *m, const kept *k, int piece)
{
    return come(m, k, 0, m->dispatch->ranks - 1, piece);
}

/* ---- messages ---- */

/* How many rows of each expert go and come. */
static void begin_counts(model *m, int active)
{
    const struct dispatch *d = m->dispatch;
    struct on_cards *c = d->cards;
    const int64_t experts = m->o->experts;
    void *stream = tg_ctx_stream(m->r->ctx);
    if (!active) {
        memset(c->counts, 0, (size_t)(experts + 1) * sizeof(int64_t));
        to_device(m->r, c->counts, (size_t)(experts + 1) * sizeof(int64_t));
    }
    int64_t *there = on_device(m->r, c->counts), *from = there + experts + 1;
    const size_t bytes = (size_t)(d->own + 1) * sizeof(int64_t);
    cards_begin(stream);
    for (int r = 0; r < d->ranks; r++) {
        const int64_t first = expert_begin(experts, r, d->ranks);
        const int64_t last = expert_begin(experts, r + 1, d->ranks);
        if (r == d->here)
            continue;
        cards_send(there + first, (size_t)(last - first + 1) * sizeof(int64_t), r);
        cards_receive(from + r * (d->own + 1), bytes, r);
    }
    cards_end();
    cards_join(stream);
    fetch(m->r, c->counts, (size_t)(experts + 1) * sizeof(int64_t) + (size_t)d->ranks * bytes);
    run_mark(m->r, &c->read);
}

static void end_counts(model *m, kept *k)
{
    const struct dispatch *d = m->dispatch;
    const int64_t *counts = d->cards->counts, experts = m->o->experts;
    const size_t bytes = (size_t)(d->own + 1) * sizeof(int64_t);
    run_wait_for(m->r, d->cards->read);
    memcpy(k->there, counts, (size_t)(experts + 1) * sizeof(int64_t));
    memcpy(k->from, counts + experts + 1, (size_t)d->ranks * bytes);
    memcpy(k->from + d->here * (d->own + 1), k->there + d->first, bytes);
}

/* Rows of a piece and other ranks: `sorted` go out and `all` come, or the reverse, `back`. */
static void swap(model *m, const kept *k, int piece, const void *sorted, const void *all,
                 size_t each, int back)
{
    const struct dispatch *d = m->dispatch;
    const char *out = on_device(m->r, sorted), *in = on_device(m->r, all);
    for (int i = 1; i < d->ranks; i++) {
        const int r = (d->here + i) % d->ranks, q = (d->here + d->ranks - i) % d->ranks;
        const span gone = going(m, k, back ? q : r, piece);
        const span here = come(m, k, back ? r : q, back ? r : q, piece);
        const size_t sent = (size_t)(back ? here : gone).count * each;
        const size_t taken = (size_t)(back ? gone : here).count * each;
        const char *from = back ? in + (size_t)here.at * each : out + (size_t)gone.at * each;
        const char *to = back ? out + (size_t)gone.at * each : in + (size_t)here.at * each;
        if (sent)
            cards_send(from, sent, r);
        if (taken)
            cards_receive((char *)to, taken, q);
    }
}

/* ---- rows of this rank's own ---- */

/* Of x [.., width] a row for each slot of those, `top_k` of which share one, into `rows`. */
static void sort(model *m, const layer *l, const tg_tensor *x, tg_type type, span slots,
                 int64_t top_k, const char *rows)
{
    array slot, out;
    array_set(m, &slot, l->x.slot_data + slots.at * 8, TG_I64, 1, (int64_t[]){slots.count});
    array_set(m, &out, rows, type, 2, (int64_t[]){slots.count, x->shape[1]});
    CALL(m->r, moe_gather_forward, .x = x, .slot = &slot.t, .rows = &out.t, .top_k = top_k);
}

/* All that go out; and those of a piece that stay, to where the others come. */
static void sort_all(model *m, const layer *l, const array *x)
{
    sort(m, l, &x->t, m->type, (span){0, l->x.slot.shape[0]}, m->o->experts_used,
         m->dispatch->cards->rows);
}

static void sort_own(model *m, const layer *l, const array *x, const char *all, int piece)
{
    const int here = m->dispatch->here;
    const kept *k = kept_of(m, l);
    const span own = going(m, k, here, piece);
    if (own.count)
        sort(m, l, &x->t, m->type, own, m->o->experts_used,
             all + (size_t)come(m, k, here, here, piece).at * row_bytes(m));
}

static void copy(model *m, const char *from, const char *to, tg_type type, int64_t rows,
                 int64_t width)
{
    array x, y;
    array_set(m, &x, from, type, 3, (int64_t[]){1, rows, width});
    array_set(m, &y, to, type, 2, (int64_t[]){rows, width});
    CALL(m->r, sum_rows_forward, .x = &x.t, .y = &y.t);
}

/* What the experts here make of this rank's rows, to where the others' comes back. */
static void copy_own(model *m, const layer *l, int piece, int backward)
{
    struct on_cards *c = m->dispatch->cards;
    const int here = m->dispatch->here;
    const span own = going(m, kept_of(m, l), here, piece);
    const span at = come(m, kept_of(m, l), here, here, piece);
    const int64_t each = (int64_t)row_bytes(m);
    if (!own.count)
        return;
    copy(m, c->result.at + at.at * each, c->results + own.at * each, m->type, own.count,
         m->o->width);
    if (backward)
        copy(m, (char *)(c->dfactors + at.at), (char *)(c->own_dfactors + own.at), TG_F32,
             own.count, 1);
}

/* Factors of the slots, sorted, and the reverse: rows of one element. */
static void sort_factors(model *m, const layer *l, const char *factors, const float *rows)
{
    array x;
    const int64_t slots = l->x.slot.shape[0];
    array_set(m, &x, factors, TG_F32, 2, (int64_t[]){slots, 1});
    sort(m, l, &x.t, TG_F32, (span){0, slots}, 1, (const char *)rows);
}

static void spread_factors(model *m, const layer *l)
{
    array x, place, y;
    const int64_t slots = l->x.slot.shape[0];
    array_set(m, &x, m->dispatch->cards->own_dfactors, TG_F32, 2, (int64_t[]){slots, 1});
    array_set(m, &place, l->x.place_data, TG_I64, 1, (int64_t[]){slots});
    array_set(m, &y, m->dweights_data, TG_F32, 2, (int64_t[]){slots, 1});
    CALL(m->r, moe_gather_forward, .x = &x.t, .slot = &place.t, .rows = &y.t, .top_k = 1);
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
    const span all = come_all(m, k, piece);
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
    const span all = come_all(m, kept_of(m, l), piece);
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
    const span last = come_all(m, k, PIECES - 1);
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
        swap(m, kept_of(m, l), p, c->rows, all, row_bytes(m), 0);
        if (backward)
            swap(m, kept_of(m, l), p, c->own_factors, c->factors, sizeof(float), 0);
        cards_end();
        cards_mark(&c->gone[p]);
    }
}

static void send_back(model *m, const layer *l, int p, int backward)
{
    struct on_cards *c = m->dispatch->cards;
    cards_begin(tg_ctx_stream(m->r->ctx));
    swap(m, kept_of(m, l), p, c->results, c->result.at, row_bytes(m), 1);
    if (backward)
        swap(m, kept_of(m, l), p, c->own_dfactors, c->dfactors, sizeof(float), 1);
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
    begin_counts(m, active);
    if (active)
        sort_all(m, l, &l->normed2);
    end_counts(m, k);
    make_room(m, k);
    send_out(m, l, k->x.at, 0);
    tell_index(m, k);
    for (int p = 0; p < PIECES; p++) {
        if (active)
            sort_own(m, l, &l->normed2, k->x.at, p);
        cards_wait(stream, c->gone[p]);
        compute(m, l, p);
        send_back(m, l, p, 0);
        if (active)
            copy_own(m, l, p, 0);
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
        sort_all(m, l, &m->d);
        sort_factors(m, l, l->x.weights_data, c->own_factors);
    }
    send_out(m, l, c->dy.at, 1);
    for (int p = 0; p < PIECES; p++) {
        const span own = going(m, k, m->dispatch->here, p);
        const span at = come(m, k, m->dispatch->here, m->dispatch->here, p);
        if (active)
            sort_own(m, l, &m->d, c->dy.at, p);
        if (own.count)
            copy(m, (char *)(c->own_factors + own.at), (char *)(c->factors + at.at), TG_F32,
                 own.count, 1);
        cards_wait(stream, c->gone[p]);
        differentiate(m, l, p);
        send_back(m, l, p, 1);
        if (active)
            copy_own(m, l, p, 1);
    }
    gradients_late(m);
    cards_wait(stream, c->back[PIECES - 1]);
    if (!active)
        return;
    add_up(m, l, NULL, &m->e);
    spread_factors(m, l);
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
