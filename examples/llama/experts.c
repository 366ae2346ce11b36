/* experts.c - router and experts: what they keep, and calls of operators.
 *
 * The balance of a layer is that of one micro-batch, or of a rank's part of it with --ring; the
 * step has the mean of all layers and micro-batches times --balance in its loss. */
#include "experts.h"

#include "dispatch.h"

static size_t whole_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

size_t experts_place(const model *m, layer *l, char *base)
{
    const options *o = m->o;
    const size_t rows = (size_t)m->rows, el = tg_type_size(m->type), all = (size_t)o->experts;
    const size_t slots = rows * (size_t)o->experts_used;
    experts *x = &l->x;
    const struct {
        char **at;
        size_t bytes;
    } pieces[] = {
        {&x->logits_data, rows * all * el},
        {&x->index_data, slots * 8},
        {&x->weights_data, slots * 4},
        {&x->lse_data, rows * 4},
        {&x->counts_data, all * 8},
        {&x->slot_data, slots * 8},
        {&x->offset_data, (all + 1) * 8},
        {&x->place_data, slots * 8},
        {&x->pre_data, o->recompute < RECOMPUTE_GATES && !experts_are_shared(o)
                           ? slots * 2 * (size_t)o->expert_ff * el
                           : 0},
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        if (base)
            *pieces[i].at = base + used;
        used += whole_lines(pieces[i].bytes);
    }
    return used;
}

void experts_open(model *m, int training)
{
    const options *o = m->o;
    const size_t rows = (size_t)m->rows, slots = rows * (size_t)o->experts_used;
    if (!training)
        return;
    m->dweights_data = take_activations(m->r, slots * 4);
    m->dlogits_data = take_activations(m->r, rows * (size_t)o->experts * tg_type_size(m->type));
    float *share = take_tensors(m->r, sizeof(*share));
    *share = (float)(o->balance / (double)(o->layers * o->accumulate * o->ring));
    to_device(m->r, share, sizeof(*share));
    array_set(m, &m->dbalance, share, TG_F32, 1, (int64_t[]){1});
}

/* The matrices of all experts, and their gradients. */
static void bind_matrices(model *m, experts *x, const weight *gate_up, const weight *down)
{
    const options *o = m->o;
    const int64_t up[3] = {o->experts, 2 * o->expert_ff, o->width},
                  back[3] = {o->experts, o->width, o->expert_ff};
    const char *param = m->param;
    const int64_t el = (int64_t)tg_type_size(m->type);
    array_set(m, &x->gate_up, param + gate_up->at * el, m->type, 3, up);
    array_set(m, &x->down, param + down->at * el, m->type, 3, back);
    if (!m->grad)
        return;
    array_set(m, &x->dgate_up, model_grad(m, gate_up->at), TG_F32, 3, up);
    array_set(m, &x->ddown, model_grad(m, down->at), TG_F32, 3, back);
}

void experts_bind(model *m, layer *l, int64_t rows)
{
    const options *o = m->o;
    const int64_t used = o->experts_used, slots = rows * used;
    experts *x = &l->x;
    bind_matrices(m, x, &l->wgate_up, &l->wdown);
    array_set(m, &x->logits, x->logits_data, m->type, 2, (int64_t[]){rows, o->experts});
    array_set(m, &x->index, x->index_data, TG_I64, 2, (int64_t[]){rows, used});
    array_set(m, &x->weights, x->weights_data, TG_F32, 2, (int64_t[]){rows, used});
    array_set(m, &x->lse, x->lse_data, TG_F32, 1, (int64_t[]){rows});
    array_set(m, &x->counts, x->counts_data, TG_I64, 1, (int64_t[]){o->experts});
    array_set(m, &x->slot, x->slot_data, TG_I64, 1, (int64_t[]){slots});
    array_set(m, &x->offset, x->offset_data, TG_I64, 1, (int64_t[]){o->experts + 1});
    array_set(m, &x->place, x->place_data, TG_I64, 2, (int64_t[]){rows, used});
    array_set(m, &x->pre, x->pre_data, m->type, 2, (int64_t[]){slots, 2 * o->expert_ff});
    array_set(m, &m->dweights, m->dweights_data, TG_F32, 2, (int64_t[]){rows, used});
    array_set(m, &m->dlogits, m->dlogits_data, m->type, 2, (int64_t[]){rows, o->experts});
}

/* G and U of all slots, unless they are computed again. */
static tg_tensor *kept(const model *m, experts *x)
{
    return m->o->recompute < RECOMPUTE_GATES && !experts_are_shared(m->o) ? &x->pre.t : NULL;
}

static void run_experts(model *m, layer *l)
{
    experts *x = &l->x;
    CALL(m->r, fused_moe_forward, .x = &l->normed2.t, .gate_up = &x->gate_up.t, .down = &x->down.t,
         .index = &x->index.t, .weights = &x->weights.t, .y = &m->y.t, .pre = kept(m, x),
         .slot = &x->slot.t, .offset = &x->offset.t, .place = &x->place.t);
}

void experts_forward(model *m, layer *l)
{
    experts *x = &l->x;
    CALL(m->r, gemm, .a = &l->normed2.t, .b = &x->router.p.t, .c = &x->logits.t, .trans_b = 1);
    CALL(m->r, moe_router_forward, .logits = &x->logits.t, .index = &x->index.t,
         .weights = &x->weights.t, .lse = &x->lse.t, .counts = &x->counts.t,
         .top_k = m->o->experts_used, .renormalise = !m->o->raw_weights);
    if (m->dispatch)
        dispatch_forward(m, l, 1);
    else
        run_experts(m, l);
}

static void run_experts_back(model *m, layer *l, int accumulate)
{
    experts *x = &l->x;
    CALL(m->r, fused_moe_backward, .dy = &m->d.t, .x = &l->normed2.t, .gate_up = &x->gate_up.t,
         .down = &x->down.t, .weights = &x->weights.t, .pre = kept(m, x), .slot = &x->slot.t,
         .offset = &x->offset.t, .place = &x->place.t, .dx = &m->e.t, .dgate_up = &x->dgate_up.t,
         .ddown = &x->ddown.t, .dweights = &m->dweights.t, .accumulate = accumulate);
}

void experts_backward(model *m, layer *l, int accumulate)
{
    experts *x = &l->x;
    if (m->dispatch)
        dispatch_backward(m, l, 1);
    else
        run_experts_back(m, l, accumulate);
    CALL(m->r, moe_router_backward, .logits = &x->logits.t, .index = &x->index.t, .lse = &x->lse.t,
         .counts = &x->counts.t, .dweights = &m->dweights.t, .dbalance = &m->dbalance.t,
         .dlogits = &m->dlogits.t, .renormalise = !m->o->raw_weights);
    CALL(m->r, gemm, .a = &m->dlogits.t, .b = &l->normed2.t, .c = &x->router.g.t, .trans_a = 1,
         .beta = accumulate);
    CALL(m->r, gemm, .a = &m->dlogits.t, .b = &x->router.p.t, .c = &m->e.t, .beta = 1);
}

void experts_products(model *m, layer *l, int accumulate)
{
    run_experts(m, l);
    run_experts_back(m, l, accumulate);
}
