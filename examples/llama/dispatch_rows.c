/* dispatch_rows.c - which rows go from card to card for a piece of the experts, the messages that
 * carry them, and the rows that stay on this card. */
#include "dispatch_cards.h"

/* ---- which rows ---- */

kept *kept_of(const model *m, const layer *l)
{
    return &m->dispatch->cards->kept[l - m->layers];
}

/* Where a piece of the experts of rank r begins among them. */
int64_t piece_begin(const model *m, int r, int piece)
{
    const int ranks = m->dispatch->ranks;
    const int64_t experts = m->o->experts, first = expert_begin(experts, r, ranks);
    return (expert_begin(experts, r + 1, ranks) - first) * piece / PIECES;
}

/* Those for a piece of rank r, among the sorted ones that go out. */
span piece_going(const model *m, const kept *k, int r, int piece)
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
span piece_come(const model *m, const kept *k, int first, int last, int piece)
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

span piece_come_all(const model *m, const kept *k, int piece)
{
    return piece_come(m, k, 0, m->dispatch->ranks - 1, piece);
}

/* ---- messages ---- */

/* How many rows of each expert go and come. */
void counts_begin(model *m, int active)
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

void counts_end(model *m, kept *k)
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
void piece_swap(model *m, const kept *k, int piece, const void *sorted, const void *all,
                size_t each, int back)
{
    const struct dispatch *d = m->dispatch;
    const char *out = on_device(m->r, sorted), *in = on_device(m->r, all);
    for (int i = 1; i < d->ranks; i++) {
        const int r = (d->here + i) % d->ranks, q = (d->here + d->ranks - i) % d->ranks;
        const span gone = piece_going(m, k, back ? q : r, piece);
        const span here = piece_come(m, k, back ? r : q, back ? r : q, piece);
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
void rows_sort_all(model *m, const layer *l, const array *x)
{
    sort(m, l, &x->t, m->type, (span){0, l->x.slot.shape[0]}, m->o->experts_used,
         m->dispatch->cards->rows);
}

void piece_sort_own(model *m, const layer *l, const array *x, const char *all, int piece)
{
    const int here = m->dispatch->here;
    const kept *k = kept_of(m, l);
    const span own = piece_going(m, k, here, piece);
    if (own.count)
        sort(m, l, &x->t, m->type, own, m->o->experts_used,
             all + (size_t)piece_come(m, k, here, here, piece).at * row_bytes(m));
}

void rows_copy(model *m, const char *from, const char *to, tg_type type, int64_t rows,
               int64_t width)
{
    array x, y;
    array_set(m, &x, from, type, 3, (int64_t[]){1, rows, width});
    array_set(m, &y, to, type, 2, (int64_t[]){rows, width});
    CALL(m->r, sum_rows_forward, .x = &x.t, .y = &y.t);
}

/* What the experts here make of this rank's rows, to where the others' comes back. */
void piece_copy_own(model *m, const layer *l, int piece, int backward)
{
    struct on_cards *c = m->dispatch->cards;
    const int here = m->dispatch->here;
    const span own = piece_going(m, kept_of(m, l), here, piece);
    const span at = piece_come(m, kept_of(m, l), here, here, piece);
    const int64_t each = (int64_t)row_bytes(m);
    if (!own.count)
        return;
    rows_copy(m, c->result.at + at.at * each, c->results + own.at * each, m->type, own.count,
              m->o->width);
    if (backward)
        rows_copy(m, (char *)(c->dfactors + at.at), (char *)(c->own_dfactors + own.at), TG_F32,
                  own.count, 1);
}

/* Factors of the slots, sorted, and the reverse: rows of one element. */
void factors_sort(model *m, const layer *l, const char *factors, const float *rows)
{
    array x;
    const int64_t slots = l->x.slot.shape[0];
    array_set(m, &x, factors, TG_F32, 2, (int64_t[]){slots, 1});
    sort(m, l, &x.t, TG_F32, (span){0, slots}, 1, (const char *)rows);
}

void factors_spread(model *m, const layer *l)
{
    array x, place, y;
    const int64_t slots = l->x.slot.shape[0];
    array_set(m, &x, m->dispatch->cards->own_dfactors, TG_F32, 2, (int64_t[]){slots, 1});
    array_set(m, &place, l->x.place_data, TG_I64, 1, (int64_t[]){slots});
    array_set(m, &y, m->dweights_data, TG_F32, 2, (int64_t[]){slots, 1});
    CALL(m->r, moe_gather_forward, .x = &x.t, .slot = &place.t, .rows = &y.t, .top_k = 1);
}
