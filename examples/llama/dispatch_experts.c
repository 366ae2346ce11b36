/* dispatch_experts.c - the experts that this rank has, and the rows of one rank after the other. */
#include "dispatch_parts.h"

char *room(buffer *b, size_t bytes)
{
    if (bytes > b->bytes) {
        if (b->at)
            leave_memory(b->at, b->bytes);
        b->bytes = bytes + bytes / 4;
        b->at = take_memory(b->bytes);
    }
    return b->at ? b->at : (b->at = take_memory(b->bytes = 64));
}

/* Arrays of a visit and of this rank's experts. */
typedef struct call {
    array x, dy, gate_up, down, index, weights, result, pre, slot, offset, place;
    array dgate_up, ddown, dweights;
    int keeps;
} call;

static void own_matrices(model *m, const layer *l, call *c)
{
    const options *o = m->o;
    const struct dispatch *d = m->dispatch;
    const int64_t up[3] = {d->own, 2 * o->expert_ff, o->width},
                  back[3] = {d->own, o->width, o->expert_ff};
    const int64_t el = (int64_t)tg_type_size(m->type), n = o->expert_ff * o->width;
    array_set(m, &c->gate_up, m->param + (l->wgate_up.at + d->first * 2 * n) * el, m->type, 3, up);
    array_set(m, &c->down, m->param + (l->wdown.at + d->first * n) * el, m->type, 3, back);
}

static void set_call(model *m, const layer *l, int r, call *c)
{
    const options *o = m->o;
    const struct dispatch *d = m->dispatch;
    visit *v = visit_of(m, l, r);
    const int64_t n = v->rows, one[2] = {n, 1}, rows[2] = {n, o->width};
    const size_t el = tg_type_size(m->type), count = (size_t)n;
    c->keeps = o->recompute < RECOMPUTE_GATES;
    own_matrices(m, l, c);
    array_set(m, &c->x, room(&v->x, count * row_bytes(m)), m->type, 2, rows);
    array_set(m, &c->result, room(&d->peers[r].result, count * row_bytes(m)), m->type, 2, rows);
    array_set(m, &c->index, room(&v->index, count * 8), TG_I64, 2, one);
    array_set(m, &c->place, room(&v->place, count * 8), TG_I64, 2, one);
    array_set(m, &c->slot, room(&v->slot, count * 8), TG_I64, 1, one);
    array_set(m, &c->offset, room(&v->offset, (size_t)(d->own + 1) * 8), TG_I64, 1,
              (int64_t[]){d->own + 1});
    if (c->keeps)
        array_set(m, &c->pre, room(&v->pre, count * 2 * (size_t)o->expert_ff * el), m->type, 2,
                  (int64_t[]){n, 2 * o->expert_ff});
}

void dispatch_compute(model *m, layer *l, int r)
{
    const struct dispatch *d = m->dispatch;
    const visit *v = visit_of(m, l, r);
    call c;
    if (!v->rows)
        return;
    set_call(m, l, r, &c);
    int64_t *index = (int64_t *)v->index.at;
    for (int64_t e = 0; e < d->own; e++)
        for (int64_t i = 0; i < d->counts[r * d->own + e]; i++)
            *index++ = e;
    array_set(m, &c.weights, d->ones, TG_F32, 2, (int64_t[]){v->rows, 1});
    CALL(m->r, fused_moe_forward, .x = &c.x.t, .gate_up = &c.gate_up.t, .down = &c.down.t,
         .index = &c.index.t, .weights = &c.weights.t, .y = &c.result.t,
         .pre = c.keeps ? &c.pre.t : NULL, .slot = &c.slot.t, .offset = &c.offset.t,
         .place = &c.place.t);
}

void dispatch_differentiate(model *m, layer *l, int r, float *dgate_up, float *ddown)
{
    const struct dispatch *d = m->dispatch;
    visit *v = visit_of(m, l, r);
    peer *p = &d->peers[r];
    const int64_t n = v->rows;
    call c;
    set_call(m, l, r, &c);
    if (!n) /* there may have been no call that has written it */
        memset(v->offset.at, 0, (size_t)(d->own + 1) * 8);
    array_set(m, &c.dy, room(&p->dy, (size_t)n * row_bytes(m)), m->type, 2, c.x.shape);
    array_set(m, &c.weights, room(&v->factors, (size_t)n * 4), TG_F32, 2, c.index.shape);
    array_set(m, &c.dweights, room(&p->dfactors, (size_t)n * 4), TG_F32, 2, c.index.shape);
    array_set(m, &c.dgate_up, dgate_up, TG_F32, 3, c.gate_up.shape);
    array_set(m, &c.ddown, ddown, TG_F32, 3, c.down.shape);
    CALL(m->r, fused_moe_backward, .dy = &c.dy.t, .x = &c.x.t, .gate_up = &c.gate_up.t,
         .down = &c.down.t, .weights = &c.weights.t, .pre = c.keeps ? &c.pre.t : NULL,
         .slot = &c.slot.t, .offset = &c.offset.t, .place = &c.place.t, .dx = &c.result.t,
         .dgate_up = &c.dgate_up.t, .ddown = &c.ddown.t, .dweights = &c.dweights.t);
}
