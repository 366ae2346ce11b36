/* optimizer.c - clipping, schedule, AdamW; Muon is in muon.c. */
#include "optimizer.h"

#include <math.h>

#include "gradients.h"
#include "muon.h"
#include "ranks/cards.h"
#include "ranks/ranks.h"

double learning_rate(const options *o, int64_t step)
{
    if (step <= o->warmup)
        return o->lr * (double)step / (double)o->warmup;
    const int64_t left = o->steps - o->warmup;
    const double part = left > 0 ? (double)(step - o->warmup) / (double)left : 1;
    return o->min_lr + (o->lr - o->min_lr) * 0.5 * (1 + cos(3.14159265358979324 * part));
}

static void update(model *m, slice own, int64_t place, int64_t step, double decay)
{
    const options *o = m->o;
    const int64_t n[1] = {own.count};
    char *at = m->param + own.at * (int64_t)tg_type_size(m->type);
    tg_tensor param = tensor_at(m->r, at, m->type, 1, n);
    tg_tensor grad = tensor_at(m->r, gradients_at(m, own.at, place), TG_F32, 1, n);
    tg_tensor first = tensor_at(m->r, m->m + place, TG_F32, 1, n);
    tg_tensor second = tensor_at(m->r, m->v + place, TG_F32, 1, n);
    tg_tensor master = tensor_at(m->r, m->master + (m->master ? place : 0), TG_F32, 1, n);
    CALL(m->r, adamw, .param = &param, .master = m->master ? &master : NULL, .grad = &grad,
         .m = &first, .v = &second, .lr = learning_rate(o, step), .beta1 = TG_VALUE(o->beta1),
         .beta2 = TG_VALUE(o->beta2), .weight_decay = decay, .grad_squares = &m->squares.t,
         .max_norm = o->clip, .step = step);
}

/* Tables, layers or norms: these are told apart by their memory and by their decay. */
static int kind(const shards *s, const bucket *b)
{
    return b->part == 0 ? 0 : b->part < s->parts - 1 ? 1 : 2;
}

/* How many buckets from the i-th on have their slices in one piece: those of a kind, if this
 * is the only rank. */
static int in_one_piece(const shards *s, int i, slice *own)
{
    const bucket *b = s->buckets;
    int end = i + 1;
    *own = b[i].own;
    for (; end < s->count && kind(s, &b[end]) == kind(s, &b[i]) && b[end].apart == b[i].apart &&
           b[end].own.at == own->at + own->count;
         end++)
        own->count += b[end].own.count;
    return end - i;
}

/* A bucket that has been updated goes to the other ranks; on cards, whose transfers are better
 * large ones, with all of its part. */
static void share(model *m, int i)
{
    const shards *s = &m->shards;
    const bucket *b = &s->buckets[i];
    const size_t el = tg_type_size(m->type);
    if (!is_apart(m->r)) {
        if (!b->apart)
            ranks_share(m->sharing, m->param + (size_t)b->at * el, b->counts, b->starts, el);
        return;
    }
    if (i + 1 < s->first[b->part + 1])
        return;
    cards_begin(tg_ctx_stream(m->r->ctx));
    for (b = &s->buckets[s->first[b->part]]; b <= &s->buckets[i]; b++)
        if (!b->apart)
            cards_share(on_device(m->r, m->param + (size_t)b->at * el), b->counts, b->starts, el);
    cards_end();
}

/* Each rank's parameters go to the others while it computes the next ones. */
void optimizer_step(model *m, int64_t step)
{
    const shards *s = &m->shards;
    const int muon = muon_is_used(m->o);
    if (muon)
        muon_step(m, learning_rate(m->o, step));
    for (int i = 0, n; i < s->count; i += n) {
        const bucket *b = &s->buckets[i];
        slice own;
        n = in_one_piece(s, i, &own);
        if (own.count && !(muon && kind(s, b) == 1))
            update(m, own, b->place, step, kind(s, b) == 2 ? 0 : m->o->weight_decay);
        for (int k = 0; k < n && s->ranks > 1; k++)
            share(m, i + k);
    }
    if (s->ranks > 1 && is_apart(m->r))
        cards_join(tg_ctx_stream(m->r->ctx));
    else if (s->ranks > 1)
        ranks_wait(m->sharing);
}
